#!/bin/sh
# Sets the limits of each quota in infra/quotas.yaml. Runs after `azd provision` and after `azd deploy`, because the app does
# not exist at the first `azd provision`. Idempotent. The script prints an error, which stops neither command, because the
# first caller gets a role later (docs/guides/deploy.md, "The first job").
set -eu
file=infra/quotas.yaml
grep -q '^ *- ' "$file" || exit 0
later() {
  echo "quotas not applied: $1; then run lucius quota apply $file"
  exit 0
}
[ -n "${LUCIUS_API_URL:-}" ] || later "LUCIUS_API_URL is not set; deploy first"
curl -sf -o /dev/null --max-time 10 "$LUCIUS_API_URL/v1/health/live" || later "$LUCIUS_API_URL does not respond; wait until the app runs"
lucius=.venv/bin/lucius
[ -x "$lucius" ] || lucius=$(command -v lucius) || later "the command lucius is not installed; run make setup"
token=${LUCIUS_TOKEN:-}
if [ -z "$token" ] && [ -n "${LUCIUS_AUTH_AUDIENCE:-}" ]; then
  token=$(az account get-access-token --scope "$LUCIUS_AUTH_AUDIENCE/.default" --query accessToken -o tsv) ||
    later "az returns no token for LUCIUS; run az login"
fi
LUCIUS_API=$LUCIUS_API_URL LUCIUS_TOKEN=$token "$lucius" quota apply "$file" --reason "azd: $file" ||
  later "lucius quota apply failed; the caller needs orch:read, orch:quota, orch:all-tenants:read and orch:all-tenants:operate"
