#!/bin/sh
# Creates .venv and node_modules from the pinned files. Does nothing if both are up to date.
#   sh scripts/setup.sh       for `make demo` and `make up`: requirements.txt, the group demo, the packages, Azurite
#   sh scripts/setup.sh dev   the same and the group dev, for `make test` and `make lint`
# The groups are in pyproject.toml.
# PYTHON=/path/to/python names the interpreter. The script prints one line for an error and stops.
set -eu
cd "$(dirname "$0")/.."
set_up=${1:-demo}

die() { echo "setup: $*" >&2; exit 1; }

# run LOG WHAT COMMAND...: writes the output to LOG; on failure, prints the last error of the output
run() {
    log=$1 what=$2
    shift 2
    "$@" >"$log" 2>&1 || die "$what: $(grep -v '^ *$' "$log" | grep -iE 'error|denied|no space' | tail -n 1) (whole output: $log)"
}

fits() { "$1" -c 'import sys; raise SystemExit(not ((3, 11) <= sys.version_info < (3, 14)))' >/dev/null 2>&1; }
minor() { "$1" -c 'import sys; print(sys.version_info[:2])'; }
if [ -n "${PYTHON:-}" ]; then
    fits "$PYTHON" || die "PYTHON=$PYTHON is not Python 3.11, 3.12 or 3.13; uv python install 3.12 gets one"
fi

# an existing .venv stays, even if PATH has another python; a move of the checkout breaks the .venv
keep=
if [ "$(cat .venv/.home 2>/dev/null || true)" = "$(pwd -P)" ] && fits .venv/bin/python; then
    [ -n "${PYTHON:-}" ] && [ "$(minor "$PYTHON")" != "$(minor .venv/bin/python)" ] || keep=yes
fi
python=${PYTHON:-}
if [ -z "$keep$python" ]; then
    # 3.12 is first, because Azure runs this version; uv installs into ~/.local/bin, which may be missing on PATH
    for candidate in python3.12 "${HOME:-}/.local/bin/python3.12" python3.13 python3.11 python3 python; do
        if fits "$candidate"; then python=$candidate; break; fi
    done
    [ -n "$python" ] || die "needs Python 3.11, 3.12 or 3.13 on PATH (uv python install 3.12, or PYTHON=/path/to/python make setup); found: $( (python3 --version 2>&1 || echo none) | head -n 1)"
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

# install WHAT ARGUMENTS...: uses uv, which is faster, if uv is on PATH. Uses pip if uv fails, because uv does not read the
# configuration of pip, which may name another index.
install() {
    what=$1
    shift
    if command -v uv >/dev/null 2>&1 \
        && uv pip install --quiet --compile-bytecode --python .venv/bin/python "$@" -c constraints.txt >.venv/setup.log 2>&1; then
        return
    fi
    run .venv/setup.log "pip could not install $what" \
        .venv/bin/python -m pip --disable-pip-version-check --no-input install "$@" -c constraints.txt
}

# group NAME: prints the lines of a dependency group, so that a change of another table of pyproject.toml installs nothing
group() { sed -n "/^$1 = \[/,/^]/p" pyproject.toml; }

demo=$({ group demo; cat requirements.txt constraints.txt packages/*/pyproject.toml; } | cksum)
if [ "$(cat .venv/.demo-pins 2>/dev/null || true)" != "$demo" ]; then
    # pip 25.1 is the first version with --group, and pip 27 is untested; setuptools builds the packages
    install "pip and setuptools" "pip>=25.1,<27" setuptools
    install "the group demo" -r requirements.txt --group demo --no-build-isolation --config-settings editable_mode=compat \
        -e packages/servicebus-emulator -e "packages/functions-emulator[azure]" \
        -e packages/lucius-verify -e "packages/lucius-client[cli]" -e "packages/lucius-service[telemetry]" -e packages/lucius-checkout
    echo "$demo" >.venv/.demo-pins
fi

if [ "$set_up" = dev ]; then
    dev=$({ group dev; group docs; cat .venv/.demo-pins; } | cksum)
    if [ "$(cat .venv/.dev-pins 2>/dev/null || true)" != "$dev" ]; then
        echo "setup: tools of tests and lint into .venv"
        install "the group dev" -r requirements.txt --group demo --group dev
        echo "$dev" >.venv/.dev-pins
    fi
fi

lock=$(cat package.json package-lock.json | cksum)
case "$set_up $(cat node_modules/.pins 2>/dev/null || true)" in
    "$set_up $lock $set_up" | "demo $lock dev") ;;
    *)
        echo "setup: Azurite into node_modules ($(node --version))"
        omit=
        [ "$set_up" = dev ] || omit=--omit=dev
        run .venv/npm.log "npm ci failed" npm ci --no-audit --no-fund $omit
        echo "$lock $set_up" >node_modules/.pins
        ;;
esac
