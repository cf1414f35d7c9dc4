#!/bin/sh
# Prints the kinds of keys in the key vault (`callback`, `webhook`): check_keys.sh SUBSCRIPTION ENVIRONMENT [make]
# Stops if the vault has keys of a feature that LUCIUS_CALLBACKS or LUCIUS_WEBHOOKS disables. The feature would stop without an
# error, and a deployment stack would delete the vault, whose name then stays reserved for 90 days. With make, the script
# creates missing keys of enabled features. It queries Resource Manager, which shows only names and reaches a vault without
# public access.
set -eu
vault=$(az resource list --subscription "$1" --resource-type Microsoft.KeyVault/vaults --output tsv \
  --query "[?tags.application=='lucius' && tags.environment=='$2'].id | [0]")
[ -n "$vault" ] || exit 0
secrets=https://management.azure.com$vault/secrets version=api-version=2025-05-01
known=$(az rest --method GET --url "$secrets?$version" --query "value[].name" --output tsv)
umask 077
file=$(mktemp)
trap 'rm -f "$file"' EXIT

# kind SETTING KIND
kind() {
  eval "enabled=\${$1:-false}"
  case $known in
    *lucius-$2-keys*)
      [ "$enabled" = true ] || {
        echo "check_keys: ${vault##*/} has keys of $2s, but $1 is not true; set it, or disable $2s:" \
          "az keyvault secret delete --vault-name ${vault##*/} --name lucius-$2-keys" >&2
        exit 1
      }
      ;;
    *)
      [ "$enabled" = true ] && [ "$make" = make ] || return 0
      # the value is in a file, since other users can see the arguments of a command
      printf '{"properties": {"value": "k%s:%s", "contentType": "kid:base64key, with commas between"}}' \
        "$(date +%s)" "$(openssl rand -base64 32)" >"$file"
      az rest --method PUT --url "$secrets/lucius-$2-keys?$version" --body "@$file" --output none
      ;;
  esac
  echo "$2"
}
make=${3:-}
kind LUCIUS_CALLBACKS callback
kind LUCIUS_WEBHOOKS webhook
