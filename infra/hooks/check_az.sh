#!/bin/sh
# Stops with one line unless az has the minimum version and is signed in to the tenant of the subscription: check_az.sh SUBSCRIPTION
set -eu
#: the first version with `az stack-whatif`, which shows the deletions of a deployment stack
least=2.89.0

stop() { echo "check_az: $1" >&2; exit 1; }

command -v az >/dev/null || stop "install the Azure CLI: https://aka.ms/azcli"
version=$(az version --query '"azure-cli"' --output tsv)
older=$(printf '%s\n%s\n' "$least" "$version" | sort -t . -k 1,1n -k 2,2n -k 3,3n | head -n 1)
[ "$older" = "$least" ] || stop "az $version is older than $least; run az upgrade"

# az sends Graph requests to the tenant of az's default subscription, which only the user can change
tenant=$(az account show --query tenantId --output tsv 2>/dev/null) || stop "az is not signed in; run az login"
theirs=$(az account show --subscription "$1" --query tenantId --output tsv 2>/dev/null) ||
  stop "az does not know the subscription $1; run az login with an account that can read the subscription"
[ "$tenant" = "$theirs" ] ||
  stop "az's default subscription is in another tenant than $1; run az account set --subscription $1"
