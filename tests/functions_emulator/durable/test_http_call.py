"""`call_http`: the call itself against a real server, and the extension's handling of its response."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from typing import Any

import pytest
from aiohttp import web

from functions_emulator.durable.http_call import HttpCallError, call_http
from functions_emulator.durable.replay import HTTP_ACTIVITY
from tests.functions_emulator.durable.hub import Hub


async def _echo(request: web.Request) -> web.Response:
    echoed = {"method": request.method, "headers": dict(request.headers), "body": await request.text()}
    response = web.json_response(echoed, status=int(request.query.get("status", "200")))
    response.headers.add("X-Two", "a")
    response.headers.add("X-Two", "b")
    return response


async def _slow(request: web.Request) -> web.Response:
    await asyncio.sleep(30)
    return web.Response()


async def _away(request: web.Request) -> web.Response:
    raise web.HTTPFound("/echo")


@pytest.fixture
async def url() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/echo", _echo)
    app.router.add_get("/slow", _slow)
    app.router.add_get("/away", _away)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def call(request: Mapping[str, Any], token: str | None = None) -> dict[str, Any]:
    response: dict[str, Any] = json.loads(await call_http(json.dumps(request), lambda resource: token))
    return response


async def test_the_request_is_sent_unchanged(url: str) -> None:
    """Method, headers and content arrive; content without a type is text/plain; repeated headers are a list."""
    response = await call({"method": "PUT", "uri": f"{url}/echo", "content": '{"a": 1}', "headers": {"X-A": "b"}})
    echoed = json.loads(response["content"])
    assert (response["statusCode"], echoed["method"], echoed["body"]) == (200, "PUT", '{"a": 1}')
    assert (echoed["headers"]["X-A"], echoed["headers"]["Content-Type"]) == ("b", "text/plain")
    assert response["headers"]["X-Two"] == ["a", "b"]
    assert not [name for name in response["headers"] if name.lower().startswith("content-")]


async def test_redirects_are_followed(url: str) -> None:
    """As by the extension's HttpClient."""
    assert (await call({"method": "GET", "uri": f"{url}/away"}))["statusCode"] == 200


async def test_an_error_status_fails_the_call_only_with_retry_options(url: str) -> None:
    """The code gets a 404; with retry options a status to retry fails the attempt."""
    request = {"method": "GET", "uri": f"{url}/echo?status=404"}
    assert (await call(request))["statusCode"] == 404
    options = {"firstRetryInterval": "00:00:01", "maxNumberOfAttempts": 2}
    with pytest.raises(HttpCallError, match="Status code 404"):
        await call({**request, "retryOptions": options})
    only_503 = {**options, "statusCodesToRetry": [503]}
    assert (await call({**request, "retryOptions": only_503}))["statusCode"] == 404


async def test_a_timeout_fails_the_call(url: str) -> None:
    """The `timeout` of the request is the limit."""
    with pytest.raises(HttpCallError, match=r"within 0\.1 s"):
        await call({"method": "GET", "uri": f"{url}/slow", "timeout": "00:00:00.1"})


async def test_a_token_source_needs_a_configured_token(url: str) -> None:
    """A configured token is sent as bearer token; without one the failure names the setting."""
    source = {"kind": "AzureManagedIdentity", "resource": "https://management.core.windows.net/"}
    request = {"method": "GET", "uri": f"{url}/echo", "tokenSource": source}
    echoed = json.loads((await call(request, token="local"))["content"])
    assert echoed["headers"]["Authorization"] == "Bearer local"
    with pytest.raises(HttpCallError, match="EMULATOR_IDENTITY_TOKEN"):
        await call(request)
    with pytest.raises(HttpCallError, match="kind 'Other' is not supported"):
        await call({**request, "tokenSource": {"kind": "Other"}}, token="local")


async def test_multipart_is_refused(url: str) -> None:
    """As the extension does."""
    with pytest.raises(HttpCallError, match="Multipart"):
        await call({"method": "POST", "uri": f"{url}/echo", "headers": {"Content-Type": "multipart/mixed; boundary=x"}})


# --- polls and retries


def _response(status: int, **headers: str) -> dict[str, Any]:
    return {"statusCode": status, "headers": {name.replace("_", "-"): text for name, text in headers.items()}}


def _hub(request: Mapping[str, Any], responses: list[Any], requests: list[Any]) -> Hub:
    """Returns an orchestrator with one HTTP call whose request can have polls and retries, which SDK 1.7 cannot send.

    It ends with the first response that is not 202.
    """

    def code(context: Any) -> str:
        history = json.loads(context.body)["history"]
        results = [json.loads(event["Result"]) for event in history if event["EventType"] == 5]
        last = next((one for one in results if one["statusCode"] != 202), None)
        failed = sum(event["EventType"] == 6 for event in history)
        state = {"isDone": last is not None or failed == 3, "schemaVersion": 2, "output": last and last["statusCode"]}
        return json.dumps({**state, "actions": [[{"actionType": 8, "httpRequest": request}]]})

    def http(made: Any) -> Any:
        requests.append(made)
        response = responses.pop(0)
        if isinstance(response, Exception):
            raise response
        return response

    hub = Hub({"fetch": code}, {HTTP_ACTIVITY: http})
    hub._orchestrators["fetch"] = code
    return hub


def test_a_202_is_followed_to_its_location() -> None:
    """A poll waits for Retry-After, else for the default; it is a GET of Location without the function's key."""
    request = {
        "method": "POST",
        "uri": "http://x/start",
        "content": "body",
        "headers": {"X-Functions-Key": "secret", "X-Kept": "yes"},
        "asynchronousPatternEnabled": True,
    }
    requests: list[Any] = []
    responses = [
        _response(202, Location="http://x/1", Retry_After="5"),
        _response(202, location="http://x/2"),
        _response(200),
    ]
    hub = _hub(request, responses, requests)
    instance_id = hub.start("fetch")
    hub.run()
    assert [one["uri"] for one in requests] == ["http://x/start"]
    hub.advance(seconds=4)
    assert len(requests) == 1
    hub.advance(seconds=1)
    assert requests[1] == {"method": "GET", "uri": "http://x/1", "headers": {"X-Kept": "yes"}}
    assert hub.engine.reports.waiting_for(instance_id)[0].startswith("HTTP poll timer")
    hub.advance(seconds=29)
    assert len(requests) == 2
    hub.advance(seconds=1)
    assert requests[2]["uri"] == "http://x/2"
    assert hub.outcome(instance_id) == ("Completed", 200)
    assert hub.stalls == []


def test_a_202_is_the_result_for_sdk_1_7() -> None:
    """Its requests do not request polls, so the extension makes none (azure-functions-durable-python issue 380)."""
    requests: list[Any] = []

    def code(context: Any) -> Any:
        response = yield context.call_http("GET", "http://x/start")
        return response["statusCode"]

    hub = Hub(
        {"fetch": code}, {HTTP_ACTIVITY: lambda request: requests.append(request) or _response(202, Location="/1")}
    )
    instance_id = hub.start("fetch")
    hub.advance(minutes=5)
    assert hub.outcome(instance_id) == ("Completed", 202)
    assert len(requests) == 1


def test_http_retries_grow_by_their_coefficient() -> None:
    """Ten seconds, then twenty, and a last timer that fires at once."""
    options = {"FirstRetryInterval": "00:00:10", "MaxNumberOfAttempts": 3, "BackoffCoefficient": 2.0}
    requests: list[Any] = []
    down = [ConnectionError("down")] * 3
    hub = _hub({"method": "GET", "uri": "http://x", "retryOptions": options}, list(down), requests)
    instance_id = hub.start("fetch")
    began = hub.clock.now()
    counts = []
    for _ in range(31):
        hub.advance(seconds=1)
        counts.append((len(requests), hub.clock.now() - began))
    assert [next(at for count, at in counts if count == number) for number in (1, 2, 3)] == [
        timedelta(seconds=1),
        timedelta(seconds=10),
        timedelta(seconds=30),
    ]
    assert hub.outcome(instance_id)[0] == "Completed"
