"""The options of the `servicebus-emulator` command (`python -m emulator bus`). The command imports the program only
when it runs.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = "serve a Service Bus over AMQP 1.0, configured by the official emulator's Config.json"


def _port(text: str) -> int:
    """Parses a port number. Raises ArgumentTypeError for any other text."""
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port (0 to 65535; 0 for a free port)")
    return number


def _positive(text: str) -> int:
    """Parses a whole number of at least 1. Raises ArgumentTypeError for any other text."""
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return number


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    entities = parser.add_argument_group("entities")
    entities.add_argument(
        "--config", type=Path, metavar="FILE", help="Config.json in the format of the official emulator"
    )
    entities.add_argument("--queue", action="append", default=[], metavar="NAME", help="serve this queue; repeatable")
    entities.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="TOPIC/SUBSCRIPTION",
        help="serve this topic and subscription; repeatable",
    )
    serving = parser.add_argument_group("serving")
    serving.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    serving.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="allowed name in the Host header, besides IP addresses, localhost and --host; repeatable",
    )
    serving.add_argument("--port", type=_port, default=5672, help="AMQP port, 0 for a free port (default: %(default)s)")
    serving.add_argument(
        "--admin-port", type=_port, default=5300, help="HTTP port, 0 for a free port (default: %(default)s)"
    )
    serving.add_argument("--ws-port", type=_port, metavar="PORT", help="port for AMQP over WebSockets")
    serving.add_argument("--tls", action="store_true", help="also serve TLS, with a self-signed localhost certificate")
    serving.add_argument("--tls-cert", type=Path, metavar="FILE", help="also serve TLS, with this certificate chain")
    serving.add_argument("--tls-key", type=Path, metavar="FILE", help="key of --tls-cert")
    serving.add_argument(
        "--sas-key",
        metavar="[NAME=]KEY",
        help="check tokens against this key (default NAME: RootManageSharedAccessKey)",
    )
    limits = parser.add_argument_group("limits and tests")
    limits.add_argument("--data", type=Path, metavar="DIR", help="keep entities and messages in DIR/bus.sqlite3")
    limits.add_argument(
        "--max-message-bytes",
        type=_positive,
        default=256 * 1024,
        metavar="N",
        help="maximum bytes of a message (default: %(default)s, as in the tier Standard)",
    )
    limits.add_argument(
        "--max-entity-bytes",
        type=_positive,
        metavar="N",
        help="maximum bytes of an entity's messages (default: 1 GiB)",
    )
    limits.add_argument(
        "--virtual-clock", action="store_true", help="allow POST /clock/advance, which advances the clock"
    )
    limits.add_argument("--log-level", default="warning", choices=("debug", "info", "warning", "error"))


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C. Returns the exit code: 0, or 1 if the program cannot start or its store fails."""
    from servicebus_emulator.program import run as run_program

    return run_program(args)


def main() -> None:
    """Runs the `servicebus-emulator` command."""
    parser = argparse.ArgumentParser(prog="servicebus-emulator", description=HELP)
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
