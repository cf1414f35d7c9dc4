"""The HTTP server: the app's routes, the pages `/` and `/emulator`, `/admin`, and the durable extension's API, on one
port.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Collection, Mapping
from time import monotonic
from typing import Any
from urllib.parse import quote

from aiohttp import web

from functions_emulator.durable.errors import DurableError, InstanceNotFoundError
from functions_emulator.durable.http_api import ApiRequest, ApiResponse, HttpApi, Links
from functions_emulator.host.admin import Admin
from functions_emulator.host.cors import Cors, refusal
from functions_emulator.host.errors import FunctionFailedError, HostError
from functions_emulator.host.expressions import data_of_body
from functions_emulator.host.host_json import HTTP_LIMIT_S
from functions_emulator.host.http_messages import function_request, function_response
from functions_emulator.host.http_streams import Streams
from functions_emulator.host.invocation import TraceState
from functions_emulator.host.invoker import Invoker
from functions_emulator.host.kestrel import MAX_BODY, KestrelServer, RefusedError, path_of, refused
from functions_emulator.host.keys import Keys
from functions_emulator.host.page import Page
from functions_emulator.host.routes import Route, RouteTable
from functions_emulator.host.throttle import RequestThrottle, TooManyRequestsError

_LOG = logging.getLogger("functions_emulator.host")
_DURABLE = "runtime/webhooks/durabletask/"
_SLASH = re.compile("%2F", re.IGNORECASE)


class HttpServer:
    """The server of the functions' routes, `/`, `/admin`, `/emulator` and the durable API."""

    def __init__(
        self,
        routes: RouteTable,
        api: HttpApi,
        *,
        keys: Keys | None,
        cors: Cors,
        names: Collection[str],
        throttle: RequestThrottle,
        home: str | None,
        custom_headers: Mapping[str, str] | None = None,
    ) -> None:
        """Sets the routes. `names` are allowed host names besides IP addresses and `localhost`.

        `home` is the HTML at `/`. The server adds `custom_headers` to responses of functions that do not have them, and
        to the statuses 401 and 404 of functions' routes (CustomHttpHeadersMiddleware.cs of azure-functions-host).
        """
        self._home = home
        self._custom_headers = dict(custom_headers or {})
        self._routes = routes
        self._api = api
        self._keys = keys
        self._cors = cors
        self._names = names
        self._throttle = throttle
        self._invoker: Invoker | None = None
        self._admin: Admin | None = None
        self._page: Page | None = None
        self._streams: Streams | None = None
        # On Azure the SDK's client uses a port that only the worker sees; here it uses a secret path.
        self._rpc_path = f"runtime/rpc/{secrets.token_urlsafe(16)}/durabletask/"
        self._links: Links | None = None
        self._opened = asyncio.Event()
        self._running: set[asyncio.Task[Any]] = set()
        self._draining = False

    async def listen(self, host: str, port: int) -> str:
        """Binds the port and returns the URL. Requests wait until `open`. Raises `HostError` if the address cannot be
        used, for example because the port is in use.
        """
        self._runner = web.ServerRunner(KestrelServer(self._handle), handle_signals=False)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host, port, shutdown_timeout=0.5).start()
        except OSError as error:
            await self._runner.cleanup()
            raise HostError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
        name = f"[{host}]" if ":" in host else host
        return f"http://{name}:{self._runner.addresses[0][1]}"

    def rpc_url(self, url: str) -> str:
        """Returns the URL of the durable API for the SDK's client, which has no key."""
        return f"{url}/{self._rpc_path}"

    def open(self, invoker: Invoker, links: Links, admin: Admin, page: Page, streams: Streams | None = None) -> None:
        """Starts to serve. `streams` is `None` unless the app uses an HTTP extension."""
        self._invoker, self._links, self._admin, self._page, self._streams = invoker, links, admin, page, streams
        self._opened.set()

    async def drain(self, timeout: float) -> None:
        """Refuses new requests for functions, and waits up to `timeout` seconds for running requests. Still serves the
        durable clients of these requests.
        """
        self._draining = True
        if self._running:
            await asyncio.wait(set(self._running), timeout=timeout)

    async def stop(self) -> None:
        """Closes the port and all connections."""
        await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        await self._opened.wait()
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        try:
            path = path_of(request).removeprefix("/")
            first = path.partition("/")[0].lower()
            if (why := self._refusal(request, first)) is not None:
                _LOG.warning("refused a request: %s", why)
                return web.Response(status=403, text=f"{why}\n")
            if path.startswith(self._rpc_path):
                return await self._serve_durable(request, path.removeprefix(self._rpc_path))
            if path.startswith(_DURABLE):
                if self._keys is not None and not self._keys.opens_durable(_key(request)):
                    return web.Response(status=401)
                return await self._serve_durable(request, path.removeprefix(_DURABLE))
            if first in ("admin", "runtime"):
                return await self._serve_admin(request, path)
            if first == "emulator":
                return await self._serve_page(request, path)
            return await self._serve_function(request, path)
        except RefusedError as error:
            return refused(error.status)
        except web.HTTPRequestEntityTooLarge:
            return web.Response(status=413)
        finally:
            self._running.discard(task)

    def _refusal(self, request: web.BaseRequest, first: str) -> str | None:
        """Returns the reason why a web page must not send this request, or `None`.

        Only the emulator's own page can use `/emulator`.
        """
        origin = request.headers.get("Origin")
        if origin is not None and first != "emulator" and self._cors.allows(origin):
            origin = None
        return refusal(request.headers.get("Host"), origin, self._names)

    async def _serve_admin(self, request: web.BaseRequest, path: str) -> web.Response:
        assert self._admin is not None
        if self._keys is not None and path != "admin/host/ping" and not self._keys.opens_admin(_key(request)):
            return web.Response(status=401)
        return await self._admin.handle(request, path)

    async def _serve_page(self, request: web.BaseRequest, path: str) -> web.Response:
        """Returns the page, which is served only without access keys, since a browser has no key."""
        if self._keys is not None or self._page is None:
            return web.Response(status=404)
        try:
            match request.method, *_parts(path):
                case "GET", "emulator":
                    query = request.query
                    names = ("status", "prefix", "after")
                    return _html(self._page.overview(*(query.get(name, "") for name in names)))
                case "GET", "emulator", "instances", instance_id:
                    return _html(self._page.detail(instance_id))
                case "POST", "emulator", "instances", instance_id, operation:
                    form = {name: str(value) for name, value in (await request.post()).items()}
                    self._page.control(instance_id, operation, form)
                    location = f"/emulator/instances/{quote(instance_id, safe='')}"
                    return web.Response(status=303, headers={"Location": location})
                case _:
                    return web.Response(status=404)
        except InstanceNotFoundError as error:
            return web.Response(status=404, text=str(error))
        except (DurableError, ValueError) as error:
            return web.Response(status=400, text=str(error))

    def _serve_home(self) -> web.Response:
        """Returns the page at `/`, unless a function has that route (HomepageMiddleware.cs)."""
        return web.Response(status=204) if self._home is None else _html(self._home)

    async def _serve_function(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if request.method == "OPTIONS":
            allowed = self._cors.preflight(request.headers)
            if allowed is not None:
                return web.Response(status=204, headers=allowed)
        route_match = self._routes.find(request.method, path)
        if route_match is None:
            return web.Response(status=404, headers=self._custom_headers) if path else self._serve_home()
        if self._draining:
            return web.Response(status=503, headers={"Connection": "close"})
        route, values = route_match
        if self._keys is not None and not self._keys.opens_function(
            _key(request), route.function.name, route.auth_level
        ):
            return web.Response(status=401, headers=self._custom_headers)
        if (request.content_length or 0) > MAX_BODY:
            return refused(413)
        if "Host" not in request.headers:  # HTTP/1.0: the trigger's binding cannot make its URL (`ToInvokeString`)
            _LOG.error("%s cannot be called without a Host header", route.function.name)
            return web.Response(status=500)
        try:
            async with self._throttle:
                cors = self._cors.headers(request.headers.get("Origin"))
                if self._streams is not None:
                    return await self._stream(self._streams, request, route, values, cors)
                response = await self._invoke(request, path, route, values)
        except TooManyRequestsError:
            return web.Response(status=429)
        for name, text in self._custom_headers.items():
            response.headers.setdefault(name, text)
        response.headers.update(cors)
        return response

    async def _stream(
        self,
        streams: Streams,
        request: web.BaseRequest,
        route: Route,
        values: Mapping[str, str],
        cors: Mapping[str, str],
    ) -> web.StreamResponse:
        invoker = self._invoker
        assert invoker is not None

        async def call(extension_request: Any) -> Any:
            return await invoker.invoke(route.function, extension_request, trigger_data=values, trace=_trace(request))

        try:
            return await streams.respond(request, values, call, cors, self._custom_headers, HTTP_LIMIT_S)
        except TimeoutError:
            return _bad_gateway(route.function.name)

    async def _invoke(
        self, request: web.BaseRequest, path: str, route: Route, values: Mapping[str, str]
    ) -> web.Response:
        assert self._invoker is not None
        value = await function_request(request, f"/{path}", values)
        data = {**data_of_body(value.get_body()), **values} if route.function.has_expressions else values
        work = self._invoker.invoke(route.function, value, trigger_data=data, trace=_trace(request))
        try:
            # The function continues after the limit, as on Azure.
            result = await asyncio.wait_for(asyncio.shield(work), HTTP_LIMIT_S)
        except FunctionFailedError:
            return web.Response(status=500)
        except TimeoutError:
            return _bad_gateway(route.function.name)
        try:
            return function_response(route.function.name, result)
        except FunctionFailedError as error:
            _LOG.error("%s failed: %s", route.function.name, error)
            return web.Response(status=500)

    async def _serve_durable(self, request: web.BaseRequest, path: str) -> web.Response:
        assert self._links is not None
        parts = _parts(path.strip("/"))
        headers = {name.lower(): value for name, value in request.headers.items()}
        api_request = ApiRequest(request.method, parts, dict(request.query), headers, await request.read())
        api_response = self._api.handle(api_request, self._links)
        if api_response is None:
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=503)
        if api_response.wait_s is not None:
            api_response = await self._wait_for_end(api_response, *api_response.wait_s)
        return _web_response(api_response)

    async def _wait_for_end(self, started: ApiResponse, timeout_s: float, interval_s: float) -> ApiResponse:
        """Returns the response when the instance has ended; after the timeout, returns the response to its start."""
        assert self._links is not None
        deadline = monotonic() + timeout_s
        while (ended := self._api.outcome(started.body["id"], self._links)) is None:
            left = deadline - monotonic()
            if left <= 0:
                return started
            await asyncio.sleep(min(left, interval_s))
        return ended


def _parts(path: str) -> list[str]:
    """Returns the segments of a path. A segment can contain slashes, which were `%2F` in the path."""
    return [_SLASH.sub("/", part) for part in path.split("/")]


def _trace(request: web.BaseRequest) -> TraceState:
    return TraceState(request.headers.get("traceparent", ""), request.headers.get("tracestate", ""))


def _bad_gateway(name: str) -> web.Response:
    _LOG.error("%s did not respond within %g s; the caller gets 502, as on Azure", name, HTTP_LIMIT_S)
    return web.Response(status=502)


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html", headers={"Cache-Control": "no-store"})


def _key(request: web.BaseRequest) -> str | None:
    """Returns the key of a request.

    The header has precedence, even if it is empty (AuthenticationLevelHandler.cs of azure-functions-host).
    """
    return request.headers.get("x-functions-key", request.query.get("code"))


def _web_response(api_response: ApiResponse) -> web.Response:
    if api_response.body is None:
        return web.Response(status=api_response.status, headers=dict(api_response.headers))
    text = json.dumps(api_response.body)
    return web.Response(
        status=api_response.status, text=text, content_type="application/json", headers=dict(api_response.headers)
    )
