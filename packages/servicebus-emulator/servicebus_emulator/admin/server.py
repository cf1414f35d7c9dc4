"""HTTP on the admin port.

GET /            a page          GET /entities   counts as JSON        GET /metrics   Prometheus
GET /health      liveness        POST, DELETE /faults    see `faults`  POST /clock/advance   {"seconds": N}
GET, POST, DELETE /desk, DELETE /desk/{rule}, POST /desk/seed {"seed": N}                    see `broker.fault_desk`
?api-version=    a request with this parameter goes to the management API of Service Bus
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import asdict
from typing import Any

from aiohttp import web

from servicebus_emulator import websocket
from servicebus_emulator.admin import overview
from servicebus_emulator.admin.faults import Faults
from servicebus_emulator.admin.rest_api import Request, RestApi
from servicebus_emulator.atom import feeds
from servicebus_emulator.broker.errors import BusError, Unauthorized
from servicebus_emulator.clock import SystemClock
from servicebus_emulator.foreign_pages import refuse_foreign_pages
from servicebus_emulator.gateway import MAX_MESSAGE_BYTES
from servicebus_emulator.listener import Listener
from servicebus_emulator.sas import check_token
from servicebus_emulator.server import BusServer

log = logging.getLogger(__name__)

_MAX_BODY_BYTES = 1024 * 1024


class AdminServer:
    """The server of this module's routes and of AMQP over WebSockets. `clock` is None if the time cannot be advanced.

    `names` are allowed host names besides IP addresses and `localhost`.
    """

    def __init__(self, bus: BusServer, clock: SystemClock | None = None, names: Collection[str] = ()) -> None:
        self._bus = bus
        self._clock = clock
        self._faults = Faults(bus)
        is_premium = bus.options.max_message_bytes > MAX_MESSAGE_BYTES
        self._rest_api = RestApi(bus.broker, self._drop_removed, is_premium=is_premium)
        app = web.Application(client_max_size=_MAX_BODY_BYTES, middlewares=[refuse_foreign_pages(names)])
        app.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        self._listeners: list[Listener] = []

    async def listen(self, host: str, port: int) -> int:
        """Starts to serve on one more port and returns the port."""
        if self._runner.server is None:
            await self._runner.setup()
        server = self._runner.server
        assert server is not None
        listener = Listener(server, self._bus.options.tls, self._bus.options.timeouts.handshake_timeout_s)
        bound = await listener.open(host, port)
        self._listeners.append(listener)
        return bound

    async def close(self) -> None:
        for listener in self._listeners:
            await listener.close()
        await self._runner.cleanup()

    def _drop_removed(self) -> None:
        for client in list(self._bus.clients):
            client.gateway.drop_removed()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        path = request.match_info["path"]
        if "/" + path.rstrip("/") == websocket.PATH:
            return await websocket.serve(self._bus, request)
        if "api-version" in request.query:
            return await self._manage(request, path)
        try:
            return await self._own(request, path)
        except BusError as error:
            return web.json_response({"error": error.description}, status=error.status)
        finally:
            self._bus.wake()

    async def _own(self, request: web.Request, path: str) -> web.Response:
        broker, connections = self._bus.broker, len(self._bus.clients)
        match request.method, path:
            case "GET", "":
                return web.Response(text=overview.page(broker, connections), content_type="text/html")
            case "GET", "entities":
                return web.json_response(overview.counts(broker))
            case "GET", "metrics":
                text = overview.metrics(broker, connections)
                return web.Response(body=text.encode(), headers={"Content-Type": overview.METRICS_TYPE})
            case "GET", "health":
                return web.json_response({"status": "ok", "connections": connections, "cpu_s": time.process_time()})
            case "POST", "faults":
                return web.json_response(self._faults.inject(await _json(request)))
            case "DELETE", "faults":
                self._faults.clear()
                return web.json_response({})
            case "GET", "desk":
                return web.json_response(broker.desk.describe())
            case "POST", "desk":
                return web.json_response(asdict(broker.desk.add(await _json(request))))
            case "DELETE", "desk":
                return web.json_response({"removed": broker.desk.remove()})
            case "DELETE", _ if path.startswith("desk/") and path[5:].isdecimal():
                return web.json_response({"removed": broker.desk.remove(int(path[5:]))})
            case "POST", "desk/seed":
                body = await _json(request)
                broker.desk.begin(body.get("seed") if isinstance(body, dict) else None)
                return web.json_response({"seed": broker.desk.seed})
            case "POST", "clock/advance":
                return self._advance(await _json(request))
        return web.json_response({"error": "no such resource"}, status=404)

    def _advance(self, body: Any) -> web.Response:
        seconds: Any = body.get("seconds") if isinstance(body, dict) else None
        if self._clock is None:
            return web.json_response(
                {"error": "the clock cannot be advanced; start the bus with --virtual-clock"}, status=409
            )
        if type(seconds) not in (int, float) or not 0 <= seconds <= 1e9:
            return web.json_response(
                {"error": 'the body must be {"seconds": N}, with N from 0 to 1,000,000,000'}, status=400
            )
        self._bus.advance(self._clock, round(seconds * 1000))
        return web.json_response({"now_ms": self._clock.now_ms()})

    async def _manage(self, request: web.Request, path: str) -> web.Response:
        rest_request = Request(
            *(request.method, path.strip("/"), request.query, "If-Match" in request.headers, await request.read()),
            f"{request.scheme}://{request.host}",
        )
        try:
            self._check_rights(request)
            status, xml = self._rest_api.handle(rest_request)
        except Unauthorized as error:
            status, xml = 401, feeds.error(401, error.description)
        # Changes are committed before the response, as with messages.
        if not self._bus.commit():
            status, xml = 503, feeds.error(503, "The emulator can no longer store changes; see its log.")
        self._bus.wake()
        if status >= 400:
            log.warning(
                "management request refused method=%s path=%s status=%d", rest_request.method, rest_request.path, status
            )
        return web.Response(text=xml, status=status, content_type="application/atom+xml")

    def _check_rights(self, request: web.Request) -> None:
        key = self._bus.options.sas_key
        if key is not None:
            check_token(request.headers.get("Authorization", ""), key, self._bus.broker.clock.now_ms())


async def _json(request: web.Request) -> Any:
    try:
        return await request.json()
    except ValueError:
        return None
