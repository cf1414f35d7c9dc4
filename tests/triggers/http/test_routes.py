"""The arguments of a handler: an authenticated and authorized caller, and the stores of that caller's tenant."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from shared.access.caller import NOBODY, Caller, Scope
from shared.api.job_requests import ControlRequest
from shared.apidocs.route import NO_STORE, OWN, PUBLIC, Route
from shared.core.filters import JobFilter
from shared.operations.jobs.list_jobs import list_jobs
from shared.operations.process.context import Context
from shared.refusals import Refused, TokenInvalid, TokenMissing
from shared.wiring import Wiring
from tests.operations.conftest import World, world
from tests.operations.support import submitted
from triggers.http import routes
from triggers.http.responses import respond
from triggers.http.routes import Handler, Request, add, list_routes

__all__ = ["world"]  # the fixture


class OneCaller:
    """A wiring over the memory stores, whose every request comes from one caller, or is refused."""

    def __init__(self, world: World, caller: Caller | Refused) -> None:
        self._context = world.context
        self._caller = caller

    def callers(self) -> OneCaller:
        return self

    async def caller(self, authorization: str | None) -> Caller:
        if isinstance(self._caller, Refused):
            raise self._caller
        return self._caller

    def context(self) -> Context:
        return self._context

    async def fresh_context(self) -> Context:
        return self._context


def route(**changes: Any) -> Route:
    return Route(
        function="test", method="GET", path="v1/test", scope=Scope.READ, tag="test", summary="", responses={}, **changes
    )


async def list_twice(request: Request) -> func.HttpResponse:
    """Every job that the handler can see, by each of its two contexts."""
    seen = []
    for context in (request.context(), await request.fresh_context()):
        jobs = (await list_jobs(context, JobFilter(), after=None, limit=10)).lines
        seen.append([job.jobId for job in jobs if await context.ledger.read(job.jobId) is not None])
    return respond(request.http, {"seen": seen})


async def called(
    world: World,
    route: Route,
    caller: Caller | Refused,
    request_id: str = "r-1",
    handler: Handler = list_twice,
    **headers: str,
) -> func.HttpResponse:
    """The response of a route to one request."""
    blueprint, app = df.Blueprint(), df.DFApp()
    add(blueprint, route, handler, cast(Wiring, OneCaller(world, caller)))
    app.register_functions(blueprint)
    [function] = app.get_functions()
    sent = {"X-Correlation-Id": request_id, **headers}
    url, path = "/v1/test?tenant_id=secret-query", {"jobId": "job_7", "other": "secret-path"}
    request = func.HttpRequest(route.method, url, headers=sent, route_params=path, body=b"secret-body")
    response = await function.get_user_function()(request)
    assert isinstance(response, func.HttpResponse)
    return response


def test_a_module_gives_the_routes_of_its_own_handlers() -> None:
    """In the order of the source; the route nearest to a handler first. An imported handler is its own module's."""

    @replace(route(), function="older")
    @route()
    async def first(request: Request) -> func.HttpResponse:
        return respond(request.http, {})

    async def second(request: Request) -> func.HttpResponse:
        return respond(request.http, {})

    own, other = ModuleType(__name__), ModuleType("other")
    own.first = other.first = first  # type: ignore[attr-defined]
    own.second = replace(route(), function="second")(second)  # type: ignore[attr-defined]
    found = [(each.function, handler) for each, handler in list_routes([other, own])]
    assert found == [("test", first), ("older", first), ("second", second)]


@pytest.mark.parametrize(("every_tenant", "tenant"), [(False, "tenant_a"), (False, None), (True, "tenant_a")])
async def test_a_handler_sees_the_jobs_of_its_callers_tenant(
    world: World, every_tenant: bool, tenant: str | None
) -> None:
    """R24: a route of every tenant, and a caller who reads all, see all jobs; its token may name no tenant."""
    own, other = await submitted(world), await submitted(world, tenant_id="tenant_b")
    caller = Caller(actor="a", scopes=frozenset({Scope.READ}), tenant=tenant, sees_all=tenant is None)
    response = await called(world, route(every_tenant=every_tenant), caller)
    expected = {own} if tenant is not None and not every_tenant else {own, other}
    seen = json.loads(response.get_body())["seen"]
    assert [set(ids) for ids in seen] == [expected, expected]


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
async def test_a_new_route_moves_unless_it_is_a_get(world: World, method: Any) -> None:
    """R24: without a check in the handler, a caller who only reads every tenant is refused at its first job."""
    own, other = await submitted(world), await submitted(world, tenant_id="tenant_b")
    reader = Caller(actor="a", scopes=frozenset({Scope.READ}), tenant="tenant_a", sees_all=True)

    def reads(job_id: str) -> Handler:
        async def handler(request: Request) -> func.HttpResponse:
            for context in (await request.fresh_context(), request.context()):
                assert await context.ledger.read(job_id) is not None
            return respond(request.http, {})

        return handler

    new = replace(route(), method=method)
    assert (await called(world, new, reader, handler=reads(own))).status_code == 200
    response = await called(world, new, reader, handler=reads(other))
    expected = (200, None) if method == "GET" else (403, "TENANT_FORBIDDEN")
    assert (response.status_code, json.loads(response.get_body()).get("code")) == expected


async def test_an_open_route_sees_no_job(world: World) -> None:
    """A route that needs no scope shows no tenant's jobs, unless it declares that it is of every tenant."""
    job_id = await submitted(world)
    anyone = Caller(actor="a", scopes=frozenset(), tenant=None, sees_all=True)
    for every_tenant, expected in ((False, []), (True, [job_id])):
        open_route = replace(route(every_tenant=every_tenant), scope=None)
        response = await called(world, open_route, anyone)
        assert json.loads(response.get_body())["seen"] == [expected, expected]


async def test_a_request_has_one_context(world: World) -> None:
    """A job that the handler has read is known to each later use of its context, so its events are there."""
    job_id = await submitted(world)

    async def handler(request: Request) -> func.HttpResponse:
        assert await request.context().ledger.read(job_id) is not None
        events = await request.context().ledger.events(job_id)
        return respond(request.http, {"events": [event.type for event in events]})

    caller = Caller(actor="a", scopes=frozenset({Scope.READ}), tenant="tenant_a")
    response = await called(world, route(), caller, handler=handler)
    assert json.loads(response.get_body()) == {"events": ["JOB_CREATED"]}


async def test_a_handler_that_waits_for_ever_is_a_problem(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """R43: the caller may send the request again."""
    monkeypatch.setattr(routes, "REQUEST_S", 0.01)

    async def handler(request: Request) -> func.HttpResponse:
        await asyncio.Event().wait()
        raise AssertionError

    response = await called(world, replace(route(), scope=None), NOBODY, handler=handler)
    assert (response.status_code, json.loads(response.get_body())["code"]) == (503, "DEPENDENCY_UNAVAILABLE")


async def test_without_its_scope_a_handler_is_not_called(world: World) -> None:
    """The problem names the scope and carries the correlation id of the request."""
    response = await called(world, route(), Caller(actor="a", scopes=frozenset(), tenant="tenant_a"), "r-2")
    assert (response.status_code, json.loads(response.get_body())["code"]) == (403, "SCOPE_MISSING")
    assert response.headers["X-Correlation-Id"] == "r-2"


@pytest.mark.parametrize("caching", [OWN, PUBLIC, NO_STORE])
async def test_a_response_is_kept_as_its_route_declares(world: World, caching: str) -> None:
    """A refusal is never cached, with any declaration of the route."""
    for scopes, expected in ((frozenset({Scope.READ}), caching), (frozenset[Scope](), "no-store")):
        response = await called(world, route(caching=caching), Caller(actor="a", scopes=scopes, tenant="a"))
        assert response.headers["Cache-Control"] == expected


async def test_an_older_name_names_its_successor(world: World) -> None:
    """Also where the request is refused: RFC 9745 and RFC 5829."""
    for scopes in (frozenset({Scope.READ}), frozenset[Scope]()):
        response = await called(world, route(successor="/v1/new"), Caller(actor="a", scopes=scopes, tenant="a"))
        assert response.headers["Deprecation"] == "@1767225600"
        assert response.headers["Link"] == '</v1/new>; rel="successor-version"'


@pytest.mark.parametrize("body", [None, ControlRequest])
async def test_a_large_body_is_refused_before_its_caller_is_asked_for(
    world: World, body: type[ControlRequest] | None
) -> None:
    """With or without a token: it costs nothing and reveals nothing. A route without a body reads none."""
    for scopes in (frozenset({Scope.READ}), frozenset[Scope]()):
        caller = Caller(actor="a", scopes=scopes, tenant="a")
        response = await called(world, route(body=body), caller, **{"Content-Length": "2000000"})
        assert response.status_code == (413 if body is not None else 200 if scopes else 403)


SEES_ALL = Caller(actor="user:o-1", scopes=frozenset({Scope.READ}), tenant="tenant_a", sees_all=True)
MOVES_ALL = Caller(actor="app:o-2 (x)", scopes=frozenset({Scope.READ}), tenant=None, moves_all=True)
OWN_ONLY = replace(SEES_ALL, sees_all=False)
WHO = {"actor": "user:o-1", "tenant_id": "tenant_a"}
OF_ALL = {"all_tenants": True}


async def answers(request: Request) -> func.HttpResponse:
    return respond(request.http, {})


async def fails(request: Request) -> func.HttpResponse:
    raise RuntimeError("secret-detail")


@pytest.mark.parametrize(
    ("changes", "caller", "expected"),
    [
        ({}, OWN_ONLY, {"status": 200, "jobId": "job_7", **WHO}),
        ({}, SEES_ALL, {"status": 200, **WHO, **OF_ALL}),
        ({}, MOVES_ALL, {"status": 200, "actor": "app:o-2 (x)"}),
        ({"method": "POST"}, SEES_ALL, {"status": 200, "method": "POST", **WHO}),
        ({"method": "POST", "every_tenant": True}, OWN_ONLY, {"status": 200, **WHO, **OF_ALL}),
        ({"method": "POST"}, MOVES_ALL, {"status": 200, "actor": "app:o-2 (x)", **OF_ALL}),
        ({}, replace(OWN_ONLY, scopes=frozenset()), {"status": 403, "reason": "SCOPE_MISSING", **WHO}),
        ({}, TokenMissing(), {"status": 401, "reason": "TOKEN_MISSING"}),
        ({}, TokenInvalid("the token has expired"), {"status": 401, "reason": "TOKEN_INVALID"}),
        ({"scope": None}, OWN_ONLY, {"status": 200}),
        ({"handler": fails}, OWN_ONLY, {"status": 500, **WHO}),
    ],
)
async def test_each_request_is_one_access_line(
    world: World,
    caplog: pytest.LogCaptureFixture,
    changes: dict[str, Any],
    caller: Caller | Refused,
    expected: dict[str, Any],
) -> None:
    """The caller, route, scope, use across tenants and outcome; refused requests too."""
    caplog.set_level(logging.INFO, "lucius")
    changed = {"handler": answers, **changes}
    handler = changed.pop("handler")
    response = await called(world, replace(route(), **changed), caller, "r-3", handler, Authorization="Bearer s3cret")
    lines = [json.loads(each.message) for each in caplog.records if each.message.startswith("{")]
    [line] = [each for each in lines if each["event"] == "ACCESS"]
    known = {"actor", "tenant_id", "all_tenants", "reason"} | expected.keys()
    assert {name: line[name] for name in line.keys() & known} == expected
    assert (line["route"], line["correlation_id"], line["status"]) == ("/v1/test", "r-3", response.status_code)
    assert line.get("scope") == changed.get("scope", Scope.READ)
    assert line["duration_ms"] >= 0
    for secret in ("s3cret", "secret-query", "secret-path", "secret-body", "secret-detail"):
        assert secret not in json.dumps(lines)
    refusals = [each["correlation_id"] for each in lines if each["event"] == "TOKEN_REFUSED"]
    assert refusals == (["r-3"] if isinstance(caller, TokenInvalid) else [])


async def test_probes_are_no_access_lines(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """They arrive every few seconds without information; at DEBUG they are logged."""
    for level, expected in ((logging.INFO, 0), (logging.DEBUG, 1)):
        caplog.set_level(level, "lucius")
        caplog.clear()
        await called(world, replace(route(), scope=None, tag="health"), OWN_ONLY, handler=answers)
        assert sum('"ACCESS"' in each.message for each in caplog.records) == expected
