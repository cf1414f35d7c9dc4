#!/bin/sh
# Before `azd provision`: the region is checked against what Azure offers, and tokens get an audience.
# Reads AZURE_LOCATION, AZURE_SUBSCRIPTION_ID, AZURE_ENV_NAME; writes LUCIUS_AUTH_AUDIENCE to azd's
# environment if it is not there.
set -eu

command -v az >/dev/null || { echo "preprovision: install the Azure CLI: https://aka.ms/azcli" >&2; exit 1; }
az account show --output none 2>/dev/null || { echo "preprovision: sign in: az login" >&2; exit 1; }
az account set --subscription "$AZURE_SUBSCRIPTION_ID"

for provider in Microsoft.App Microsoft.AppConfiguration Microsoft.Consumption Microsoft.DurableTask Microsoft.Insights \
  Microsoft.KeyVault Microsoft.ManagedIdentity Microsoft.Network Microsoft.OperationalInsights Microsoft.ServiceBus \
  Microsoft.Storage Microsoft.Web; do
  az provider register --namespace "$provider" --wait --output none
done

if ! az functionapp list-flexconsumption-locations --query "[].name" --output tsv | grep -qx "$AZURE_LOCATION"; then
  echo "preprovision: $AZURE_LOCATION does not offer Flex Consumption;" \
    "az functionapp list-flexconsumption-locations lists those that do" >&2
  exit 1
fi

# Azure answers with display names ("West Europe")
if [ "${LUCIUS_DURABLE_BACKEND:-DurableTaskScheduler}" = DurableTaskScheduler ] &&
  ! az provider show --namespace Microsoft.DurableTask --output tsv \
    --query "resourceTypes[?resourceType=='schedulers'].locations[]" |
    tr -d ' ' | tr '[:upper:]' '[:lower:]' | grep -qx "$AZURE_LOCATION"; then
  echo "preprovision: $AZURE_LOCATION does not offer the Durable Task Scheduler: take another region, or" \
    "azd env set LUCIUS_DURABLE_BACKEND AzureStorage" >&2
  exit 1
fi

if [ -z "${LUCIUS_AUTH_AUDIENCE:-}" ]; then
  audience=$(sh "$(dirname "$0")/register_app.sh" "lucius-$AZURE_ENV_NAME")
  azd env set LUCIUS_AUTH_AUDIENCE "$audience"
  # what postdown deletes; the audience itself is also an output, which azd forgets before that
  azd env set LUCIUS_AUTH_REGISTERED "$audience"
fi
