#!/bin/sh
# After `azd provision`: creates images of platform services in the registry and keys in the key vault. The template
# creates the registry and the vault, and needs these contents. If content was missing, azd provisions again. Then applies the quotas of
# infra/quotas.yaml.
set -eu
hooks=$(dirname "$0") again=

# needs SETTING VALUE: stores a setting for the next deployment
needs() {
  eval "known=\${$1:-}"
  [ "$known" = "$2" ] && return
  azd env set "$1" "$2"
  export "$1=$2"
  again=yes
}
keys=$(sh "$hooks/check_keys.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME" make)
needs LUCIUS_KEYS "$(echo $keys)"
needs LUCIUS_SERVICE_TAG "$(sh "$hooks/build_images.sh")"
if [ -n "$again" ]; then
  # the second run finds all contents; otherwise azd would provision in an endless loop
  [ -z "${LUCIUS_AGAIN:-}" ] || { echo "postprovision: azd did not keep the settings of azd env set; run azd provision again" >&2; exit 1; }
  export LUCIUS_AGAIN=yes
  exec azd provision --no-prompt
fi
exec sh "$hooks/apply_quotas.sh"
