#!/bin/sh
# Makes the app registration that stands for the API: tokens of version 2, LUCIUS's scopes as app roles, and one delegated
# scope so that people can get a token through the Azure CLI. Prints its client id: the audience of tokens.
# Usage: register_app.sh NAME. Run again, it brings the registration of that name up to date.
set -eu
name=${1:?usage: register_app.sh NAME}
#: the Azure CLI's own client id, the same in every tenant
azure_cli=04b07795-8ddb-461a-bbee-02f9e1bf7b46

app=$(az ad app list --filter "displayName eq '$name'" --query "[0].appId" --output tsv)
if [ -z "$app" ] || [ "$app" = None ]; then
  app=$(az ad app create --display-name "$name" --sign-in-audience AzureADMyOrg --query appId --output tsv)
fi
object=$(az ad app show --id "$app" --query id --output tsv)

# ids of roles and scopes must stay the same from run to run: they are made of the application's own id
id() { printf '%s-%s' "$app" "$1" | sha256sum | sed -E 's/^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*/\1-\2-4\3-8\4-\5/'; }
role() {
  printf '{"id":"%s","value":"%s","displayName":"%s","description":"%s","allowedMemberTypes":["User","Application"],"isEnabled":true}' \
    "$(id "$1")" "$1" "$1" "$2"
}
scope=$(id access)
az rest --method PATCH --url "https://graph.microsoft.com/v1.0/applications/$object" --headers Content-Type=application/json \
  --output none --body "{
  \"identifierUris\": [\"api://$app\"],
  \"api\": {
    \"requestedAccessTokenVersion\": 2,
    \"oauth2PermissionScopes\": [{\"id\": \"$scope\", \"value\": \"access\", \"type\": \"User\", \"isEnabled\": true,
      \"adminConsentDisplayName\": \"Call LUCIUS\", \"adminConsentDescription\": \"Call LUCIUS as yourself, with the roles that you were given\"}]
  },
  \"appRoles\": [
    $(role orch:read 'Reads jobs'),
    $(role orch:operate 'Submits, controls and redrives jobs'),
    $(role orch:quota 'Changes limits'),
    $(role orch:admin 'Uses the admin routes and rejected messages'),
    $(role orch:all-tenants 'Sees the jobs of every tenant')
  ]
}"
# a pre-authorised client can only name a scope that is there already
az rest --method PATCH --url "https://graph.microsoft.com/v1.0/applications/$object" --headers Content-Type=application/json \
  --output none --body "{\"api\": {\"preAuthorizedApplications\": [{\"appId\": \"$azure_cli\", \"delegatedPermissionIds\": [\"$scope\"]}]}}"
az ad sp show --id "$app" --output none 2>/dev/null || az ad sp create --id "$app" --output none
echo "$app"
