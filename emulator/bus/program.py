"""A running bus: configuration, store, broker and servers put together, and taken down in order."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sys

from emulator.bus import admin
from emulator.bus.amqp.message import AmqpMessage
from emulator.bus.broker.broker import Broker
from emulator.bus.broker.sqlite_store import SqliteStore, StoreError
from emulator.bus.broker.store import Memory, Store
from emulator.bus.clock import SystemClock
from emulator.bus.configuration import ConfigurationError, load
from emulator.bus.server import BusServer

log = logging.getLogger(__name__)


def run(args: argparse.Namespace) -> int:
    """Runs until told to stop; the exit code."""
    logging.basicConfig(
        level=args.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        return asyncio.run(_serve(args))
    except (ConfigurationError, StoreError) as error:
        print(f"bus: {error}", file=sys.stderr)
    except OSError as error:
        print(f"bus: cannot listen on {args.host}: {error.strerror or error}", file=sys.stderr)
    return 1


async def _serve(args: argparse.Namespace) -> int:
    topology = load(args.config)
    store: Store = SqliteStore(args.data / "bus.sqlite3") if args.data else Memory()
    broker = Broker(SystemClock(), store)
    topology.create_in(broker)
    restored = broker.restore(AmqpMessage.parse)
    if restored:
        log.info("%d messages taken over from %s", restored, args.data)
    server = BusServer(broker)
    http = admin.AdminServer(server)
    try:
        port = await server.listen(args.host, args.port)
        admin_port = await http.listen(args.host, args.admin_port)
        stopped = _stop_on_signals()
        print(f"ready sb://{args.host}:{port} admin=http://{args.host}:{admin_port}", flush=True)
        await stopped.wait()
    finally:
        await http.close()
        await server.close()
        if store.is_dirty:
            store.commit()
        store.close()
    return 0


def _stop_on_signals() -> asyncio.Event:
    """Set by the first SIGTERM or SIGINT; the second one ends the process at once."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopped.is_set():
            os._exit(128 + number)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows has no signal handlers in its loop
            loop.add_signal_handler(number, stop, number)
    return stopped
