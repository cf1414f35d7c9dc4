"""The `up` subcommand: Azurite, the bus, the host with the function app, and the platform services."""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from emulator import options
from emulator.up.data_dir import DEFAULT
from emulator.up.ports import DEFAULTS

HELP = "serve the whole stack: Azurite, bus, host with function_app.py, platform services"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options. A port of 0 is a free one, named in the ready line."""

    def port(option: str, default: int | None, text: str) -> None:
        parser.add_argument(option, type=options.port, default=default, metavar="N", help=text)

    parser.add_argument("--data", type=Path, default=DEFAULT, metavar="DIR", help=f"what must outlive it ({DEFAULT})")
    port("--api-port", DEFAULTS.api, f"HTTP API ({DEFAULTS.api})")
    port("--bus-port", DEFAULTS.bus, f"AMQP ({DEFAULTS.bus})")
    port("--admin-port", None, f"the bus's HTTP ({DEFAULTS.admin}; a free one where --bus-port is given)")
    port("--azurite-port", DEFAULTS.azurite, f"blob N, queue N+1, table N+2 ({DEFAULTS.azurite})")
    parser.add_argument("--traces", action="store_true", help="start a page that shows traces and metrics")
    parser.add_argument("--auth", action="store_true", help="require access tokens; start a local token issuer")
    port("--issuer-port", DEFAULTS.issuer, f"that issuer ({DEFAULTS.issuer})")
    port("--traces-port", DEFAULTS.traces, f"that page, and OTLP ({DEFAULTS.traces})")
    parser.add_argument("--without-services", action="store_true", help="no platform services")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or Ctrl-C: 0. What cannot start is one line on stderr: 1."""
    from emulator.up.errors import UpError
    from emulator.up.serve import serve

    try:
        return asyncio.run(serve(args))
    except UpError as error:
        print(f"up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
