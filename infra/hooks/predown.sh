#!/bin/sh
# Before `azd down`, which deletes the ledger, the only record of all jobs. Lists deleted and remaining resources, and
# prompts for the name of the environment. Programs set LUCIUS_DELETE to the name.
set -eu
[ -z "${LUCIUS_RESOURCE_GROUP:-}" ] || {
  echo "predown: the resource group $LUCIUS_RESOURCE_GROUP is yours, and azd would delete it with all its resources; delete the resources with" \
    "the tag azd-env-name=$AZURE_ENV_NAME instead (docs/guides/own-resources.md)" >&2
  exit 1
}
# nothing was deployed, or everything is deleted already
[ -n "${LUCIUS_LEDGER_ACCOUNT:-}" ] || exit 0
cat >&2 <<END
azd down deletes the environment $AZURE_ENV_NAME, with
  the ledger in $LUCIUS_LEDGER_ACCOUNT: every job, its history and its archive
  documents, workspaces, results and files of runs, anchors, the messages of the bus, protocols, logs, images
Not deleted:
${LUCIUS_KEY_VAULT:+  the name of the key vault $LUCIUS_KEY_VAULT, which Azure reserves for 90 days
}  the role assignment on your own registry
  app registrations of pipelines, and one that you named in LUCIUS_AUTH_AUDIENCE
  your own resources: network, zones, workspace, registry, action groups
END
answer=${LUCIUS_DELETE:-}
[ -n "$answer" ] || { printf 'Type %s to delete it: ' "$AZURE_ENV_NAME" >&2; read -r answer || answer=; }
[ "$answer" = "$AZURE_ENV_NAME" ] || { echo "predown: nothing was deleted; the answer was not $AZURE_ENV_NAME" >&2; exit 1; }
