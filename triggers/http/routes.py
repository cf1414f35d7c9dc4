"""One declaration a route: who may call it, what it takes and answers, and under which name the host knows it.

`add` makes a function of it. Nothing is registered in any other way, so what `triggers.registered.ROUTES` lists
is what is served, and `/v1/openapi.json` is generated from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal

import azure.durable_functions as df
import azure.functions as func
from pydantic import BaseModel

from shared.access.caller import ANYONE, Scope
from shared.telemetry.spans import request_span
from shared.wiring import Wiring
from triggers.http.problems import responds_with_problems

#: `handler(req, caller)`, or `handler(req, caller, client)` with the durable client
Handler = Callable[..., Awaitable[func.HttpResponse]]

#: since when the older names are older (RFC 9745): 2026-01-01
DEPRECATED_SINCE = "@1767225600"


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a request besides its body."""

    name: str
    where: Literal["query", "path", "header"]
    #: JSON Schema 2020-12
    schema: Mapping[str, Any]
    required: bool = False
    description: str = ""


@dataclass(frozen=True, kw_only=True)
class Route:
    """One method of one path. The host matches by the alphabetical order of function names, so none may overlap."""

    #: stable: it names the function in Azure
    function: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    #: without a slash in front, parameters in braces
    path: str
    #: None: open, or guarded by a token of its own kind
    scope: Scope | None
    tag: str
    summary: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    #: of the request; None: no body, or none that is checked by a model
    body: type[BaseModel] | None = None
    #: where no model says it
    body_schema: Mapping[str, Any] | None = None
    body_required: bool = False
    media_types: tuple[str, ...] = ("application/json",)
    #: status to the model of its body, or to the media type of one that has none
    responses: Mapping[int, type[BaseModel] | UnionType | str]
    #: status to what it means here, where the model's own words do not say it
    descriptions: Mapping[int, str] = field(default_factory=dict)
    #: status to headers beyond those that every such answer has (`shared.apidocs.headers`)
    headers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    #: (status, code) of the problems beyond those that every route has
    problems: tuple[tuple[int, str], ...] = ()
    #: guarded by the token of a directive
    callback: bool = False
    #: the path to use instead; such a route is an older name
    successor: str | None = None

    @property
    def deprecated(self) -> bool:
        return self.successor is not None


def add(bp: df.Blueprint, route: Route, handler: Handler, wiring: Wiring, *, client: bool = False) -> None:
    """Registers `handler` for `route`: its caller is known and allowed before it runs, its errors become problems.

    With `client` it also gets the durable client.
    """

    async def traced(req: func.HttpRequest, *bound: Any) -> func.HttpResponse:
        with request_span(req.method, route.path, req.headers, traced=route.tag != "health") as answered:
            response = await told(req, *bound)
            answered(response.status_code)
            return response

    @responds_with_problems
    async def guarded(req: func.HttpRequest, *bound: Any) -> func.HttpResponse:
        caller = ANYONE
        if route.scope is not None:
            caller = await wiring.callers().caller(req.headers.get("Authorization"))
            caller.require(route.scope)
        return await handler(req, caller, *bound)

    async def told(req: func.HttpRequest, *bound: Any) -> func.HttpResponse:
        response = await guarded(req, *bound)
        if route.successor is not None:
            response.headers["Deprecation"] = DEPRECATED_SINCE
            response.headers["Link"] = f'<{route.successor}>; rel="successor-version"'
        return response

    # the worker reads the names of the bound parameters
    async def plain(req: func.HttpRequest) -> func.HttpResponse:
        return await traced(req)

    async def with_client(req: func.HttpRequest, client) -> func.HttpResponse:  # type: ignore[no-untyped-def]
        return await traced(req, client)

    # the host leaves out the body of what it answers to HEAD
    methods = [route.method, "HEAD"] if route.method == "GET" else [route.method]

    function: Any = bp.durable_client_input(client_name="client")(with_client) if client else plain
    function = bp.route(route=route.path, methods=methods, auth_level=func.AuthLevel.ANONYMOUS)(function)
    bp.function_name(route.function)(function)
