#!/bin/sh
# Writes keys of callbacks or webhooks into the key vault, without showing them: rotate_keys.sh callback|webhook [finish]
# Adds a new key before the existing keys. The new key signs, and all keys verify. With finish, only the first key stays. Reads
# LUCIUS_KEY_VAULT. Lets App Service read the new value, and restarts the app LUCIUS_FUNCTION_APP of AZURE_RESOURCE_GROUP.
set -eu
usage() { echo "usage: rotate_keys.sh callback|webhook [finish]" >&2; exit 2; }
case ${1:-} in callback | webhook) secret=lucius-$1-keys ;; *) usage ;; esac
case ${2:-} in '' | finish) ;; *) usage ;; esac
[ -n "${LUCIUS_KEY_VAULT:-}" ] || {
  echo "rotate_keys: this environment has no key vault; run azd env set LUCIUS_CALLBACKS true (or LUCIUS_WEBHOOKS), then azd provision" >&2
  exit 1
}
umask 077
file=$(mktemp)
trap 'rm -f "$file"' EXIT
known=$(az keyvault secret list --vault-name "$LUCIUS_KEY_VAULT" --query "[?name=='$secret'].name" --output tsv)
keys=
[ -z "$known" ] || keys=$(az keyvault secret show --vault-name "$LUCIUS_KEY_VAULT" --name "$secret" --query value --output tsv)
if [ "${2:-}" = finish ]; then
  [ -n "$keys" ] || { echo "rotate_keys: $LUCIUS_KEY_VAULT has no keys of $1s; run rotate_keys.sh $1" >&2; exit 1; }
  keys=${keys%%,*}
else
  # ids of keys must be unique, so the id is the time
  keys=k$(date +%s):$(openssl rand -base64 32)${keys:+,$keys}
fi
printf '%s' "$keys" >"$file"
# az reads the value from a file, since other users can see the arguments of a command
az keyvault secret set --vault-name "$LUCIUS_KEY_VAULT" --name "$secret" --file "$file" --output none
[ -z "${LUCIUS_FUNCTION_APP:-}" ] || {
  # a restart alone can use the secret that App Service cached, for up to a day (azure-docs issue 100848)
  app=/subscriptions/{subscriptionId}/resourceGroups/$AZURE_RESOURCE_GROUP/providers/Microsoft.Web/sites/$LUCIUS_FUNCTION_APP
  az rest --method POST --output none \
    --url "$app/config/configreferences/appsettings/refresh?api-version=2022-03-01"
  az functionapp restart --resource-group "$AZURE_RESOURCE_GROUP" --name "$LUCIUS_FUNCTION_APP" --output none
}
echo "$LUCIUS_KEY_VAULT: $secret has $(printf '%s' "$keys" | tr ',' '\n' | grep -c :) keys"
