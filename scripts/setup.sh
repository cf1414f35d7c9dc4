#!/bin/sh
# Makes .venv and node_modules from the pinned files; does nothing when they are up to date.
set -eu
cd "$(dirname "$0")/.."

die() { echo "setup: $*" >&2; exit 1; }

works() { "$1" -c 'import sys; raise SystemExit(not ((3, 11) <= sys.version_info < (3, 13)))' >/dev/null 2>&1; }
python=
for candidate in ${PYTHON:+"$PYTHON"} python3.12 python3.11 python3 python; do
    if works "$candidate"; then python=$candidate; break; fi
done
[ -n "$python" ] || die "needs Python 3.11 or 3.12 on PATH (or PYTHON=/path/to/python make setup); found: $(python3 --version 2>&1 || echo none)"

command -v node >/dev/null 2>&1 || die "needs Node.js 18 or newer on PATH (for Azurite); install it from your package manager or nodejs.org"
node -e 'process.exit(parseInt(process.versions.node) >= 18 ? 0 : 1)' || die "needs Node.js 18 or newer; found $(node --version)"
command -v npm >/dev/null 2>&1 || die "needs npm on PATH (it comes with Node.js)"

stamp=$("$python" - requirements.txt requirements-dev.txt constraints.txt pyproject.toml <<'PY'
import hashlib, pathlib, sys
digest = hashlib.sha256(f"{sys.version_info[:3]}{pathlib.Path.cwd()}".encode())
for name in sys.argv[1:]:
    digest.update(pathlib.Path(name).read_bytes())
print(digest.hexdigest())
PY
)
if [ "$(cat .venv/.stamp 2>/dev/null || true)" != "$stamp" ]; then
    echo "setup: Python packages into .venv ($("$python" --version))"
    "$python" -m venv --clear .venv || die "could not make .venv: on Debian and Ubuntu, apt-get install python3-venv"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt -c constraints.txt \
        || die "pip could not install requirements-dev.txt (see above)"
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e . \
        || die "pip could not install the checkout (see above)"
    echo "$stamp" > .venv/.stamp
fi

lock=$(cksum < package-lock.json)
if [ "$(cat node_modules/.stamp 2>/dev/null || true)" != "$lock" ]; then
    echo "setup: Azurite into node_modules ($(node --version))"
    npm ci --silent --no-audit --no-fund || die "npm ci failed (see above)"
    echo "$lock" > node_modules/.stamp
fi
