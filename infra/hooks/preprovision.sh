#!/bin/sh
# Before `azd provision`: checks az, registers resource providers, checks the region, existing resources, keys and names, and
# creates the audience of tokens and missing images. Reads AZURE_SUBSCRIPTION_ID, AZURE_LOCATION, AZURE_ENV_NAME. Writes
# LUCIUS_KEYS, LUCIUS_SERVICE_TAG and, if LUCIUS_AUTH_AUDIENCE is unset, LUCIUS_AUTH_AUDIENCE and LUCIUS_AUTH_REGISTERED to
# azd's environment.
set -eu
hooks=$(dirname "$0")
# the parameter file of azure.yaml, which azd uses
parameters=infra/bicep/$(sed -n 's/^ *module: *//p' azure.yaml).bicepparam

sh "$hooks/check_az.sh" "$AZURE_SUBSCRIPTION_ID"
sh "$hooks/register_providers.sh" "$AZURE_SUBSCRIPTION_ID"
sh "$hooks/check_region.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_LOCATION" "$parameters"
sh "$hooks/check_own.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_LOCATION" "$parameters"
keys=$(sh "$hooks/check_keys.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME")
sh "$hooks/check_names.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME" "$AZURE_LOCATION" "$parameters"

if [ -z "${LUCIUS_AUTH_AUDIENCE:-}" ]; then
  audience=$(sh "$hooks/register_app.sh" --mark "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME")
  azd env set LUCIUS_AUTH_AUDIENCE "$audience"
fi

# values of the vault and of the registry for the template; neither exists before the first deployment
remember() { eval "known=\${$1:-}"; [ "$known" = "$2" ] || azd env set "$1" "$2"; }
remember LUCIUS_KEYS "$(echo $keys)"
remember LUCIUS_SERVICE_TAG "$(sh "$hooks/build_images.sh")"
