"""The HTTP server: the app's routes, `/admin`, and the durable extension's API, on one port."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from emulator.durable.clock import stamp
from emulator.durable.engine import Engine
from emulator.durable.web import Answer, Links, WebApi

from .errors import FunctionFailedError, HostError
from .host_json import HTTP_LIMIT_S
from .http_trigger import make_request, make_response
from .indexing import App
from .invocation import TraceState
from .invoker import Invoker
from .routes import Route, RouteTable

_LOG = logging.getLogger("emulator.host")
_DURABLE = "runtime/webhooks/durabletask/"

#: The largest request body, as on Azure (FUNCTIONS_REQUEST_BODY_SIZE_LIMIT).
_MAX_BODY = 100 * 1024 * 1024


class Site:
    def __init__(self, routes: RouteTable, app: App, engine: Engine, api: WebApi) -> None:
        self._routes = routes
        self._app = app
        self._engine = engine
        self._api = api
        self._invoker: Invoker | None = None
        self._links: Links | None = None
        self._opened = asyncio.Event()
        self._running: set[asyncio.Task[Any]] = set()

    async def listen(self, host: str, port: int) -> str:
        """Binds the port, and lets requests wait until `open`."""
        server = web.Server(self._handle, request_factory=_make_request, access_log=None)
        self._runner = web.ServerRunner(server, handle_signals=False)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, shutdown_timeout=0.5).start()
        except OSError as error:
            await self._runner.cleanup()
            raise HostError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self._runner.addresses[0][1]}"

    def open(self, invoker: Invoker, links: Links) -> None:
        self._invoker, self._links = invoker, links
        self._opened.set()

    async def stop(self, timeout: float) -> None:
        for site in list(self._runner.sites):
            await site.stop()
        if self._running:
            await asyncio.wait(set(self._running), timeout=timeout)
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await self._opened.wait()
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            path = request.rel_url.raw_path.lstrip("/")
            if path.startswith(_DURABLE):
                return await self._durable(request, path.removeprefix(_DURABLE))
            if path.startswith(("admin/", "runtime/")):
                return await self._admin(request, path)
            found = self._routes.find(request.method, path)
            if found is None:
                return web.Response(status=404)
            return await self._function(request, *found)
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413)
        finally:
            self._running.discard(task)

    async def _function(self, request: web.BaseRequest, route: Route, values: Mapping[str, str]) -> web.Response:
        assert self._invoker is not None
        body = await request.read()
        trace = TraceState(request.headers.get("traceparent", ""), request.headers.get("tracestate", ""))
        work = self._invoker.invoke(
            route.function, make_request(request, body, values), trigger_data=values, trace=trace
        )
        try:
            result = await asyncio.wait_for(work, HTTP_LIMIT_S)
            return make_response(route.function.name, result)
        except FunctionFailedError:
            return web.Response(status=500)
        except TimeoutError:
            _LOG.error("%s did not answer within %g s: on Azure the caller gets 502", route.function.name, HTTP_LIMIT_S)
            return web.Response(status=502)

    async def _durable(self, request: web.BaseRequest, path: str) -> web.Response:
        assert self._links is not None
        parts = [unquote(part) for part in path.strip("/").split("/")]
        body = await request.read()
        return _answer(self._api.handle(request.method, parts, dict(request.query), body, self._links))

    async def _admin(self, request: web.BaseRequest, path: str) -> web.Response:
        match request.method, path.rstrip("/").split("/"):
            case "GET", ["admin", "host", "status"]:
                return web.json_response({"id": "local", "state": "Running", "version": "4.0", "processUptime": 0})
            case "GET", ["admin", "host", "ping"] | ["admin", "host", "health"]:
                return web.Response(status=200)
            case "GET", ["admin", "functions"]:
                return web.json_response([_describe(one) for one in self._app.functions])
            case "GET", ["admin", "emulator", "stalls"]:
                return web.json_response(
                    [
                        {
                            "instanceId": one.instance_id,
                            "name": one.name,
                            "forEver": one.for_ever,
                            "reason": one.reason,
                            "seenAt": stamp(one.seen_at),
                            "overAt": stamp(one.over_at) if one.over_at else None,
                        }
                        for one in self._engine.reports.stalls
                    ]
                )
            case "GET", ["admin", "emulator", "running"]:
                assert self._invoker is not None
                return web.json_response(self._invoker.running)
            case "GET", ["admin", "emulator", "problems"]:
                return web.json_response(list(self._app.problems))
            case _:
                return web.Response(status=404)


def _describe(function: Any) -> dict[str, Any]:
    bindings = [function.trigger, *function.inputs, *function.outputs]
    return {"name": function.name, "config": {"bindings": [dict(one.fields) for one in bindings]}}


def _answer(answer: Answer) -> web.Response:
    if answer.body is None:
        return web.Response(status=answer.status, headers=dict(answer.headers))
    text = json.dumps(answer.body)
    return web.Response(status=answer.status, text=text, content_type="application/json", headers=dict(answer.headers))


def _make_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=_MAX_BODY)
