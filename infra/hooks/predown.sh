#!/bin/sh
# Before `azd down`, which deletes the ledger, the only record of all jobs: lists deleted and remaining resources, and prompts for the
# name of the environment. LUCIUS_DELETE has it for programs.
set -eu
[ -z "${LUCIUS_RESOURCE_GROUP:-}" ] || {
  echo "predown: the resource group $LUCIUS_RESOURCE_GROUP is yours, and azd would delete it with all that is in it: delete what has" \
    "the tag azd-env-name=$AZURE_ENV_NAME instead (docs/guides/own-resources.md)" >&2
  exit 1
}
# nothing was deployed, or everything is deleted already
[ -n "${LUCIUS_LEDGER_ACCOUNT:-}" ] || exit 0
cat >&2 <<END
azd down deletes the environment $AZURE_ENV_NAME, among it
  the ledger in $LUCIUS_LEDGER_ACCOUNT: every job, its history and its archive; nothing brings it back
  documents, workspaces and results, the messages of the bus, protocols, logs, images
What stays:
${LUCIUS_KEY_VAULT:+  the key vault $LUCIUS_KEY_VAULT, deleted, for 90 days; its name is taken until then
}  role assignments on resources of yours: registry, network, workspace
  app registrations of pipelines, and one that you gave in LUCIUS_AUTH_AUDIENCE
  what you gave in LUCIUS_..._ID: network, zones, workspace, registry, action groups
END
answer=${LUCIUS_DELETE:-}
[ -n "$answer" ] || { printf 'Type %s to delete it: ' "$AZURE_ENV_NAME" >&2; read -r answer || answer=; }
[ "$answer" = "$AZURE_ENV_NAME" ] || { echo "predown: nothing is deleted: the answer was not $AZURE_ENV_NAME" >&2; exit 1; }
