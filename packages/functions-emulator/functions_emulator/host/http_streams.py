"""HTTP functions that stream: apps that use `azurefunctions-extensions-http-fastapi`.

If an app imports the extension, each of its HTTP functions gets the extension's request and may return its responses.
Source: http_v2 of azure-functions-python-worker, where the extension's web app runs on a server of its own and the host
forwards requests to it. Here the host calls that web app by ASGI, on the loop of the app's code.
"""

from __future__ import annotations

import asyncio
import contextvars
import importlib
import logging
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from aiohttp import web

from functions_emulator.host.signature import AnnotationRules

_LOG = logging.getLogger("functions_emulator.host")

_BASE = "azurefunctions.extensions.base"
_CHUNK = 64 * 1024

#: runs the function for the extension's request object; awaited on the host's loop
Call = Callable[[Any], Awaitable[Any]]

_call: contextvars.ContextVar[Call] = contextvars.ContextVar("call")


def extension() -> Any | None:
    """Returns the base module of the extension if the app uses it, else `None`. PYTHON_ENABLE_INIT_INDEXING=0 disables
    the extension.
    """
    base = sys.modules.get(_BASE)
    if base is None or os.environ.get("PYTHON_ENABLE_INIT_INDEXING", "1").lower() in ("0", "false"):
        return None
    return base if base.HttpV2FeatureChecker.http_v2_enabled() else None


def annotation_rules() -> AnnotationRules | None:
    """Returns the types of requests and responses of the extension, if the app uses it."""
    base = extension()
    return base and AnnotationRules(base.RequestTrackerMeta.check_type, base.ResponseTrackerMeta.check_type)


class Streams:
    """The forwarder of requests to the extension's web app on `app_loop`, the loop of the app's code."""

    def __init__(self, base: Any, app_loop: asyncio.AbstractEventLoop) -> None:
        self._base = base
        self._app_loop = app_loop
        module = importlib.import_module(base.ModuleTrackerMeta.get_module())
        web_app = module.WebApp()
        self._asgi = web_app.get_app()
        host_loop = asyncio.get_running_loop()

        async def catch_all(request: Any) -> Any:
            work = asyncio.run_coroutine_threadsafe(_await(_call.get()(request)), host_loop)
            return await asyncio.wrap_future(work)

        # FastAPI passes the request itself because of this annotation.
        catch_all.__annotations__ = {"request": base.RequestTrackerMeta.get_request_type()}
        web_app.route(catch_all)

    async def respond(
        self,
        request: web.BaseRequest,
        values: Mapping[str, str],
        call: Call,
        headers: Mapping[str, str],
        defaults: Mapping[str, str],
        limit_s: float,
    ) -> web.StreamResponse:
        """Streams the function's response with `headers`, and with the headers of `defaults` that the response lacks.

        Raises `TimeoutError` if the response does not start within `limit_s` seconds.
        """

        async def with_route(extension_request: Any) -> Any:
            self._base.RequestTrackerMeta.get_synchronizer().sync_route_params(extension_request, dict(values))
            return await call(extension_request)

        exchange = _Exchange(request, headers, defaults)
        running = asyncio.run_coroutine_threadsafe(self._run(exchange, with_route), self._app_loop)
        ended = asyncio.wrap_future(running)
        await asyncio.wait([ended, exchange.begun], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done() and not exchange.begun.done():
            raise TimeoutError
        try:
            await ended
        except asyncio.CancelledError:
            running.cancel()
            raise
        except ConnectionError:
            _LOG.info("the caller of %s %s has closed the connection", request.method, request.path)
        except Exception as error:
            # For a function that raises the web app sends 500 before it raises here. An interrupted stream has no end,
            # and its caller must notice that it is not complete.
            if not exchange.complete:
                _LOG.error("the response to %s %s was interrupted: %r", request.method, request.path, error)
                if request.transport is not None:
                    request.transport.abort()
        return exchange.response

    async def _run(self, exchange: _Exchange, call: Call) -> None:
        _call.set(call)
        await self._asgi(exchange.scope, exchange.receive, exchange.send)


async def _await(work: Awaitable[Any]) -> Any:
    return await work


class _Exchange:
    """One request and its response by ASGI; `receive` and `send` are called on the app's loop."""

    def __init__(self, request: web.BaseRequest, headers: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        self._request = request
        self._headers = headers
        self._defaults = defaults
        self._loop = asyncio.get_running_loop()
        self._received = False
        self.complete = False
        self.begun: asyncio.Future[None] = self._loop.create_future()
        self.response = web.StreamResponse()
        self.scope: MutableMapping[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": request.scheme,
            "path": request.rel_url.path,
            "raw_path": request.rel_url.raw_path.encode(),
            "query_string": request.rel_url.raw_query_string.encode(),
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.raw_headers],
            "client": (request.remote or "", 0),
            "server": None,
        }

    async def receive(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._on_host_loop(self._next_chunk())
        return message

    async def send(self, message: Mapping[str, Any]) -> None:
        await self._on_host_loop(self._write(message))

    async def _on_host_loop(self, work: Any) -> Any:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    async def _next_chunk(self) -> dict[str, Any]:
        if self._received:
            # No more events follow; the web app cancels this wait after its response.
            await self._loop.create_future()
        chunk = await self._request.content.read(_CHUNK)
        self._received = self._request.content.at_eof()
        return {"type": "http.request", "body": chunk, "more_body": not self._received}

    async def _write(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.response.set_status(message["status"])
            for name, value in message["headers"]:
                self.response.headers.add(name.decode("latin-1"), value.decode("latin-1"))
            for name, text in self._defaults.items():
                self.response.headers.setdefault(name, text)
            self.response.headers.update(self._headers)
            if not self.begun.done():
                self.begun.set_result(None)
            await self.response.prepare(self._request)
        elif message["type"] == "http.response.body":
            if self._request.method != "HEAD":
                await self.response.write(message.get("body", b""))
            if not message.get("more_body"):
                await self.response.write_eof()
                self.complete = True
