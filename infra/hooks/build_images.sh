#!/bin/sh
# Builds the images of platform services that the registry lacks, and prints their tag. Does nothing without a registry.
# Reads AZURE_SUBSCRIPTION_ID and LUCIUS_REGISTRY, or LUCIUS_REGISTRY_ID of an existing registry. With LUCIUS_SERVICE_BUILD=false
# another pipeline builds the images, and LUCIUS_SERVICE_TAG is their tag.
set -eu
subscription=$AZURE_SUBSCRIPTION_ID registry=${LUCIUS_REGISTRY:-}
if [ "${LUCIUS_SERVICE_BUILD:-true}" = false ]; then
  printf '%s\n' "${LUCIUS_SERVICE_TAG:-}"
  exit
elif [ -n "${LUCIUS_REGISTRY_ID:-}" ]; then
  subscription=$(printf '%s' "$LUCIUS_REGISTRY_ID" | cut -d / -f 3) registry=${LUCIUS_REGISTRY_ID##*/}
elif [ -n "$registry" ]; then
  # azd's environment may contain the name of a deleted registry
  registry=$(az acr list --subscription "$subscription" --query "[?name=='$registry'].name" --output tsv)
fi
[ -z "$registry" ] || python3 "$(dirname "$0")/../../scripts/service_images.py" "$subscription" "$registry"
