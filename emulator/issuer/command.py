"""The options of the `issuer` subcommand, which imports the program only when it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from emulator.options import port

HELP = "issue tokens for any tenant and scope to requests on loopback"
DEFAULT_PORT = 7080
DEFAULT_AUDIENCE = "api://lucius"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--port", type=port, default=DEFAULT_PORT, metavar="N", help="port, 0 for a free port (default: %(default)s)"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(".lucius"),
        metavar="DIR",
        help="folder of issuer.json, the file with the signing keys (default: %(default)s)",
    )
    parser.add_argument(
        "--audience", default=DEFAULT_AUDIENCE, metavar="AUD", help="`aud` of access tokens (default: %(default)s)"
    )
    parser.add_argument(
        "--tenant-claim", default="tenant_id", metavar="NAME", help="claim with the tenant (default: %(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C and returns 0. Returns 1, with one line on stderr, if the program cannot start."""
    from emulator.issuer.program import run as run_program

    return run_program(args)
