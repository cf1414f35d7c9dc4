#!/bin/sh
# Stops with one line if existing resources of a company do not fit: subnets, zones, workspace, action groups, registry,
# resource group, services, and room for role assignments. Usage: check_own.sh SUBSCRIPTION REGION PARAMETER_FILE
set -eu
subscription=$1 region=$2 parameters=$3

stop() { echo "check_own: $1" >&2; exit 1; }

# exists SETTING ID QUERY: prints the result of QUERY on the resource
exists() {
  az resource show --ids "$2" --query "$3" --output tsv 2>/dev/null ||
    stop "$1: $2 not found, or you cannot read it; az resource show --ids ID must show it"
}

# subnet SETTING DELEGATION ARGUMENTS: stops unless the subnet is in the region and has the delegation (`nothing`: none).
# ARGUMENTS of `az network vnet subnet update` repair the delegation
subnet() {
  eval "id=\${$1:-}"
  [ -n "$id" ] || stop "$1 is not set: set LUCIUS_APP_SUBNET_ID, LUCIUS_ENDPOINT_SUBNET_ID and, unless LUCIUS_PLATFORM_SERVICES is none, LUCIUS_CONTAINER_SUBNET_ID (docs/guides/own-resources.md)"
  delegated=$(exists "$1" "$id" "properties.delegations[].properties.serviceName | [0] || 'nothing'")
  [ "$delegated" = "$2" ] || stop "$1: the subnet is delegated to $delegated, not to $2: az network vnet subnet update --ids $id $3"
  network=${id%/subnets/*}
  at=$(exists "$1" "$network" location)
  [ "$at" = "$region" ] || stop "$1: the network is in $at, and the app would be in $region; use a subnet there, or AZURE_LOCATION=$at"
}

if [ -n "${LUCIUS_APP_SUBNET_ID:-}${LUCIUS_ENDPOINT_SUBNET_ID:-}${LUCIUS_CONTAINER_SUBNET_ID:-}${LUCIUS_PRIVATE_DNS_ZONES:-}" ]; then
  grep -q '^param ownNetwork' "$parameters" || stop "$parameters has no network; use prod (infra.module in azure.yaml)"
fi
if [ -n "${LUCIUS_APP_SUBNET_ID:-}${LUCIUS_ENDPOINT_SUBNET_ID:-}${LUCIUS_CONTAINER_SUBNET_ID:-}" ]; then
  plan=Microsoft.App/environments
  ! grep -qE "^param hosting = '(ElasticPremium|AppService)'" "$parameters" || plan=Microsoft.Web/serverFarms
  subnet LUCIUS_APP_SUBNET_ID "$plan" "--delegations $plan"
  case $plan/${LUCIUS_APP_SUBNET_ID##*/} in
    Microsoft.App/*_*) stop "LUCIUS_APP_SUBNET_ID: Flex Consumption accepts no subnet with _ in its name; create another subnet" ;;
  esac
  subnet LUCIUS_ENDPOINT_SUBNET_ID nothing "--remove delegations"
  [ "${LUCIUS_PLATFORM_SERVICES:-all}" = none ] || {
    subnet LUCIUS_CONTAINER_SUBNET_ID Microsoft.App/environments "--delegations Microsoft.App/environments"
    prefix=$(exists LUCIUS_CONTAINER_SUBNET_ID "$id" "properties.addressPrefix || properties.addressPrefixes[0]")
    [ "${prefix##*/}" -le 27 ] || stop "LUCIUS_CONTAINER_SUBNET_ID: $prefix is too small: container apps need a /27 or larger"
  }
  [ "$LUCIUS_APP_SUBNET_ID" != "${LUCIUS_CONTAINER_SUBNET_ID:-}" ] ||
    stop "LUCIUS_CONTAINER_SUBNET_ID is the app's subnet: container apps need a subnet of their own, a /27 or larger"
fi
case ${LUCIUS_PRIVATE_DNS_ZONES:-none} in
  none) ;;
  /subscriptions/*/resourceGroups/*)
    # the zones of the template; the zones of telemetry only if the template creates a private link for telemetry
    for zone in $(sed -n "s/^  [a-zA-Z]*: '\(privatelink[^']*\)'.*/\1/p" infra/bicep/modules/private-dns.bicep |
      sed 's/\${environment().suffixes.storage}/core.windows.net/'); do
      case $zone in
        *.monitor.* | *.opinsights.* | *.azure-automation.*) [ -z "${LUCIUS_WORKSPACE_ID:-}" ] || continue ;;
      esac
      exists LUCIUS_PRIVATE_DNS_ZONES "$LUCIUS_PRIVATE_DNS_ZONES/providers/Microsoft.Network/privateDnsZones/$zone" id >/dev/null
    done
    ;;
  *) stop "LUCIUS_PRIVATE_DNS_ZONES is neither none nor the id of a resource group: az group show --name GROUP --query id" ;;
esac
if [ -n "${LUCIUS_WORKSPACE_ID:-}" ]; then
  at=$(exists LUCIUS_WORKSPACE_ID "$LUCIUS_WORKSPACE_ID" location)
  [ "$at" = "$region" ] || stop "LUCIUS_WORKSPACE_ID: the workspace is in $at, and its alerts would be in $region; use a workspace there, or AZURE_LOCATION=$at"
fi
[ -z "${LUCIUS_REGISTRY_ID:-}" ] || exists LUCIUS_REGISTRY_ID "$LUCIUS_REGISTRY_ID" id >/dev/null
for group in $(printf '%s' "${LUCIUS_ALERT_ACTION_GROUPS:-}" | tr ',' ' '); do
  exists LUCIUS_ALERT_ACTION_GROUPS "$group" id >/dev/null
done
[ -z "${LUCIUS_RESOURCE_GROUP:-}" ] ||
  [ "$(az group exists --subscription "$subscription" --name "$LUCIUS_RESOURCE_GROUP")" = true ] ||
  stop "LUCIUS_RESOURCE_GROUP: resource group not found: $LUCIUS_RESOURCE_GROUP; az group create --name $LUCIUS_RESOURCE_GROUP --location $region"

services=$(printf '%s' "${LUCIUS_PLATFORM_SERVICES:-all}" | tr ',' ' ')
case $services in
  all | none) ;;
  *)
    for service in $services; do
      grep -q "\"name\": \"$service\"" infra/bicep/topology.json ||
        stop "LUCIUS_PLATFORM_SERVICES names $service, which infra/bicep/topology.json does not have; add it there, or remove it"
    done
    ;;
esac

# an environment has fewer than 200 role assignments (docs/guides/own-resources.md), and only the first deployment creates them
held=$(az role assignment list --subscription "$subscription" --all --fill-principal-name false --output tsv \
  --query "length([?starts_with(scope, '/subscriptions/')])")
[ "$held" -le 3800 ] || [ -n "${LUCIUS_API_URL:-}" ] ||
  stop "the subscription has $held role assignments of 4000, and an environment needs 200; use another subscription, or remove assignments"
