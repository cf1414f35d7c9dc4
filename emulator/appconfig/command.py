"""The `appconfig` subcommand: its options. It imports the program only when it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.options import port

HELP = "an App Configuration for the Microsoft SDKs: the keys of a JSON file, read only"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--port", type=port, default=8483, metavar="N", help="0 for a free one (default: %(default)s)")
    parser.add_argument(
        "--file",
        type=Path,
        required=True,
        metavar="FILE",
        help="a JSON object of key and value; a value that is not text is served as JSON; read again when it changes",
    )


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C and returns 0; if it cannot start, writes one line to stderr and returns 1."""
    from emulator.appconfig.program import run as run_program

    return run_program(args)
