"""Purge by the SDK's durable client, against the HTTP API of the emulator's engine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import azure.durable_functions as df
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from azure.durable_functions.models.utils import http_utils

from functions_emulator.durable.http_api import ApiRequest, HttpApi, Links
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.ports.durable import InstanceState
from tests.functions_emulator.durable.hub import Hub


def waits(context: df.DurableOrchestrationContext) -> Any:
    return (yield context.wait_for_external_event("go"))


@asynccontextmanager
async def engine_at(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[DurableOrchestrations]:
    """The adapter, and `answer` where it expects the extension."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(app) as server:
        binding = {
            "taskHubName": "h",
            "creationUrls": {},
            "managementUrls": {},
            "rpcBaseUrl": str(server.make_url("/")),
        }
        try:
            yield DurableOrchestrations(df.DurableOrchestrationClient(json.dumps(binding)), "waits")
        finally:
            # the SDK's session is one of the process, bound to the event loop of its first request
            await http_utils._close_session()


@asynccontextmanager
async def engine_of(hub: Hub, requests: list[str]) -> AsyncIterator[DurableOrchestrations]:
    """The adapter on `hub`; `requests` gets the method of each request."""
    api = HttpApi(hub.client, hub.entities)

    async def answer(request: web.Request) -> web.Response:
        requests.append(request.method)
        parts = [part for part in request.path.split("/") if part]
        response = api.handle(ApiRequest(request.method, parts, dict(request.query)), Links("http://h/", ""))
        assert response is not None
        return web.json_response(response.body, status=response.status)

    async with engine_at(answer) as engine:
        yield engine


@pytest.mark.parametrize("status", ["Pending", "Running", "Suspended"])
async def test_a_live_instance_is_left_alone(status: str) -> None:
    """Without a request that an extension before its pull request 3311 would take."""
    hub, requests = Hub({"waits": waits}), list[str]()
    hub.start("waits", None, "job_1")
    if status != "Pending":
        hub.run()
    if status == "Suspended":
        hub.client.suspend("job_1", "")
        hub.run()
    async with engine_of(hub, requests) as engine:
        assert not await engine.purge("job_1")
        assert (await engine.look_up("job_1")).state is InstanceState.ALIVE
    assert "DELETE" not in requests


async def test_an_ended_instance_is_purged_and_an_unknown_one_is_done() -> None:
    """A second purge reads the state only, so it cannot delete an instance that is started meanwhile."""
    hub, requests = Hub({"waits": waits}), list[str]()
    hub.start("waits", None, "job_1")
    hub.client.terminate("job_1", "stuck")
    hub.run()
    async with engine_of(hub, requests) as engine:
        assert await engine.purge("job_1")
        assert (await engine.look_up("job_1")).state is InstanceState.NOT_FOUND
        assert await engine.purge("job_1")
    assert requests.count("DELETE") == 1


async def test_a_lost_connection_fails_none_of_sixteen_starts() -> None:
    """The SDK closes the session that all calls share when one of them loses its connection; each is made once more."""
    started: list[str] = []
    lost = asyncio.Event()

    async def answer(request: web.Request) -> web.Response:
        if not lost.is_set():
            await asyncio.sleep(0.05)  # the others are under way
            lost.set()
            assert request.transport is not None
            request.transport.abort()
        await lost.wait()
        await asyncio.sleep(0.05)
        started.append(request.path)
        return web.json_response({"id": request.path.rsplit("/", 1)[-1]}, status=202)

    async with engine_at(answer) as engine:
        await asyncio.gather(*(engine.start(f"job_{number}", {}) for number in range(16)))
    assert len({path.rsplit("/", 1)[-1] for path in started}) == 16
