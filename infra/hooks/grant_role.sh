#!/bin/sh
# Assigns roles of the API to a principal: grant_role.sh AUDIENCE PRINCIPAL_OBJECT_ID ROLE...
# PRINCIPAL is a user, a group, or the service principal (not the application) of a client.
set -eu
[ $# -ge 3 ] || { echo "usage: grant_role.sh AUDIENCE PRINCIPAL_OBJECT_ID ROLE..." >&2; exit 2; }
audience=$1 principal=$2
shift 2
error=$(mktemp)
trap 'rm -f "$error"' EXIT
# the service principal of a client may be seconds old
created=yes
. "$(dirname "$0")/eventually.sh"
api=$(az ad sp show --id "$audience" --query id --output tsv)
for role in "$@"; do
  role_id=$(az ad sp show --id "$audience" --query "appRoles[?value=='$role'].id | [0]" --output tsv)
  [ -n "$role_id" ] || { echo "grant_role: the API has no role $role; docs/reference/access.md lists the roles" >&2; exit 1; }
  held=$(az rest --method GET --url "https://graph.microsoft.com/v1.0/servicePrincipals/$api/appRoleAssignedTo" \
    --query "value[?principalId=='$principal' && appRoleId=='$role_id'] | length(@)" --output tsv)
  [ "$held" = 0 ] || continue
  eventually az rest --method POST --url "https://graph.microsoft.com/v1.0/servicePrincipals/$api/appRoleAssignedTo" --output none \
    --headers Content-Type=application/json \
    --body "{\"principalId\":\"$principal\",\"resourceId\":\"$api\",\"appRoleId\":\"$role_id\"}"
done
