"""`python -m infra.checks [--write] [--all]`: checks the templates and the package without Azure."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from infra.checks import committed, every
from infra.checks.compiler import INSTALL, Compiler, find
from infra.checks.finding import CheckFailed, Finding
from infra.package import built as package

ROOT = Path(__file__).resolve().parents[2]


def check(root: Path, *, write: bool = False) -> list[Finding]:
    """Returns the findings. If the compiler or its linter has findings, the resources and snapshots are not checked.
    Otherwise, writes the snapshots if `write` is set. Raises CheckFailed.
    """
    found = every.check_files(root)
    with Compiler() as compiler:
        wrong = every.compiled(compiler, root)
        if any(each.rule != "format" for each in wrong):
            return sorted([*found, *wrong])
        taken = every.evaluated(compiler, root)
    if write:
        committed.write(root, taken)
    found += [each for snapshot in taken for each in every.check_snapshot(root, snapshot)]
    return sorted([*found, *wrong, *committed.check(root, taken)])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m infra.checks", description=__doc__)
    parser.add_argument(
        "--write",
        action="store_true",
        help="also write the snapshots; if bicep is missing, print a notice and check nothing",
    )
    parser.add_argument("--all", action="store_true", help="also check the package, started on Python 3.12")
    arguments = parser.parse_args()
    try:
        if arguments.write and find() is None:
            print(f"{committed.FOLDER}: not written, because bicep is missing; run {INSTALL}", file=sys.stderr)
            return 0
        found = check(ROOT, write=arguments.write)
        if arguments.all:
            with tempfile.TemporaryDirectory() as folder:
                built = package.build(ROOT, Path(folder))
                print(f"package: {built}; {len(package.start(ROOT, built, Path(folder) / 'data'))} functions")
    except CheckFailed as failed:
        print(f"infra.checks: {failed}", file=sys.stderr)
        return 1
    for each in found:
        print(each)
    print(f"{len(found)} findings" if found else "infra: no findings")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
