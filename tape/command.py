"""`lucius tape play`: plays recorded traffic with another protocol or another version of the app."""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from shared.errors import ProtocolError
from tape.player import Player, Report, started_at
from tape.recording import RecordedJob, TapeError, read_histories, record

HELP = "play recorded traffic, and compare the app's histories"
_DESCRIPTION = """Submits the jobs of an audit bundle again, at their recorded times, to the app in one process with a
simulated clock. The recorded replies of services follow the directives. Then compares the histories by type, state,
attempt and cause of their events. Exits with 0 if the histories of all played jobs are equal, 1 if a history differs,
and 2 if the bundle or an option is invalid."""
_ROOT = Path(__file__).resolve().parents[1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="command", required=True, metavar="play")
    play = commands.add_parser("play", help=HELP, description=_DESCRIPTION)
    play.add_argument("bundle", type=Path, metavar="BUNDLE", help="bundle of `lucius audit export --with-content`")
    play.add_argument(
        "--app",
        type=Path,
        default=_ROOT,
        metavar="DIR",
        help="checkout of another version of the app, in which you ran `make setup-dev`",
    )
    play.add_argument("--protocols", type=Path, metavar="DIR", help="folder of protocol files (default: the app's)")
    play.add_argument(
        "--unknown",
        choices=("fail", "succeed"),
        default="fail",
        help="reply to directives that the bundle does not have (default: fail)",
    )
    play.add_argument("--json", action="store_true", help="print the result as JSON")


def run(args: argparse.Namespace) -> int:
    """Plays the tape of the command line. Returns the exit code."""
    app = args.app.resolve()
    if app != _ROOT:
        return _run_in(app, args)
    try:
        jobs = record(read_histories(args.bundle))
        player = Player(jobs, app, (args.protocols or app / "protocols").resolve(), unknown=args.unknown)
    except (TapeError, ProtocolError) as wrong:
        print(f"lucius: {wrong}", file=sys.stderr)
        return 2
    log, level = logging.getLogger("lucius"), logging.getLogger("lucius").level
    with warnings.catch_warnings():
        # the durable SDK warns of a task that completes twice, which late replies make
        warnings.simplefilter("ignore", UserWarning)
        log.setLevel(logging.CRITICAL)
        try:
            report = asyncio.run(player.play())
        finally:
            log.setLevel(level)
    print(_json(report) if args.json else "\n".join(_lines(report, jobs)))
    return 1 if report.first is not None else 0


def _run_in(app: Path, args: argparse.Namespace) -> int:
    """Runs the player of the other version, which belongs to its app. Both versions can read the bundle."""
    if not (app / "tape").is_dir():
        print(f"lucius: {app} has no folder tape/; name a checkout of LUCIUS with --app", file=sys.stderr)
        return 2
    own = app / ".venv" / "bin" / "python"
    words = [str(own if own.exists() else sys.executable), "-m", "tape", "play", str(args.bundle.resolve())]
    words += ["--unknown", args.unknown, *(["--json"] if args.json else [])]
    words += ["--protocols", str(args.protocols.resolve())] if args.protocols else []
    path = os.pathsep.join([str(app), *(str(each) for each in sorted((app / "packages").iterdir()))])
    return subprocess.run(words, cwd=app, env={**os.environ, "PYTHONPATH": path}, check=False).returncode


def _json(report: Report) -> str:
    names = ("request_type", "recorded", "played", "jobs")
    plain = {
        **{name: getattr(report, name) for name in ("jobs", "events", "different", "not_played", "unknown")},
        "versions": [dict(zip(names, (*key, count), strict=True)) for key, count in report.versions.items()],
        "first": asdict(report.first) if report.first is not None else None,
    }
    return json.dumps(plain, ensure_ascii=False, indent=2)


def _lines(report: Report, jobs: list[RecordedJob]) -> Iterator[str]:
    """Yields the result as lines of text."""
    begin, end = started_at(jobs)
    different, played = report.different.total(), report.jobs - report.not_played.total()
    yield f"played {played} of {report.jobs} jobs, created {begin:%Y-%m-%d %H:%M} to {end:%Y-%m-%d %H:%M}"
    yield f"equal {played - different}, different {different}, events compared {report.events}"
    for reason, count in report.not_played.items():
        yield f"not played {count}: {reason}"
    for (request_type, recorded, played), count in sorted(report.versions.items()):
        if recorded != played:
            yield f"{request_type}: {count} jobs of version {recorded} played with version {played}"
    if report.unknown:
        yield f"directives that the tape does not have: {report.unknown}"
    if (first := report.first) is not None:
        yield ""
        yield f"first difference: {first.job_id}, job {first.place} of the tape, {first.request_type}, {first.at}"
        yield from (f"  same      {each}" for each in first.before)
        yield f"  recorded  {first.recorded or 'no event'}"
        yield f"  played    {first.played or 'no event'}"
        for request_type, count in sorted(report.different.items()):
            yield f"  {request_type}: {count} jobs differ"
