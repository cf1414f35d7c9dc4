"""The options of the `traces` subcommand, which imports the program only when it runs."""

from __future__ import annotations

import argparse

from emulator.options import port, positive

HELP = "collect OpenTelemetry traces (OTLP/HTTP), and serve a page that shows each trace as a waterfall"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        "--port", type=port, default=4318, metavar="N", help="port, 0 for a free port (default: %(default)s)"
    )
    parser.add_argument(
        "--keep",
        type=positive,
        default=1000,
        metavar="N",
        help="maximum number of traces; traces without a job are deleted first, then the traces that received a span "
        "longest ago (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C and returns 0. Returns 1, with one line on stderr, if the program cannot start."""
    from emulator.traces.program import run as run_program

    return run_program(args)
