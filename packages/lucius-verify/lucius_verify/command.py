"""`lucius-verify BUNDLE`: prints the verdict on a bundle, and exits with its code."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from lucius_verify.faults import visible
from lucius_verify.report import Verdict
from lucius_verify.verification import verify

HELP = """Verify an audit bundle of LUCIUS without LUCIUS, at four levels: the files and their signatures, the chains of
events, whether each event could have happened, and whether every signed job is there."""
EXITS = "Exit codes: 0 verified, 2 broken or wrong usage, 3 signed by a key that you have not named, 130 interrupted."


def main() -> None:
    """Runs the command. Every error is a line on stderr and an exit code."""
    parser = argparse.ArgumentParser(prog="lucius-verify", description=HELP, epilog=EXITS)
    parser.add_argument(
        "bundle", metavar="BUNDLE", type=Path, help="a bundle (.tar.gz), or the bundle of one job (JSON)"
    )
    parser.add_argument("--job", metavar="ID", help="verify the chain and the events of this job only")
    parser.add_argument(
        "--key",
        metavar="KEY",
        action="append",
        default=[],
        help="a public key (PEM) or key id that you trust; repeatable",
    )
    parser.add_argument(
        "--head", metavar="HASH", help="hash that the job's last event must have, from a separate record"
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
