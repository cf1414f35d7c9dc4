#!/bin/sh
# Installs the missing packages of apt.txt: as root, or with CI=true and a sudo without a password.
# Otherwise the script changes nothing. The script skips a package that apt-get cannot install. Tests that need a missing package
# do not run, and `make test` lists them at the end.
set -eu
cd "$(dirname "$0")/.."
command -v apt-get >/dev/null 2>&1 && command -v dpkg >/dev/null 2>&1 || exit 0

has() { for program; do command -v "$program" >/dev/null 2>&1 && return; done; return 1; }

missing=
while read -r package; do
    dpkg -s "$package" >/dev/null 2>&1 && continue
    # Ubuntu has no package chromium; any Chromium-based browser works
    [ "$package" = chromium ] && has chromium-browser google-chrome google-chrome-stable microsoft-edge && continue
    missing="$missing $package"
done <apt.txt
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif [ "${CI:-}" = true ] && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    exit 0
fi
echo "test: apt-get install$missing"
$as_root apt-get update -qq || true
for package in $missing; do
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$package" >/dev/null \
        || echo "test: apt-get could not install $package" >&2
done
