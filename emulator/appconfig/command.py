"""The options of the `appconfig` subcommand, which imports the program only when it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.options import port

HELP = "serve the keys of a JSON file as a read-only App Configuration"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--port", type=port, default=8483, metavar="N", help="port, 0 for a free port (default: %(default)s)"
    )
    parser.add_argument(
        "--file",
        type=Path,
        required=True,
        metavar="FILE",
        help="JSON object of keys and values; a value other than a string is served as JSON; reread after changes",
    )


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C and returns 0. Returns 1, with one line on stderr, if the program cannot start."""
    from emulator.appconfig.program import run as run_program

    return run_program(args)
