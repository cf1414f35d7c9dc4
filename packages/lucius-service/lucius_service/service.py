"""A service process: connects its parts, serves until a signal, and responds to health probes.

`GET /health/live` returns 200 while the process serves. `GET /health/ready` returns 200 if every lane is open and
storage responds, else 503. The JSON body of `ready` has the state of each dependency.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import ssl
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import aiohttp
from azure.servicebus.aio import ServiceBusClient

from lucius_service.attempts import Attempts, Limits
from lucius_service.children import ChildWorker
from lucius_service.errors import StepFailed
from lucius_service.http_replies import HttpReplySender
from lucius_service.replies import BusReplySender, ReplySender
from lucius_service.servicebus_consumer import LaneConsumer
from lucius_service.settings import Settings, SettingsError
from lucius_service.step import Step, declared
from lucius_service.work import ThreadWorker, Worker
from lucius_service.workspace_io import Workspace

if TYPE_CHECKING:
    from azure.identity.aio import DefaultAzureCredential

log = logging.getLogger(__name__)

#: seconds for settling the messages and closing the links, after the work has ended
CLOSE_TIMEOUT_S = 5.0
#: seconds for a health probe to send its request
HEALTH_REQUEST_TIMEOUT_S = 10

#: function that checks the dependencies, and returns `True` for each working one
Checks = Callable[[], Awaitable[dict[str, bool]]]


async def serve(step: Step, settings: Settings, *, on_ready: Callable[[], None]) -> int:
    """Serves until SIGTERM or SIGINT, and returns 0. If running work does not end within `grace_s` seconds, exits with
    code 0 instead. Exits immediately with code 130 at a second signal. Raises SettingsError, errors of
    `prepare`, and OSError if the health port is taken.
    """
    stopping = asyncio.Event()
    _stop_on_signals(stopping)
    try:
        workspace = Workspace(
            settings.blob_connection, endpoint=settings.blob_endpoint, max_input_bytes=settings.max_input_mib * 2**20
        )
    except ValueError:
        connection = "LUCIUS_BLOB_CONNECTION is not a storage connection string"
        wrong = connection if settings.blob_connection else "LUCIUS_BLOB_ENDPOINT is not a URL"
        raise SettingsError(f"{wrong}; correct the setting") from None
    try:
        client, credential = _connect(settings)
    except ValueError:
        text = "LUCIUS_SERVICEBUS_CONNECTION is not a Service Bus connection string; correct the setting"
        raise SettingsError(text) from None
    works = declared(step)
    worker: Worker = ChildWorker(settings.workers) if works.isolation == "process" else ThreadWorker(step, workspace)
    await worker.start()

    bus = BusReplySender(client, settings.reply_prefix)
    sender: ReplySender = bus
    if settings.replies == "http":
        sender = HttpReplySender(aiohttp.ClientSession(), bus)
    limits = Limits(
        queue_size=settings.queue_size,
        workers=settings.workers,
        heartbeat_s=settings.heartbeat_s,
        attempt_max_s=settings.attempt_max_s,
        silent_s=works.silent_s,
        heartbeat_by=works.heartbeat_s,
    )
    attempts = Attempts(worker, sender, workspace, limits, works.result_name)
    lanes = [
        LaneConsumer(client, lane, works.subscription, step.step_type, settings.lanes, attempts)
        for lane in settings.listen
    ]

    async def checks() -> dict[str, bool]:
        try:
            await asyncio.to_thread(workspace.check)
            storage = True
        except StepFailed:
            storage = False
        return {"servicebus": all(lane.open.is_set() for lane in lanes), "storage": storage}

    health = await serve_health(settings.health_port, checks) if settings.health_port else None
    attempts.start()
    loops = [asyncio.create_task(lane.serve(stopping)) for lane in lanes]

    async def announce() -> None:
        for lane in lanes:
            await lane.open.wait()
        on_ready()
        if settings.replies == "bus":
            await bus.prepare(settings.listen)

    ready = asyncio.create_task(announce())
    stop = asyncio.create_task(stopping.wait())
    try:
        # only a bug ends a loop; then the process ends too, and its supervisor restarts it
        await asyncio.wait({stop, *loops}, return_when=asyncio.FIRST_COMPLETED)
        for loop in loops:
            if loop.done():
                loop.result()
    finally:
        stopping.set()
        ready.cancel()
        stop.cancel()
        if health is not None:
            health.close()
        finished = await attempts.stop(settings.grace_s)
        _, open_loops = await asyncio.wait(loops, timeout=CLOSE_TIMEOUT_S)
        for loop in open_loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await worker.close()
        await sender.close()
        await client.close()
        if credential is not None:
            await credential.close()
        workspace.close()
    if not finished:
        log.warning(
            "the process ended during its work, %.0f s after the signal; Service Bus delivers the directive again",
            settings.grace_s,
        )
        os._exit(0)  # a working thread would prevent an orderly end of the process
    return 0


def _connect(settings: Settings) -> tuple[ServiceBusClient, DefaultAzureCredential | None]:
    """Returns the bus client, and its managed identity if no connection string is set. Raises ValueError."""
    if settings.servicebus_connection:
        connection = settings.servicebus_connection
        # a local bus has no TLS; without this, the SDK reads all root certificates for each link
        local = "usedevelopmentemulator=true" in connection.lower()
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if local else None
        return ServiceBusClient.from_connection_string(connection, retry_total=1, ssl_context=tls), None
    # imported late: not needed with connection strings
    from azure.identity.aio import DefaultAzureCredential

    credential = DefaultAzureCredential()
    namespace = settings.servicebus_namespace
    return ServiceBusClient(namespace, credential, retry_total=1), credential


def _stop_on_signals(stopping: asyncio.Event) -> None:
    def stop() -> None:
        if stopping.is_set():
            os._exit(130)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


async def serve_health(port: int, checks: Checks, *, host: str = "0.0.0.0") -> asyncio.Server:
    """Serves the health probes. Raises OSError if the port is taken."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEALTH_REQUEST_TIMEOUT_S)
            method, path, *_ = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            status, body = await _respond(method, path, checks)
            text = json.dumps(body).encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + text)
            await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has gone or does not use HTTP
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port)


async def _respond(method: str, path: str, checks: Checks) -> tuple[str, dict[str, Any]]:
    if method != "GET":
        return "405 Method Not Allowed", {"status": "method not allowed"}
    if path == "/health/live":
        return "200 OK", {"status": "live"}
    if path == "/health/ready":
        results = await checks()
        ready = all(results.values())
        return ("200 OK" if ready else "503 Service Unavailable"), {
            "status": "ready" if ready else "not ready",
            "checks": {name: "ok" if ok else "failing" for name, ok in results.items()},
        }
    return "404 Not Found", {"status": "not found"}
