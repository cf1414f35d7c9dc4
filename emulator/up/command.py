"""The `up` subcommand: Azurite, the bus, the host with the function app, and the platform services. With `--traces` and
`--auth`, also the trace collector and the token issuer.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path

from emulator import options
from emulator.up.data_dir import DEFAULT
from emulator.up.ports import DEFAULTS

HELP = "serve the whole stack: Azurite, bus, host with the function app, platform services"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options. Port 0 selects a free port, which the ready line names."""

    def port(option: str, default: int | None, text: str) -> None:
        parser.add_argument(option, type=options.port, default=default, metavar="N", help=text)

    parser.add_argument(
        "--data", type=Path, default=DEFAULT, metavar="DIR", help=f"folder of data and logs (default: {DEFAULT})"
    )
    port(
        "--api-port",
        DEFAULTS.api,
        f"port of the HTTP API (default: {DEFAULTS.api}); with another port, `lucius` needs --api",
    )
    port("--bus-port", DEFAULTS.bus, f"port of AMQP (default: {DEFAULTS.bus})")
    port(
        "--admin-port",
        None,
        f"port of the bus's HTTP API (default: {DEFAULTS.admin}, or a free port with another --bus-port)",
    )
    port(
        "--azurite-port",
        DEFAULTS.azurite,
        f"port N of blobs, N+1 of queues, N+2 of tables (default: {DEFAULTS.azurite}); "
        "with another port, `lucius submit` needs LUCIUS_BLOB_CONNECTION",
    )
    parser.add_argument("--traces", action="store_true", help="start a page that shows traces and metrics")
    parser.add_argument("--auth", action="store_true", help="require access tokens; start a local token issuer")
    port("--issuer-port", DEFAULTS.issuer, f"port of the token issuer (default: {DEFAULTS.issuer})")
    port("--traces-port", DEFAULTS.traces, f"port of the page with traces, and of OTLP (default: {DEFAULTS.traces})")
    parser.add_argument("--without-services", action="store_true", help="start no platform services")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM, SIGHUP or Ctrl-C, and returns 0. Returns 1, with one line on stderr, if a part cannot start
    or restart. Returns 130 if Ctrl-C comes before the first child starts.
    """
    from emulator.up.errors import UpError
    from emulator.up.serve import serve

    try:
        return asyncio.run(serve(args))
    except UpError as error:
        print(f"up: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
