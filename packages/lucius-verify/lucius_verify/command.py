"""`lucius-verify BUNDLE`: prints the report on a bundle, and exits with the code of its verdict."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lucius_verify.faults import visible
from lucius_verify.report import Verdict
from lucius_verify.verification import verify

HELP = """Verify an audit bundle of LUCIUS without LUCIUS. Level 1 checks the files and their signatures, level 2 the
chains of events. Level 3 executes each event again. Level 4 compares the jobs with the signed heads."""
EXITS = """Exits with 0 if the bundle is verified. Exits with 2 if the bundle is broken or unreadable, or an argument is
invalid. Exits with 3 if a key that you have not named signed the bundle, or if you named a key and nothing is signed.
Exits with 130 if interrupted."""


def main() -> None:
    """Runs the command. Prints an error of `verify` as one line on stderr. Exits with the codes in `EXITS`."""
    parser = argparse.ArgumentParser(prog="lucius-verify", description=HELP, epilog=EXITS)
    parser.add_argument("bundle", metavar="BUNDLE", type=Path, help="bundle (.tar.gz), or bundle of one job (JSON)")
    parser.add_argument("--job", metavar="ID", help="at levels 2 and 3, verify only the events of this job")
    parser.add_argument(
        "--key",
        metavar="KEY",
        action="append",
        default=[],
        help="file with a public key (PEM), or key id, that you trust; repeatable",
    )
    parser.add_argument(
        "--head",
        metavar="HASH",
        help="hash that the job's last event must have, from a separate record; a tenant's bundle also needs --job",
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    words = parser.parse_args()
    try:
        report = verify(words.bundle, job=words.job, keys=words.key, head=words.head)
    except ValueError as wrong:
        print(f"lucius-verify: {visible(str(wrong))}", file=sys.stderr)
        sys.exit(Verdict.BROKEN)
    except KeyboardInterrupt:
        sys.exit(130)
    print(json.dumps(report.to_json(), indent=2) if words.json else report.to_text())
    sys.exit(report.verdict)
