#!/bin/sh
# Stops where a vault of callback keys is there and the keys are not given: callbacks would end without a word, and a
# deployment stack would delete the vault, whose name then stays taken for 90 days: check_callbacks.sh SUBSCRIPTION ENVIRONMENT
set -eu
[ -z "${LUCIUS_CALLBACK_KEYS:-}" ] || exit 0
vault=$(az resource list --subscription "$1" --resource-type Microsoft.KeyVault/vaults --output tsv \
  --query "[?tags.application=='lucius' && tags.environment=='$2'].name")
[ -z "$vault" ] || {
  echo "check_callbacks: LUCIUS_CALLBACK_KEYS is not set, but $vault holds callback keys: set them again, or end" \
    "callbacks: az keyvault delete --subscription $1 --name $vault" >&2
  exit 1
}
