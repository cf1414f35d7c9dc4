#!/bin/sh
# After `azd provision`: what the template needs and only it can make a place for, images of platform services in the registry and
# keys in the key vault. If one was missing, azd provisions again. Then the quotas that are kept as a file.
set -eu
hooks=$(dirname "$0") again=

# needs SETTING VALUE: what the next deployment reads
needs() {
  eval "known=\${$1:-}"
  [ "$known" = "$2" ] && return
  azd env set "$1" "$2"
  export "$1=$2"
  again=yes
}
keys=$(sh "$hooks/check_keys.sh" "$AZURE_SUBSCRIPTION_ID" "$AZURE_ENV_NAME" make)
needs LUCIUS_KEYS "$(echo $keys)"
needs LUCIUS_SERVICE_TAG "$(sh "$hooks/build_images.sh")"
if [ -n "$again" ]; then
  # the second run finds all of it; if not, it would provision for ever
  [ -z "${LUCIUS_AGAIN:-}" ] || { echo "postprovision: azd does not keep what azd env set wrote: azd provision" >&2; exit 1; }
  export LUCIUS_AGAIN=yes
  exec azd provision --no-prompt
fi
exec sh "$hooks/apply_quotas.sh"
