#!/bin/sh
# Stops with one line if the region lacks a service that the parameters require: check_region.sh SUBSCRIPTION REGION PARAMETER_FILE
set -eu
subscription=$1 region=$2 parameters=$3

stop() { echo "check_region: $1" >&2; exit 1; }

offered() { az functionapp list-flexconsumption-locations --subscription "$subscription" "$@" --query "[].name" --output tsv; }
offered | grep -qx "$region" ||
  stop "$region does not offer Flex Consumption; az functionapp list-flexconsumption-locations lists regions that offer it"
# defaults of the parameter file for unset variables
zones=$(sed -nE "s/^ *zoneRedundant: (readEnvironmentVariable\('LUCIUS_ZONE_REDUNDANT', ')?(true|false).*/\2/p" "$parameters")
if [ "${LUCIUS_ZONE_REDUNDANT:-$zones}" = true ] && [ -n "$zones" ]; then
  offered --zone-redundant true | grep -qx "$region" ||
    stop "$region does not offer Flex Consumption over zones; choose another region, or zoneRedundant false in $parameters"
fi
backend=$(sed -nE "s/^param durableBackend = (readEnvironmentVariable\('LUCIUS_DURABLE_BACKEND', )?'(.*)'.*/\2/p" "$parameters")
backend=${LUCIUS_DURABLE_BACKEND:-$backend}
if [ "$backend" = DurableTaskScheduler ]; then
  # Azure returns display names ("West Europe")
  az provider show --subscription "$subscription" --namespace Microsoft.DurableTask --output tsv \
    --query "resourceTypes[?resourceType=='schedulers'].locations[]" |
    tr -d ' ' | tr '[:upper:]' '[:lower:]' | grep -qx "$region" ||
    stop "$region does not offer the Durable Task Scheduler; choose another region, or LUCIUS_DURABLE_BACKEND=AzureStorage"
fi
