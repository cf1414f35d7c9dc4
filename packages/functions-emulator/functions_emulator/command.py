"""The command `functions-emulator`, also `python -m emulator host`. The command imports its modules when it runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

#: maximum of `--drain`, in seconds
_MAX_DRAIN_S = 3600

HELP = "serve an Azure Functions app of the Python v2 model, with a durable engine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the host to `parser`."""
    parser.add_argument(
        "--app", type=Path, required=True, metavar="DIR", help="folder of function_app.py and host.json"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="allowed name in the Host header, besides IP addresses, localhost and --host; repeatable",
    )
    parser.add_argument("--port", type=int, default=7071, help="HTTP port, 0 for a free port (default: %(default)s)")
    parser.add_argument(
        "--data",
        type=Path,
        metavar="DIR",
        help="keep orchestrations in DIR/host.sqlite3 (default: in memory, or with --watch in a temporary folder)",
    )
    parser.add_argument("--watch", action="store_true", help="restart when the app's files change")
    parser.add_argument("--reloaded", type=Path, help=argparse.SUPPRESS)
    keys = parser.add_mutually_exclusive_group()
    keys.add_argument(
        "--keys", type=Path, metavar="FILE", help="JSON file of access keys (default: keys.json in --data, else random)"
    )
    keys.add_argument("--no-keys", action="store_true", help="allow all calls without keys, for local use only")
    parser.add_argument(
        "--virtual-clock", action="store_true", help="allow POST /admin/emulator/advance, which advances the clock"
    )
    parser.add_argument(
        "--drain",
        type=_seconds,
        default=10.0,
        metavar="SECONDS",
        help="maximum seconds to wait for running functions after a stop signal (default: %(default)g)",
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="inject a fault for tests; an unknown NAME lists the valid names",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_DRAIN_S:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to {_MAX_DRAIN_S}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C. Returns the exit code: 0, or 1 if the host cannot start."""
    from functions_emulator.host.program import run as run_program

    return run_program(args)


def main() -> None:
    """Runs the `functions-emulator` command."""
    parser = argparse.ArgumentParser(prog="functions-emulator", description=HELP)
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
