#!/bin/sh
# After `azd down`: deletes the app registration that preprovision created. Idempotent. A registration of the user, or
# without the tag of this environment, stays.
set -eu
app=${LUCIUS_AUTH_REGISTERED:-}
[ -n "$app" ] || exit 0
error=$(mktemp)
trap 'rm -f "$error"' EXIT
if tags=$(az ad app show --id "$app" --query "join(' ', tags)" --output tsv 2>"$error"); then
  case " $tags " in
    *" lucius:$AZURE_SUBSCRIPTION_ID:$AZURE_ENV_NAME "*) az ad app delete --id "$app" ;;
    *) echo "postdown: the app registration $app stays, because it lacks the tag of this environment" >&2 ;;
  esac
else
  # the registration is deleted already
  grep -q "does not exist" "$error" || { cat "$error" >&2; exit 1; }
fi
azd env set LUCIUS_AUTH_AUDIENCE ""
azd env set LUCIUS_AUTH_REGISTERED ""
