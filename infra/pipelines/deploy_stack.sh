#!/bin/sh
# Deploys the template as a deployment stack. First it shows the changes, and stops if a resource would be
# deleted. With DELETE=true, the stack deletes resources that are missing in the template, with their data. Reads
# AZURE_SUBSCRIPTION_ID, AZURE_LOCATION, AZURE_ENV_NAME, DENY and the variables of the environment's parameter file.
set -eu
hooks=$(dirname "$0")/../hooks
stack=lucius-$AZURE_ENV_NAME parameters=infra/bicep/$AZURE_ENV_NAME.bicepparam

stop() { echo "deploy_stack: $1" >&2; exit 1; }
# outputs of an earlier deployment
output() { az stack sub show --name "$stack" --query "outputs.$1.value" --output tsv 2>/dev/null || true; }

# without this variable, the deploying identity would get the smoke test's right to the container `smoke`
[ -n "${LUCIUS_SMOKE_PRINCIPAL_ID:-}" ] ||
  stop "LUCIUS_SMOKE_PRINCIPAL_ID is not set; create the identity of the smoke test (docs/guides/pipelines.md)"

sh "$hooks/check_az.sh" "$AZURE_SUBSCRIPTION_ID"
sh "$hooks/register_providers.sh" "$AZURE_SUBSCRIPTION_ID"
sh "$hooks/check_region.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_LOCATION" "$parameters"
LUCIUS_API_URL=$(output LUCIUS_API_URL) sh "$hooks/check_own.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_LOCATION" "$parameters"
sh "$hooks/check_names.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME" "$AZURE_LOCATION" "$parameters"

deploy() {
  az stack sub create --name "$stack" --location "$AZURE_LOCATION" --parameters "$parameters" \
    --action-on-unmanage "$unmanaged" --deny-settings-mode "${DENY:-none}" --yes --output none
}
# values of the vault and of the registry for the template; neither exists before the first deployment
read_places() {
  LUCIUS_KEYS=$(sh "$hooks/check_keys.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME" "$@")
  LUCIUS_REGISTRY=$(output LUCIUS_REGISTRY)
  export LUCIUS_REGISTRY
  LUCIUS_SERVICE_TAG=$(sh "$hooks/build_images.sh")
  export LUCIUS_KEYS LUCIUS_SERVICE_TAG
}
read_places

# the result is a separate resource, which Azure deletes after an hour
changes=$(az stack-whatif sub create --name "$stack-$(date +%s)" --location "$AZURE_LOCATION" --retention-interval PT1H \
  --stack-id "/subscriptions/$AZURE_SUBSCRIPTION_ID/providers/Microsoft.Resources/deploymentStacks/$stack" \
  --parameters "$parameters" --action-on-unmanage deleteResources --deny-settings-mode "${DENY:-none}" --no-pretty-print \
  --query "properties.changes.resourceChanges[].[changeType, id || symbolicName]" --output tsv)
# a template always has resources, so an output without resources has an unexpected form and shows no deletions
[ -n "$changes" ] || stop "az stack-whatif shows no resource, so deletions cannot be checked; see its output"
printf '%s\n' "$changes" | sort | tee -a "${GITHUB_STEP_SUMMARY:-/dev/null}"
deleted=$(printf '%s\n' "$changes" | grep -ic '^delete' || true)
if [ "${DELETE:-false}" = true ]; then
  unmanaged=deleteResources
else
  [ "$deleted" = 0 ] || stop "$deleted resources would be deleted (above); run the workflow again with delete, or keep the resources in the template"
  # this also prevents a deletion that what-if did not show
  unmanaged=detachAll
fi

deploy
before="$LUCIUS_KEYS $LUCIUS_SERVICE_TAG"
read_places make
# the first deployment created the registry or the vault; the next deployment needs their content
[ "$LUCIUS_KEYS $LUCIUS_SERVICE_TAG" = "$before" ] || deploy
