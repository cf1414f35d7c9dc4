"""Composes configuration, store, broker and servers, runs them, and closes them in order."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import logging
import os
import signal
import sqlite3
import ssl
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from servicebus_emulator import tls
from servicebus_emulator.admin.server import AdminServer
from servicebus_emulator.amqp.errors import AmqpError
from servicebus_emulator.amqp.message import AmqpMessage
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.errors import BusError
from servicebus_emulator.broker.sqlite_store import SqliteStore
from servicebus_emulator.broker.store import Memory, Store, StoreError
from servicebus_emulator.clock import SystemClock
from servicebus_emulator.configuration import ConfigurationError, Topology, from_names, load
from servicebus_emulator.listener import ListenError
from servicebus_emulator.sas import SasKey
from servicebus_emulator.server import BusServer, Options
from servicebus_emulator.stored_entities import apply_stored

log = logging.getLogger(__name__)


def run(args: argparse.Namespace) -> int:
    """Runs until SIGTERM or SIGINT. Returns the exit code."""
    logging.basicConfig(
        level=args.log_level.upper(), stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    try:
        with _tls(args) as context:
            return asyncio.run(_serve(args, context))
    except (ConfigurationError, StoreError, ListenError, tls.TlsError, BusError) as error:
        print(f"bus: {error}", file=sys.stderr)
    return 1


@contextlib.contextmanager
def _tls(args: argparse.Namespace) -> Iterator[ssl.SSLContext | None]:
    if args.tls_cert or args.tls_key:
        if not (args.tls_cert and args.tls_key):
            raise tls.TlsError("give both --tls-cert and --tls-key, or neither")
        yield tls.context(args.tls_cert, args.tls_key)
    elif args.tls:
        with contextlib.ExitStack() as stack:
            folder = args.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bus-tls-")))
            certificate, key = tls.make_certificate(folder)
            print(f"bus: clients must trust the certificate {certificate}", file=sys.stderr, flush=True)
            yield tls.context(certificate, key)
    else:
        yield None


def _topology(args: argparse.Namespace, store: Store) -> Topology:
    named = from_names(args.queue, args.topic)
    if args.config is not None:
        configured = load(args.config).plus(named)
    elif args.queue or args.topic:
        configured = named
    elif default := getattr(args, "default_config", None):
        configured = load(default)
    else:
        raise ConfigurationError("no entities to serve: pass --config FILE, --queue NAME or --topic TOPIC/SUBSCRIPTION")
    topology = apply_stored(configured, store.entities())
    return topology if args.max_entity_bytes is None else topology.limited(args.max_entity_bytes)


async def _serve(args: argparse.Namespace, context: ssl.SSLContext | None) -> int:
    clock = SystemClock()
    store: Store = SqliteStore(args.data / "bus.sqlite3", clock.now_ms) if args.data else Memory()
    broker = Broker(clock, store)
    try:
        _topology(args, store).create_in(broker)
        restored = broker.restore(AmqpMessage.parse)
    except (AmqpError, sqlite3.Error) as error:
        raise StoreError(f"cannot read {args.data / 'bus.sqlite3'}: {error}") from error
    if restored:
        log.info("loaded stored messages count=%d data=%s", restored, args.data)
    key = SasKey.parse(args.sas_key) if args.sas_key else None
    options = replace(Options(), max_message_bytes=args.max_message_bytes, sas_key=key, tls=context)
    server = BusServer(broker, options)
    http = AdminServer(server, clock if args.virtual_clock else None, (args.host, *args.allowed_host))
    try:
        port = await server.listen(args.host, args.port)
        admin_port = await http.listen(args.host, args.admin_port)
        ready = f"ready sb://{args.host}:{port} admin=http://{args.host}:{admin_port}"
        if args.ws_port is not None:
            ready += f" ws=ws://{args.host}:{await http.listen(args.host, args.ws_port)}/$servicebus/websocket"
        _stop_on_signals(server.stopping)
        print(ready, flush=True)
        await server.stopping.wait()
    finally:
        await http.close()
        await server.close()
        server.commit()
        store.close()
    return 1 if server.failed else 0


def _stop_on_signals(stopping: asyncio.Event) -> None:
    """Sets the event at the first SIGTERM or SIGINT. The second signal ends the process immediately."""
    loop = asyncio.get_running_loop()

    def stop(number: int) -> None:
        if stopping.is_set():
            os._exit(128 + number)
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):  # Windows has no signal handlers in its loop
            loop.add_signal_handler(number, stop, number)
