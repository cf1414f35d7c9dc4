"""The declaration of a route: its caller, its parameters and bodies, its responses, and its function name at the host.

A route is declared on its handler. `triggers.http.routes` registers the handler, and `shared.apidocs.openapi` describes
the route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal, TypeVar

from pydantic import BaseModel

from shared.access.caller import Scope
from shared.apidocs.problem_codes import Refusal

#: since when the older names are older (RFC 9745): 2026-01-01
DEPRECATED_SINCE = "@1767225600"

#: `Cache-Control` (RFC 9111 5.2.2): of content of one caller, which revalidates it before each use
OWN = "private, no-cache"
#: of public documents
PUBLIC = "public, max-age=60"
#: of what never changes under its URL (RFC 8246)
IMMUTABLE = "public, max-age=31536000, immutable"
#: of what may hold a secret, and of every refusal
NO_STORE = "no-store"

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """One parameter of a request besides its body."""

    name: str
    where: Literal["query", "path", "header"]
    #: JSON Schema 2020-12
    schema: Mapping[str, Any]
    required: bool = False
    description: str = ""


def in_path(name: str, schema: Mapping[str, Any], description: str = "") -> Parameter:
    """Returns a parameter of a path, which OpenAPI requires."""
    return Parameter(name=name, where="path", required=True, schema=schema, description=description)


def in_query(name: str, schema: Mapping[str, Any], description: str, *, required: bool = False) -> Parameter:
    """Returns a parameter of a query."""
    return Parameter(name=name, where="query", required=required, schema=schema, description=description)


def in_header(name: str, schema: Mapping[str, Any], description: str, *, required: bool = False) -> Parameter:
    """Returns a header."""
    return Parameter(name=name, where="header", required=required, schema=schema, description=description)


@dataclass(frozen=True, kw_only=True)
class Route:
    """One method of one path, declared by `@Route(...)` on its handler.

    The host matches by the alphabetical order of function names, so no two paths may overlap.
    """

    #: stable: it names the function in Azure
    function: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    #: without a slash in front, parameters in braces
    path: str
    #: None: open, or guarded by a token of its own kind
    scope: Scope | None
    #: the handler sees the jobs of every tenant, and must not show them to its caller (R24)
    every_tenant: bool = False
    #: the handler needs the durable client
    durable_client: bool = False
    tag: str
    summary: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    #: of the request; None: no body, or none that is checked by a model
    body: type[BaseModel] | None = None
    #: where no model declares it
    body_schema: Mapping[str, Any] | None = None
    body_required: bool = False
    media_types: tuple[str, ...] = ("application/json",)
    #: status to the model of its body, or to the media type of one that has none; None: no body
    responses: Mapping[int, type[BaseModel] | UnionType | str | None]
    #: status to its description, where the model's docstring does not give it
    descriptions: Mapping[int, str] = field(default_factory=dict)
    #: status to headers beyond those that every such response has (`shared.apidocs.headers`)
    headers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    #: beyond those that every route has (`shared.apidocs.operation`)
    problems: tuple[Refusal, ...] = ()
    #: what `Cache-Control` says about a response that is no refusal
    caching: str = OWN
    #: of a method other than GET: it changes no job, so a caller that may see one may use it
    only_reads: bool = False
    #: it answers with server-sent events too, if `Accept` asks for them; a GET takes a ticket for those
    streams: bool = False
    #: guarded by the token of a directive
    callback: bool = False
    #: the path to use instead; such a route is an older name
    successor: str | None = None

    def __call__(self, handler: _Handler) -> _Handler:
        """Declares this route on `handler`, which may have several, and returns the handler."""
        handler.__dict__["routes"] = (*routes_of(handler), self)
        return handler

    @property
    def moves(self) -> bool:
        """Returns whether its caller must be allowed to change the jobs that it reads (R24)."""
        return self.method != "GET" and not self.only_reads

    @property
    def takes_body(self) -> bool:
        return self.body is not None or self.body_schema is not None

    @property
    def deprecated(self) -> bool:
        return self.successor is not None


def routes_of(handler: Callable[..., Any]) -> tuple[Route, ...]:
    """Returns the routes that a handler declares: the decorator nearest to it first."""
    return getattr(handler, "routes", ())
