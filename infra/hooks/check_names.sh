#!/bin/sh
# Stops if a deleted key vault or App Configuration store still has a name of this environment. Azure would report the conflict in
# the middle of a deployment. Key vaults count only if the parameters create one.
# Usage: check_names.sh SUBSCRIPTION ENVIRONMENT REGION PARAMETER_FILE
set -eu
subscription=$1 environment=$2 region=$3 parameters=$4

# held WHAT COMMAND PLACE: lists the deleted resources of COMMAND; az's output has their tags and location under PLACE
held() {
  name=$(az "$2" list-deleted --subscription "$subscription" --output tsv --query \
    "[?${3}tags.application=='lucius' && ${3}tags.environment=='$environment' && ${3}location=='$region'].name | [0]")
  [ -z "$name" ] || {
    echo "check_names: the deleted $1 $name still reserves its name; run az $2 purge --subscription $subscription --name $name, or, if purge protection" \
      "forbids it, choose another environment name" >&2
    exit 1
  }
}

case " ${LUCIUS_VAULT:-} ${LUCIUS_CALLBACKS:-} ${LUCIUS_WEBHOOKS:-} ${LUCIUS_SIGN_HEADS:-} " in
  *" true "*) vault=true ;;
  *) vault=$(sed -n 's/^param signHeads = \(true\)$/\1/p' "$parameters") ;;
esac
[ -z "$vault" ] || held "key vault" keyvault properties.
held "App Configuration store" appconfig ""
