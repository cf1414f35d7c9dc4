"""The `host` subcommand: options, and nothing heavy until it runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "a Functions host for any Python v2-model app, with a durable engine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--app", type=Path, required=True, metavar="DIR", help="folder of function_app.py and host.json"
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=7071, help="HTTP port, 0 for a free one (default: %(default)s)")
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep orchestrations in DIR/host.sqlite3")
    parser.add_argument("--watch", action="store_true", help="start again when the app's files change")
    parser.add_argument("--reloaded", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--keys", type=Path, metavar="FILE", help="ask for the access keys of this JSON file")
    parser.add_argument(
        "--virtual-clock", action="store_true", help="let POST /admin/emulator/advance move the time forward"
    )
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a fault for tests: a wrong one names them all",
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C; 1 if it cannot start."""
    from functions_emulator.host.program import run as run_program

    return run_program(args)


def main() -> None:
    """The `functions-emulator` command."""
    parser = argparse.ArgumentParser(prog="functions-emulator", description=HELP)
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
