#!/bin/sh
# Deploys the template as a deployment stack. Before that it shows what would change, and stops where something would be
# deleted, unless DELETE=true lets it: a stack otherwise deletes what has left the template, with what is in it.
# Reads AZURE_SUBSCRIPTION_ID, AZURE_LOCATION, AZURE_ENV_NAME, DENY and what the parameter file of the environment reads.
set -eu
hooks=$(dirname "$0")/../hooks
stack=lucius-$AZURE_ENV_NAME parameters=infra/bicep/$AZURE_ENV_NAME.bicepparam

stop() { echo "deploy_stack: $1" >&2; exit 1; }
# what an earlier deployment put out
output() { az stack sub show --name "$stack" --query "outputs.$1.value" --output tsv 2>/dev/null || true; }

# else the identity that deploys would be the one that runs it, with a right to documents
[ -n "${LUCIUS_SMOKE_PRINCIPAL_ID:-}" ] ||
  stop "LUCIUS_SMOKE_PRINCIPAL_ID is not set: make the identity of the smoke test (docs/guides/pipelines.md)"

sh "$hooks/check_az.sh" "$AZURE_SUBSCRIPTION_ID"
sh "$hooks/register_providers.sh" "$AZURE_SUBSCRIPTION_ID"
sh "$hooks/check_region.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_LOCATION" "$parameters"
LUCIUS_API_URL=$(output LUCIUS_API_URL) sh "$hooks/check_own.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_LOCATION" "$parameters"
sh "$hooks/check_names.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME" "$AZURE_LOCATION"

deploy() {
  az stack sub create --name "$stack" --location "$AZURE_LOCATION" --parameters "$parameters" \
    --action-on-unmanage "$unmanaged" --deny-settings-mode "${DENY:-none}" --yes --output none
}
# what the template reads of the vault and of the registry; before the first deployment there is neither
read_places() {
  LUCIUS_KEYS=$(sh "$hooks/check_keys.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME" "$@")
  LUCIUS_REGISTRY=$(output LUCIUS_REGISTRY)
  export LUCIUS_REGISTRY
  LUCIUS_SERVICE_TAG=$(sh "$hooks/build_images.sh")
  export LUCIUS_KEYS LUCIUS_SERVICE_TAG
}
read_places

# the result is a resource of its own, which goes after an hour
changes=$(az stack-whatif sub create --name "$stack-$(date +%s)" --location "$AZURE_LOCATION" --retention-interval PT1H \
  --stack-id "/subscriptions/$AZURE_SUBSCRIPTION_ID/providers/Microsoft.Resources/deploymentStacks/$stack" \
  --parameters "$parameters" --action-on-unmanage deleteResources --deny-settings-mode "${DENY:-none}" --no-pretty-print \
  --query "properties.changes.resourceChanges[].[changeType, id || symbolicName]" --output tsv)
# a template always has resources: without one line the answer was another than expected, and says nothing of deletions
[ -n "$changes" ] || stop "az stack-whatif shows no resource, so it cannot be seen what would be deleted"
printf '%s\n' "$changes" | sort | tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}"
deleted=$(printf '%s\n' "$changes" | grep -ic '^delete' || true)
if [ "${DELETE:-false}" = true ]; then
  unmanaged=deleteResources
else
  [ "$deleted" = 0 ] || stop "$deleted resources would be deleted (above); run it again with delete, or keep them in the template"
  # nothing is deleted by mistake either
  unmanaged=detachAll
fi

deploy
before="$LUCIUS_KEYS $LUCIUS_SERVICE_TAG"
read_places make
# the first deployment has made the registry or the vault: now with what is in it
[ "$LUCIUS_KEYS $LUCIUS_SERVICE_TAG" = "$before" ] || deploy
