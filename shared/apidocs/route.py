"""The declaration of a route: its callers, parameters, bodies and responses, and the name of its function.

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

#: date from which older names are deprecated (RFC 9745): 2026-01-01
DEPRECATED_SINCE = "@1767225600"

#: `Cache-Control` (RFC 9111 5.2.2) of content for one caller, which revalidates it before each use
OWN = "private, no-cache"
#: `Cache-Control` of public documents
PUBLIC = "public, max-age=60"
#: `Cache-Control` of content that never changes under its URL (RFC 8246)
IMMUTABLE = "public, max-age=31536000, immutable"
#: `Cache-Control` of responses with possible secrets, and of every problem
NO_STORE = "no-store"

_Handler = TypeVar("_Handler", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A parameter in the path, query or headers of a request."""

    name: str
    where: Literal["query", "path", "header"]
    #: JSON Schema 2020-12 of the value
    schema: Mapping[str, Any]
    required: bool = False
    description: str = ""


def in_path(name: str, schema: Mapping[str, Any], description: str = "") -> Parameter:
    """Returns a path parameter, which OpenAPI requires."""
    return Parameter(name=name, where="path", required=True, schema=schema, description=description)


def in_query(name: str, schema: Mapping[str, Any], description: str, *, required: bool = False) -> Parameter:
    """Returns a query parameter."""
    return Parameter(name=name, where="query", required=required, schema=schema, description=description)


def in_header(name: str, schema: Mapping[str, Any], description: str, *, required: bool = False) -> Parameter:
    """Returns a header."""
    return Parameter(name=name, where="header", required=required, schema=schema, description=description)


@dataclass(frozen=True, kw_only=True)
class Route:
    """A method of a path, declared by `@Route(...)` on its handler.

    The host matches a request in the alphabetical order of function names, so paths must not overlap.
    """

    #: name of the function in Azure, which stays stable
    function: str
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    #: path without a leading slash, with parameters in braces
    path: str
    #: required scope; None if open to every caller, or guarded by a token of its own kind
    scope: Scope | None
    #: `True` if the handler sees the jobs of every tenant, and must not show them to its caller (R24)
    every_tenant: bool = False
    #: `True` if the handler needs the durable client
    durable_client: bool = False
    tag: str
    summary: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    #: model of the request body; None if there is no body, or no model checks it
    body: type[BaseModel] | None = None
    #: JSON Schema of the request body, if no model declares it
    body_schema: Mapping[str, Any] | None = None
    body_required: bool = False
    media_types: tuple[str, ...] = ("application/json",)
    #: for each status, the model of the body, or its media type if it has no model; None means no body
    responses: Mapping[int, type[BaseModel] | UnionType | str | None]
    #: description by status, if the model's docstring does not have it
    descriptions: Mapping[int, str] = field(default_factory=dict)
    #: additional headers by status (every response has those of `shared.apidocs.headers`)
    headers: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    #: additional problems (every route has those of `shared.apidocs.operation`)
    problems: tuple[Refusal, ...] = ()
    #: `Cache-Control` of a response that is not a problem
    caching: str = OWN
    #: for a method other than GET: `True` if it changes no job, so that a caller with read access can use it
    only_reads: bool = False
    #: `True` if it can also respond with server-sent events, if `Accept` requests them; a GET then accepts a ticket
    streams: bool = False
    #: `True` if the token of a directive guards it
    callback: bool = False
    #: `True` if its `ETag` is for `If-Match`, so that the route ignores `If-None-Match`
    etag_for_changes: bool = False
    #: path to use instead, if the route is an older name
    successor: str | None = None

    def __call__(self, handler: _Handler) -> _Handler:
        """Declares this route on `handler`, which can have several routes. Returns the handler."""
        handler.__dict__["routes"] = (*routes_of(handler), self)
        return handler

    @property
    def moves(self) -> bool:
        """Returns True if the route's caller must have the right to change the jobs that the route reads (R24)."""
        return self.method != "GET" and not self.only_reads

    @property
    def revalidates(self) -> bool:
        """Returns True if the route returns 304 for an ETag of `If-None-Match`."""
        return self.method == "GET" and 200 in self.responses and not self.etag_for_changes

    @property
    def takes_body(self) -> bool:
        return self.body is not None or self.body_schema is not None

    @property
    def deprecated(self) -> bool:
        return self.successor is not None


def routes_of(handler: Callable[..., Any]) -> tuple[Route, ...]:
    """Returns the routes that a handler declares. The decorator nearest to the handler comes first."""
    return getattr(handler, "routes", ())
