"""One declaration a route: who may call it, what it takes and answers, and under which name the host knows it.

`add` makes a function of it. Nothing is registered in any other way, so what `triggers.registered.ROUTES` lists
is what is served, and `/v1/openapi.json` is generated from it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import azure.durable_functions as df
import azure.functions as func
from pydantic import BaseModel

from shared.core.access import ANYONE, Scope
from shared.telemetry.requests import requesting
from shared.wiring import Wiring
from triggers.problems import answers_problems

#: `handler(req, caller)`, or `handler(req, caller, client)` with the durable client
Handler = Callable[..., Awaitable[func.HttpResponse]]


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
    media_types: tuple[str, ...] = ("application/json",)
    #: status to the model of its body; None: no model of its own
    answers: Mapping[int, type[BaseModel] | None] = field(default_factory=lambda: {200: None})
    #: (status, code) of the problems beyond those that every route has
    refusals: tuple[tuple[int, str], ...] = ()
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
        with requesting(route.method, route.path, req.headers, traced=route.tag != "health") as told:
            answer = await guarded(req, *bound)
            told(answer.status_code)
            return answer

    @answers_problems
    async def guarded(req: func.HttpRequest, *bound: Any) -> func.HttpResponse:
        caller = ANYONE
        if route.scope is not None:
            caller = await wiring.callers().caller(req.headers.get("Authorization"))
            caller.require(route.scope)
        return await handler(req, caller, *bound)

    # the worker reads the names of the bound parameters
    async def plain(req: func.HttpRequest) -> func.HttpResponse:
        return await traced(req)

    async def with_client(req: func.HttpRequest, client) -> func.HttpResponse:  # type: ignore[no-untyped-def]
        return await traced(req, client)

    function: Any = bp.durable_client_input(client_name="client")(with_client) if client else plain
    function = bp.route(route=route.path, methods=[route.method], auth_level=func.AuthLevel.ANONYMOUS)(function)
    bp.function_name(route.function)(function)
