"""`python -m infra.checks [--all]`: checks the templates and the package without Azure."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from infra.checks import every, package
from infra.checks.finding import CheckFailed

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.checks", description=__doc__)
    parser.add_argument("--all", action="store_true", help="also the package, started on Python 3.12")
    arguments = parser.parse_args()
    try:
        found = every.check(ROOT)
        if arguments.all:
            with tempfile.TemporaryDirectory() as folder:
                built = package.build(ROOT, Path(folder))
                print(f"package: {built}; {len(package.start(ROOT, built, Path(folder) / 'data'))} functions")
    except CheckFailed as failed:
        print(f"infra.checks: {failed}", file=sys.stderr)
        return 1
    for each in found:
        print(each)
    print(f"{len(found)} findings" if found else "infra: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
