#!/bin/sh
# Creates or updates the app registration of the API: tokens of version 2, LUCIUS's scopes as app roles, and one
# delegated scope, with which users can get a token through the Azure CLI. Prints the registration's client id, the audience of tokens.
# Usage: register_app.sh [--mark] SUBSCRIPTION ENVIRONMENT [CLIENT_ID]
#
# The registration has a tag of subscription and environment. Updates an existing registration with this tag only if CLIENT_ID
# names the registration, since any user of the tenant can create one. Additions of others stay. --mark stores the id of a new
# registration in azd's environment, for postdown.sh.
set -eu
mark=
[ "${1:-}" != --mark ] || { mark=yes; shift; }
[ $# = 2 ] || [ $# = 3 ] || { echo "usage: register_app.sh [--mark] SUBSCRIPTION ENVIRONMENT [CLIENT_ID]" >&2; exit 2; }
tag=lucius:$1:$2 name=lucius-$2
applications=https://graph.microsoft.com/v1.0/applications
#: the Azure CLI's own client id, the same in every tenant
azure_cli=04b07795-8ddb-461a-bbee-02f9e1bf7b46

stop() { echo "register_app: $1" >&2; exit 1; }
error=$(mktemp)
trap 'rm -f "$error"' EXIT

created=
. "$(dirname "$0")/eventually.sh"

# ids of roles and scopes must stay the same from run to run
id() {
  if command -v sha256sum >/dev/null; then hash=$(printf '%s' "$tag-$1" | sha256sum)
  else hash=$(printf '%s' "$tag-$1" | shasum -a 256 2>/dev/null) || true; fi
  printf '%s\n' "$hash" | sed -nE 's/^([0-9a-f]{8})([0-9a-f]{4}).([0-9a-f]{3}).([0-9a-f]{3})([0-9a-f]{12}).*/\1-\2-4\3-8\4-\5/p' |
    grep . || stop "sha256sum and shasum are missing; install one"
}
# checks before any change that a program for hashes exists
access=$(id access)
# returns a JSON list with one more item
with() { if [ "$1" = '[]' ]; then printf '[%s]' "$2"; else printf '%s,%s]' "${1%]}" "$2"; fi; }
patch() {
  eventually az rest --method PATCH --url "$applications(appId='$app')" --headers Content-Type=application/json \
    --output none --body "$1"
}

# ---- the registration

app=${3:-}
# an interrupted run may have created the registration, even if a search does not show it yet
if [ -n "$mark" ] && [ -n "${LUCIUS_AUTH_REGISTERED:-}" ] &&
  az ad app show --id "$LUCIUS_AUTH_REGISTERED" --output none 2>/dev/null; then
  app=$LUCIUS_AUTH_REGISTERED
fi
if [ -z "$app" ]; then
  found=$(az ad app list --filter "tags/any(t:t eq '$tag')" --query "[].appId" --output tsv | tr '\n' ' ')
  [ -z "$found" ] ||
    stop "$name is registered already, as $found(tag $tag); if it is yours: azd env set LUCIUS_AUTH_AUDIENCE CLIENT_ID"
  # not `az ad app create`, which changes an existing registration of this name
  app=$(az rest --method POST --url "$applications" --headers Content-Type=application/json --query appId --output tsv \
    --body "{\"displayName\": \"$name\", \"signInAudience\": \"AzureADMyOrg\", \"tags\": [\"$tag\"]}" 2>"$error") ||
    stop "$name cannot be registered ($(tr '\n' ' ' <"$error" | cut -c 1-200)): get Application Developer, or azd env set LUCIUS_AUTH_AUDIENCE CLIENT_ID"
  created=yes
  [ -z "$mark" ] || azd env set LUCIUS_AUTH_REGISTERED "$app" >&2
fi

# ---- the registration's current values, each as one line of JSON

held=$(eventually az rest --method GET --url "$applications(appId='$app')" --output tsv --query "[
  to_string(identifierUris),
  to_string(appRoles[].{id: id, value: value, displayName: displayName, description: description,
    allowedMemberTypes: allowedMemberTypes, isEnabled: isEnabled}),
  to_string(api.oauth2PermissionScopes[].{id: id, value: value, type: type, isEnabled: isEnabled,
    adminConsentDisplayName: adminConsentDisplayName, adminConsentDescription: adminConsentDescription,
    userConsentDisplayName: userConsentDisplayName, userConsentDescription: userConsentDescription}),
  to_string(api.preAuthorizedApplications[?appId!='$azure_cli'].{appId: appId, delegatedPermissionIds: delegatedPermissionIds}),
  to_string(api.preAuthorizedApplications[?appId=='$azure_cli'].delegatedPermissionIds[]),
  to_string(api.oauth2PermissionScopes[?value=='access'].id)]")
line() { printf '%s\n' "$held" | sed -n "$1p" | sed 's/^null$/[]/'; }
uris=$(line 1) roles=$(line 2) scopes=$(line 3) clients=$(line 4) cli=$(line 5) scope=$(line 6 | tr -d '[]"')

# ---- missing values

case $uris in *"\"api://$app\""*) ;; *) uris=$(with "$uris" "\"api://$app\"") ;; esac
role() {
  case $roles in *"\"value\":\"$1\""*) return ;; esac
  role_id=$(id "$1")
  roles=$(with "$roles" "{\"id\":\"$role_id\",\"value\":\"$1\",\"displayName\":\"$1\",\"description\":\"$2\",\"allowedMemberTypes\":[\"User\",\"Application\"],\"isEnabled\":true}")
}
role orch:read 'Reads jobs, events, quotas and other objects of the tenant'
role orch:operate 'Submits, controls, redrives and replays jobs, runs bulk operations, dismisses dead letters, and closes incidents'
role orch:quota 'Holds and throttles quotas of the tenant; with orch:all-tenants:operate, changes all quotas, resets breakers and admits waiting jobs'
role orch:audit 'Reads signed heads, anchors and public keys'
role orch:admin 'Calls admin routes, reads and redrives rejected messages, and manages webhooks'
role orch:all-tenants:read 'Extends rights to read to the objects of every tenant'
role orch:all-tenants:operate 'Extends rights to submit and change to every tenant'
if [ -z "$scope" ]; then
  scope=$access
  scopes=$(with "$scopes" "{\"id\":\"$scope\",\"value\":\"access\",\"type\":\"User\",\"isEnabled\":true,\"adminConsentDisplayName\":\"Call LUCIUS\",\"adminConsentDescription\":\"Call LUCIUS as yourself, with your roles\"}")
fi
case $cli in *"$scope"*) ;; *) cli=$(with "$cli" "\"$scope\"") ;; esac
clients=$(with "$clients" "{\"appId\":\"$azure_cli\",\"delegatedPermissionIds\":$cli}")

patch "{\"identifierUris\": $uris, \"appRoles\": $roles, \"api\": {\"requestedAccessTokenVersion\": 2, \"oauth2PermissionScopes\": $scopes}}"
# a pre-authorised client can only name an existing scope
patch "{\"api\": {\"preAuthorizedApplications\": $clients}}"
az ad sp show --id "$app" --output none 2>/dev/null || eventually az ad sp create --id "$app" --output none
echo "$app"
