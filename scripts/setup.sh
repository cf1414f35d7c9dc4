#!/bin/sh
# Makes .venv and node_modules from the pinned files; does nothing when they are up to date.
# PYTHON=/path/to/python names the interpreter. Whatever is missing or wrong ends it with one line.
set -eu
cd "$(dirname "$0")/.."

die() { echo "setup: $*" >&2; exit 1; }

# run LOG WHAT COMMAND...: quiet; on failure one line with the last thing it said, the rest in LOG
run() {
    log=$1 what=$2
    shift 2
    "$@" >"$log" 2>&1 || die "$what: $(grep -v '^ *$' "$log" | grep -iE 'error|denied|no space' | tail -n 1) (whole output: $log)"
}

fits() { "$1" -c 'import sys; raise SystemExit(not ((3, 11) <= sys.version_info < (3, 13)))' >/dev/null 2>&1; }
minor() { "$1" -c 'import sys; print(sys.version_info[:2])'; }
if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || die "PYTHON=$PYTHON is not Python 3.11 or 3.12"
fi

# a .venv that stands is kept, whatever else is on PATH by now; what it cannot survive is a move
keep=
if [ "$(cat .venv/.home 2>/dev/null || true)" = "$(pwd -P)" ] && fits .venv/bin/python; then
    [ -n "${PYTHON:-}" ] && [ "$(minor "$PYTHON")" != "$(minor .venv/bin/python)" ] || keep=yes
fi
python=${PYTHON:-}
if [ -z "$keep$python" ]; then
    for candidate in python3.12 python3.11 python3 python; do
        if fits "$candidate"; then python=$candidate; break; fi
    done
    [ -n "$python" ] || die "needs Python 3.11 or 3.12 on PATH (or PYTHON=/path/to/python make setup); found: $( (python3 --version 2>&1 || echo none) | head -n 1)"
fi

command -v node >/dev/null 2>&1 || die "needs Node.js 18 or newer on PATH (for Azurite); install it from your package manager or nodejs.org"
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' || die "needs Node.js 18 or newer; found $(node --version)"
command -v npm >/dev/null 2>&1 || die "needs npm on PATH (it comes with Node.js)"

if [ -z "$keep" ]; then
    "$python" -c 'import ensurepip, venv' 2>/dev/null \
        || die "Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"
    echo "setup: Python packages into .venv ($("$python" --version)); about a minute"
    rm -rf .venv
    mkdir .venv || die "cannot write into $(pwd)"
    run .venv/setup.log "could not make .venv" "$python" -m venv .venv
    pwd -P >.venv/.home
fi

pins=$(cat requirements.txt requirements-dev.txt constraints.txt packages/*/pyproject.toml | cksum)
if [ "$(cat .venv/.pins 2>/dev/null || true)" != "$pins" ]; then
    pip=".venv/bin/python -m pip --disable-pip-version-check --no-input"
    run .venv/setup.log "pip could not install requirements-dev.txt" $pip install -r requirements-dev.txt -c constraints.txt
    run .venv/setup.log "pip could not install the packages" $pip install --no-deps --no-build-isolation \
        --config-settings editable_mode=compat \
        -e packages/servicebus-emulator -e packages/functions-emulator \
        -e packages/lucius-client -e packages/lucius-service
    echo "$pins" >.venv/.pins
fi

lock=$(cat package.json package-lock.json | cksum)
if [ "$(cat node_modules/.pins 2>/dev/null || true)" != "$lock" ]; then
    echo "setup: Azurite into node_modules ($(node --version))"
    run .venv/npm.log "npm ci failed" npm ci --no-audit --no-fund
    echo "$lock" >node_modules/.pins
fi
