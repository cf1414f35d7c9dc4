"""The `bus` subcommand: options, and nothing heavy until it runs."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "a Service Bus for the Microsoft SDKs: AMQP 1.0, configured by the official emulator's Config.json"
_DEFAULT_CONFIG = Path(__file__).parents[2] / "infra" / "bus" / "Config.json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--config", type=Path, default=_DEFAULT_CONFIG, metavar="FILE", help="Config.json")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=5672, help="AMQP port, 0 for a free one (default: %(default)s)")
    parser.add_argument(
        "--admin-port", type=int, default=5300, help="HTTP port, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument("--data", type=Path, metavar="DIR", help="keep entities and messages in DIR/bus.sqlite3")
    parser.add_argument("--log-level", default="warning", choices=("debug", "info", "warning", "error"))


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C; 1 if it cannot start."""
    from emulator.bus.program import run as run_program

    return run_program(args)
