#!/bin/sh
# Registers the resource providers of the templates that the subscription lacks: register_providers.sh SUBSCRIPTION
set -eu
registered=$(az provider list --subscription "$1" --query "[?registrationState=='Registered'].namespace" --output tsv)
for provider in Microsoft.App Microsoft.AppConfiguration Microsoft.Consumption Microsoft.ContainerRegistry Microsoft.DurableTask Microsoft.Insights \
  Microsoft.KeyVault Microsoft.ManagedIdentity Microsoft.Network Microsoft.OperationalInsights Microsoft.ServiceBus \
  Microsoft.Storage Microsoft.Web; do
  # Azure spells some providers in lower case
  printf '%s\n' "$registered" | grep -qix "$provider" ||
    az provider register --subscription "$1" --namespace "$provider" --wait --output none
done
