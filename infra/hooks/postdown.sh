#!/bin/sh
# After `azd down`: the app registration that preprovision made goes, too. One that was given stays.
set -eu
[ -n "${LUCIUS_AUTH_REGISTERED:-}" ] || exit 0
az ad app delete --id "$LUCIUS_AUTH_REGISTERED"
azd env set LUCIUS_AUTH_AUDIENCE ""
azd env set LUCIUS_AUTH_REGISTERED ""
