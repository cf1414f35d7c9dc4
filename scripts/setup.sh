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
python=
if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || die "PYTHON=$PYTHON is not Python 3.11 or 3.12"
    python=$PYTHON
else
    # the interpreter of a .venv that stands comes first: another one on PATH is no reason to make it anew
    for candidate in .venv/bin/python python3.12 python3.11 python3 python; do
        if fits "$candidate"; then python=$candidate; break; fi
    done
fi
[ -n "$python" ] || die "needs Python 3.11 or 3.12 on PATH (or PYTHON=/path/to/python make setup); found: $( (python3 --version 2>&1 || echo none) | head -n 1)"

command -v node >/dev/null 2>&1 || die "needs Node.js 18 or newer on PATH (for Azurite); install it from your package manager or nodejs.org"
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' || die "needs Node.js 18 or newer; found $(node --version)"
command -v npm >/dev/null 2>&1 || die "needs npm on PATH (it comes with Node.js)"

# what a .venv cannot survive: another interpreter, or a move
home=$("$python" -c 'import pathlib, sys; print(sys.version_info[:3], pathlib.Path.cwd())')
if [ "$(cat .venv/.home 2>/dev/null || true)" != "$home" ] || ! fits .venv/bin/python; then
    case $python in .venv/*) python=$("$python" -c 'import sys; print(sys._base_executable)');; esac
    rm -rf .venv
    "$python" -c 'import ensurepip, venv' 2>/dev/null \
        || die "Python cannot make virtual environments; on Debian and Ubuntu: apt-get install python3-venv"
    echo "setup: Python packages into .venv ($("$python" --version)); about a minute"
    mkdir .venv || die "cannot write into $(pwd)"
    run .venv/setup.log "could not make .venv" "$python" -m venv .venv
    echo "$home" >.venv/.home
fi

pins=$(cat requirements.txt requirements-dev.txt constraints.txt pyproject.toml | cksum)
if [ "$(cat .venv/.pins 2>/dev/null || true)" != "$pins" ]; then
    pip=".venv/bin/python -m pip --disable-pip-version-check --no-input"
    run .venv/setup.log "pip could not install requirements-dev.txt" $pip install -r requirements-dev.txt -c constraints.txt
    run .venv/setup.log "pip could not install the checkout" $pip install --no-deps --no-build-isolation -e .
    echo "$pins" >.venv/.pins
fi

lock=$(cat package.json package-lock.json | cksum)
if [ "$(cat node_modules/.pins 2>/dev/null || true)" != "$lock" ]; then
    echo "setup: Azurite into node_modules ($(node --version))"
    run .venv/npm.log "npm ci failed" npm ci --no-audit --no-fund
    echo "$lock" >node_modules/.pins
fi
