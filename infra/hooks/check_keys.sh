#!/bin/sh
# Stops where a vault holds keys of callbacks or webhooks that are not given: they would end without a word, and a
# deployment stack would delete the vault, whose name then stays taken for 90 days: check_keys.sh SUBSCRIPTION ENVIRONMENT
set -eu

# given SETTING VAULT
given() {
  eval "value=\${$1:-}"
  [ -n "$value" ] || {
    echo "check_keys: $1 is not set, but $2 holds it: set it again, or end what it is for:" \
      "az keyvault delete --subscription $subscription --name $2" >&2
    exit 1
  }
}

subscription=$1
vaults=$(az resource list --subscription "$1" --resource-type Microsoft.KeyVault/vaults --output tsv \
  --query "[?tags.application=='lucius' && tags.environment=='$2'].[name, tags.keys]")
while read -r vault keys; do
  case $keys in *callback*) given LUCIUS_CALLBACK_KEYS "$vault" ;; esac
  case $keys in *webhook*) given LUCIUS_WEBHOOK_KEYS "$vault" ;; esac
done <<END
$vaults
END
