#!/bin/sh
# Enables sign-in to the dashboard: allow_dashboard.sh AUDIENCE API_URL. Adds the dashboard's URL to the redirect
# URIs of the API's registration, as type SPA. With other types, Entra ID forbids a page to exchange its code (AADSTS9002326).
set -eu
[ $# = 2 ] || { echo "usage: allow_dashboard.sh AUDIENCE API_URL" >&2; exit 2; }
address=${2%/}/v1/dashboard
application="https://graph.microsoft.com/v1.0/applications(appId='$1')"
held=$(az rest --method GET --url "$application" --query "to_string(spa.redirectUris)" --output tsv)
case $held in
  *"\"$address\""*) exit 0 ;;
  null | '' | '[]') uris="[\"$address\"]" ;;
  *) uris="${held%]},\"$address\"]" ;;
esac
az rest --method PATCH --url "$application" --headers Content-Type=application/json --output none \
  --body "{\"spa\": {\"redirectUris\": $uris}}"
