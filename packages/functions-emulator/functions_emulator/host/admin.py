"""The HTTP API below `/admin`, with the routes of Core Tools, and with the emulator's own routes below
`/admin/emulator`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Any

import aiohttp
from aiohttp import web

from functions_emulator.durable.client import Client
from functions_emulator.durable.clock import stamp
from functions_emulator.durable.engine import Engine
from functions_emulator.host.errors import FunctionFailedError
from functions_emulator.host.functions import Function
from functions_emulator.host.indexing import App
from functions_emulator.host.invoker import Invoker
from functions_emulator.host.virtual_time import VirtualTime, parse_duration

#: creates the trigger value of a function from the `input` text of a manual call
ManualTrigger = Callable[[Function, str], Awaitable[Any]]


class Admin:
    """The routes below `/admin`. `manual` has functions by trigger type that create trigger values."""

    def __init__(
        self,
        app: App,
        engine: Engine,
        client: Client,
        invoker: Invoker,
        manual: Mapping[str, ManualTrigger],
        virtual_time: VirtualTime | None,
    ) -> None:
        self._app = app
        self._engine = engine
        self._client = client
        self._invoker = invoker
        self._manual = manual
        self._virtual_time = virtual_time
        self._started = monotonic()
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle(self, request: web.BaseRequest, path: str) -> web.Response:
        """Returns the response to a request. `path` has no leading slash."""
        match request.method, path.rstrip("/").split("/"):
            case "GET", ["admin", "host", "status"]:
                uptime = int((monotonic() - self._started) * 1000)
                return web.json_response({"id": "local", "state": "Running", "version": "4.0", "processUptime": uptime})
            case "GET" | "POST", ["admin", "host", "ping"]:
                return web.Response(status=200)
            case "GET", ["admin", "functions"]:
                return web.json_response([_describe(one) for one in self._app.functions])
            case "GET", ["admin", "functions", name]:
                function = self._find(name)
                return web.Response(status=404) if function is None else web.json_response(_describe(function))
            case "POST", ["admin", "functions", name]:
                return await self._run(name, await request.read())
            case "GET", ["admin", "emulator", "time"]:
                return web.json_response({"now": stamp(self._engine.clock.now())})
            case "POST", ["admin", "emulator", "advance"]:
                return await self._advance(await request.read())
            case "GET", ["admin", "emulator", "stalls"]:
                return web.json_response(self._stalls())
            case "GET", ["admin", "emulator", "running"]:
                return web.json_response(self._invoker.running)
            case "GET", ["admin", "emulator", "problems"]:
                return web.json_response(list(self._app.problems))
            case _:
                return web.Response(status=404)

    def _find(self, name: str) -> Function | None:
        return next((one for one in self._app.functions if one.name.lower() == name.lower()), None)

    async def _run(self, name: str, body: bytes) -> web.Response:
        """Starts a function with `{"input": "..."}`, and responds before the function has ended."""
        function = self._find(name)
        if function is None:
            return web.Response(status=404)
        try:
            value_in = json.loads(body).get("input", "") if body.strip() else ""
            text = value_in if isinstance(value_in, str) else json.dumps(value_in)
            if function.trigger.type == "orchestrationTrigger":
                name = function.trigger.text("orchestration") or function.name
                return web.json_response({"id": self._client.start(name, None, json.dumps(_json_of(text)))}, status=202)
            make = self._manual.get(function.trigger.type)
            if make is None:
                error = "run an entity by POST /runtime/webhooks/durabletask/entities/{name}/{key}?op={operation}"
                return web.json_response({"error": error}, status=400)
            value = await make(function, text)
        except (ValueError, AttributeError) as error:
            return web.json_response({"error": f'the body must be {{"input": ...}}: {error}'}, status=400)
        task = asyncio.get_running_loop().create_task(self._invoke(function, value))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return web.Response(status=202)

    async def _advance(self, body: bytes) -> web.Response:
        """Advances the virtual clock: `{"by": "15m", "bus": URL of the admin API of a bus to advance with it}`."""
        if self._virtual_time is None:
            return web.json_response(
                {"error": "the clock cannot be advanced; start the host with --virtual-clock"}, status=409
            )
        try:
            document = json.loads(body)
            await self._virtual_time.advance(parse_duration(str(document["by"])), document.get("bus"))
        except (ValueError, KeyError, TypeError, aiohttp.ClientError) as error:
            text = f'the clock did not advance to the end: {error}. Send {{"by": "15m"}}, with an optional "bus": URL'
            return web.json_response({"error": text}, status=400)
        return web.json_response({"now": stamp(self._virtual_time.now())})

    async def _invoke(self, function: Function, value: Any) -> None:
        try:
            await self._invoker.invoke(function, value)
        except FunctionFailedError:
            return  # the invoker has logged it

    def _stalls(self) -> list[dict[str, Any]]:
        return [
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


def _json_of(text: str) -> str | None:
    """Returns JSON text as the SDK's client would send it; a text that is not JSON becomes a JSON string."""
    try:
        json.loads(text)
    except ValueError:
        return json.dumps(text) if text else None
    return text


def _describe(function: Function) -> dict[str, Any]:
    bindings = [function.trigger, *function.inputs, *function.outputs]
    return {"name": function.name, "config": {"bindings": [dict(one.fields) for one in bindings]}}
