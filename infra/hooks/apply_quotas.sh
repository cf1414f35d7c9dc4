#!/bin/sh
# After `azd provision` and after `azd deploy`, since the first provision precedes the app: sets the limits of each quota
# of infra/quotas.yaml. Idempotent. It prints an error that prevents this, which stops
# neither command: the first caller gets its role later (docs/guides/deploy.md, "The first job").
set -eu
file=infra/quotas.yaml
grep -q '^ *- ' "$file" || exit 0
later() {
  echo "quotas: $1; later: lucius quota apply $file"
  exit 0
}
[ -n "${LUCIUS_API_URL:-}" ] || later "LUCIUS_API_URL is not set"
curl -sf -o /dev/null --max-time 10 "$LUCIUS_API_URL/v1/health/live" || later "$LUCIUS_API_URL does not respond"
lucius=.venv/bin/lucius
[ -x "$lucius" ] || lucius=$(command -v lucius) || later "the command lucius is not installed: make setup"
token=${LUCIUS_TOKEN:-}
if [ -z "$token" ] && [ -n "${LUCIUS_AUTH_AUDIENCE:-}" ]; then
  token=$(az account get-access-token --scope "$LUCIUS_AUTH_AUDIENCE/.default" --query accessToken -o tsv) ||
    later "az returns no token for LUCIUS"
fi
LUCIUS_API=$LUCIUS_API_URL LUCIUS_TOKEN=$token "$lucius" quota apply "$file" --reason "azd: $file" ||
  later "not applied; the caller needs orch:quota and orch:all-tenants:operate"
