"""Makes a function of the app from a route. If the route has a scope, the function authenticates and authorizes the
caller before the handler runs.

`triggers.registered` lists the modules with handlers, and has OPTIONS.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared import telemetry
from shared.access.caller import ANYONE, NOBODY, Caller
from shared.access.stream_ticket import read_ticket
from shared.apidocs.route import DEPRECATED_SINCE, NO_STORE, Route, routes_of
from shared.errors import Transient
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.refusals import Refused, TokenInvalid
from shared.settings import Settings
from shared.telemetry.spans import request_span
from shared.time_limits import REQUEST_S, time_limit
from shared.wiring import Wiring, seen_by
from triggers.http.bodies import refuse_large_body
from triggers.http.parameters import is_job_id, refuse_unknown_parameters
from triggers.http.problems import problem_response, status_of
from triggers.http.responses import correlation_id
from triggers.http.sse import later, wants_stream


class Request:
    """A request whose caller can use the route."""

    def __init__(self, http: func.HttpRequest, route: Route, caller: Caller, wiring: Wiring, client: Any) -> None:
        self.http = http
        self.caller = caller
        self._route = route
        self._wiring = wiring
        self._client = client
        self._context: Context | None = None

    @property
    def settings(self) -> Settings:
        """Returns the app's settings. Unlike `context`, builds no adapter."""
        return self._wiring.settings

    @property
    def wiring(self) -> Wiring:
        """Returns the app's wiring, with access to the jobs of all tenants, for routes that declare `every_tenant`."""
        assert self._route.every_tenant, f"{self._route.function} does not declare every_tenant"
        return self._wiring

    def context(self) -> Context:
        """Returns the context that has only the jobs which the caller can see, or can change if the route changes them.

        A route for every tenant has all jobs (R24). A request of a caller with limited access has its own context. Its
        ledger returns only events of jobs that the request has read or created.
        """
        if self._context is None:
            self._context = self._visible(self._wiring.context())
        return self._context

    async def fresh_context(self) -> Context:
        """Returns the same context with the current protocols, modes and allowed hosts."""
        return self._visible(await self._wiring.fresh_context())

    @contextlib.contextmanager
    def inner(self, route: Route, *, params: dict[str, str], route_params: dict[str, str]) -> Iterator[Request]:
        """Makes the same caller's request to another route, which only reads and is logged. Raises ScopeMissing."""
        assert route.scope is not None
        assert not route.moves
        http = func.HttpRequest(
            method=route.method,
            url=self.http.url,
            headers={"X-Correlation-Id": correlation_id(self.http)},
            params=params,
            route_params=route_params,
            body=b"",
        )
        access, status = _Access(time.monotonic(), self.caller), 503
        try:
            self.caller.require(route.scope)
            yield Request(http, route, self.caller, self._wiring, None)
            status = 200
        except Exception as error:
            access.refused, status = error.code if isinstance(error, Refused) else None, status_of(error)
            raise
        finally:
            _log_access(http, route, access, status)

    def orchestrations(self) -> Orchestrations:
        """Returns the orchestrations, for routes that declare `durable_client`."""
        assert self._route.durable_client, f"{self._route.function} does not declare the durable client"
        return self._wiring.orchestrations(self._client)

    def _visible(self, context: Context) -> Context:
        return context if self._route.every_tenant else seen_by(self.caller, context, moving=self._route.moves)


@dataclass
class _Access:
    """The values of one request's access record, as far as the request was processed."""

    began: float
    #: None if the route needs no caller, or the token was refused
    caller: Caller | None = None
    #: code of the problem, if the request is refused
    refused: str | None = None


Handler = Callable[[Request], Awaitable[func.HttpResponse]]


def list_routes(modules: Iterable[ModuleType]) -> list[tuple[Route, Handler]]:
    """Returns the routes that handlers of the modules declare, each with its handler, in the order of the source."""
    return [
        (route, handler)
        for module in modules
        for handler in vars(module).values()
        if inspect.isfunction(handler) and handler.__module__ == module.__name__
        for route in routes_of(handler)
    ]


def build_blueprint(modules: Iterable[ModuleType], wiring: Wiring) -> df.Blueprint:
    """Registers each route that a handler of the modules declares, in the order of `list_routes`."""
    bp = df.Blueprint()
    for route, handler in list_routes(modules):
        add(bp, route, handler, wiring)
    return bp


def add(bp: df.Blueprint, route: Route, handler: Handler, wiring: Wiring) -> None:
    """Registers `handler` for `route`. An error that the handler raises becomes a problem response. For a stream, a
    transient error becomes a request to reconnect later.
    """

    async def traced(req: func.HttpRequest, client: Any = None) -> func.HttpResponse:
        access = _Access(time.monotonic())
        with request_span(req.method, route.path, req.headers, traced=route.tag != "health") as sent:
            response = await served(req, client, access)
            sent(response.status_code)
            _log_access(req, route, access, response.status_code)
            return response

    async def served(req: func.HttpRequest, client: Any, access: _Access) -> func.HttpResponse:
        try:
            async with time_limit(REQUEST_S):
                response = await guarded(req, client, access)
        except Exception as error:
            access.refused = error.code if isinstance(error, Refused) else None
            if isinstance(error, TokenInvalid):
                telemetry.info("TOKEN_REFUSED", reason=str(error), correlation_id=correlation_id(req), **error.named)
            response = problem_response(error, correlation_id(req))
            if isinstance(error, Transient) and route.streams and wants_stream(req):
                response = later(req, access.caller.actor if access.caller else None)
        # a stream sets its own
        if response.status_code >= 400 or "Cache-Control" not in response.headers:
            response.headers["Cache-Control"] = route.caching if response.status_code < 400 else NO_STORE
        if route.streams:
            response.headers["Vary"] = "Accept"
        if route.successor is not None:
            response.headers["Deprecation"] = DEPRECATED_SINCE
            response.headers["Link"] = f'<{route.successor}>; rel="successor-version"'
        return response

    async def guarded(req: func.HttpRequest, client: Any, access: _Access) -> func.HttpResponse:
        if route.takes_body:
            refuse_large_body(req)
        caller = ANYONE if route.every_tenant else NOBODY
        if route.scope is not None:
            caller = access.caller = await caller_of(req)
            caller.require(route.scope)
        refuse_unknown_parameters(req, route)
        return await handler(Request(req, route, caller, wiring, client))

    async def caller_of(req: func.HttpRequest) -> Caller:
        authorization, ticket = req.headers.get("Authorization"), req.params.get("ticket")
        if authorization or ticket is None or not (route.streams and wants_stream(req)):
            return await wiring.callers().caller(authorization)
        context, path = wiring.context(), f"/{route.path}".format(**req.route_params)
        keys, deployment = context.settings.callback_keys, context.settings.environment
        return read_ticket(ticket, keys, deployment=deployment, path=path, now=context.clock.now()).caller

    # the worker reads the names of the bound parameters
    async def plain(req: func.HttpRequest) -> func.HttpResponse:
        return await traced(req)

    async def with_client(req: func.HttpRequest, client) -> func.HttpResponse:  # type: ignore[no-untyped-def]
        return await traced(req, client)

    # the host leaves out the body of a response to HEAD
    methods = [route.method, "HEAD"] if route.method == "GET" else [route.method]

    function: Any = bp.durable_client_input(client_name="client")(with_client) if route.durable_client else plain
    function = bp.route(route=route.path, methods=methods, auth_level=func.AuthLevel.ANONYMOUS)(function)
    bp.function_name(route.function)(function)


def _log_access(req: func.HttpRequest, route: Route, access: _Access, status: int) -> None:
    """Logs caller, route and job of each request, also if refused. Omits token, query, path and body."""
    caller, job_id = access.caller, req.route_params.get("jobId", "")
    everywhere = caller and (route.every_tenant or (caller.moves_all if route.moves else caller.sees_all))
    telemetry.log(
        # probes arrive every few seconds
        logging.DEBUG if route.tag == "health" else logging.INFO,
        "ACCESS",
        method=req.method,
        route=f"/{route.path}",
        status=status,
        reason=access.refused,
        duration_ms=round((time.monotonic() - access.began) * 1000),
        actor=caller.actor if caller else None,
        tenant_id=caller.tenant if caller else None,
        scope=route.scope,
        all_tenants=everywhere or None,
        jobId=job_id if is_job_id(job_id) else None,
        correlation_id=correlation_id(req),
    )
