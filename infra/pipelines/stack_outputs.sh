#!/bin/sh
# Prints outputs of the deployment stack of AZURE_ENV_NAME for the next jobs, as NAME=value.
set -eu
for name in AZURE_RESOURCE_GROUP LUCIUS_FUNCTION_APP LUCIUS_API_URL LUCIUS_AUTH_AUDIENCE LUCIUS_SERVICEBUS_NAMESPACE \
  LUCIUS_DOCUMENTS_ENDPOINT; do
  value=$(az stack sub show --name "lucius-$AZURE_ENV_NAME" --query "outputs.$name.value" --output tsv)
  [ -n "$value" ] || { echo "stack_outputs: lucius-$AZURE_ENV_NAME has no output $name: deploy the template first" >&2; exit 1; }
  echo "$name=$value"
done
