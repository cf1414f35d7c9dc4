"""`POST /v1/graphql`: queries of jobs, events and quotas, and a subscription to events (R83).

The results are the bodies of other routes.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import azure.functions as func

from shared.access.caller import Scope
from shared.api.feed import FollowedEvent, QueryAnswer, QueryRequest
from shared.apidocs.graphql_schema import RootField, root_field, text
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import PUBLIC, Route, routes_of
from shared.refusals import BodyTooLarge, CursorExpired
from triggers import events_http, jobs_http, quotas_http
from triggers.http.bodies import BODY_PROBLEMS, optional_body, sent_body
from triggers.http.problems import RequestError
from triggers.http.responses import Content, correlation_id, respond
from triggers.http.routes import Handler, Request
from triggers.http.sse import EVENT_STREAM, later, results

MAX_BODY_BYTES = 16 * 1024
#: maximum items of one list, since the process builds every field of every item, and also runs jobs
MAX_LINES = 100
_JSON = "application/json"


@dataclass(frozen=True)
class _Query:
    """A field with the response body of another route."""

    field: RootField
    read: Handler


def _bounded(field: RootField) -> RootField:
    """Describes the maximum of a list, which is lower than the maximum of its route."""
    if (limit := field.arguments.get("limit")) is None:
        return field
    limit = replace(limit, description=f"Maximum items per page. Default and maximum {MAX_LINES}.")
    return replace(field, arguments={**field.arguments, "limit": limit})


def _query(name: str, read: Handler, *without: str) -> _Query:
    return _Query(_bounded(root_field(name, routes_of(read)[0], without=without)), read)


_QUERIES = (
    _query("job", jobs_http.job_read, "wait", "until"),
    _query("jobs", jobs_http.jobs_list),
    _query("events", events_http.events_read, "wait", "ticket"),
    _query("quotas", quotas_http.quotas_list),
)
_EVENTS = _bounded(
    root_field(
        "events",
        events_http.EVENTS,
        without=("wait", "ticket"),
        model=FollowedEvent,
        description="Events of a tenant, in order. With `after`, only the events that follow this cursor. Default: new "
        "events only.",
    )
)


@cache
def schema() -> str:
    """Returns the schema, as `/v1/schema.graphql` does."""
    return text([each.field for each in _QUERIES], [_EVENTS])


@Route(
    function="graphql",
    method="POST",
    path="v1/graphql",
    scope=Scope.READ,
    only_reads=True,
    streams=True,
    tag="graphql",
    summary="Run a GraphQL operation",
    description="Runs one query or subscription of the schema at `/v1/schema.graphql`. A field returns the same data "
    f"as the route of the same name. An invalid document and a refused field return 200 with `errors`. Subscriptions "
    f"require `Accept: {EVENT_STREAM}` and follow GraphQL over SSE (distinct connections mode).",
    body=QueryRequest,
    body_required=True,
    responses={200: QueryAnswer},
    problems=(*BODY_PROBLEMS, ProblemCode.QUERY_INVALID, ProblemCode.QUERY_TOO_COMPLEX, ProblemCode.ACCEPT_INVALID),
)
async def _graphql(request: Request) -> func.HttpResponse:
    # imported late, so that it does not delay the start
    from triggers import graphql_execution

    req = request.http
    accepted = _accepted(req)
    if len(sent_body(req)) > MAX_BODY_BYTES:
        raise BodyTooLarge(
            f"the body is too large: {len(sent_body(req))} bytes, maximum {MAX_BODY_BYTES}; shorten "
            "the document or the variables"
        )
    asked = optional_body(req, QueryRequest, ProblemCode.QUERY_INVALID)
    operation = graphql_execution.read(schema(), asked.query, asked.operationName)
    variables, its_id = asked.variables or {}, correlation_id(req)
    if operation.subscribes:
        if EVENT_STREAM not in accepted:
            raise _not_acceptable(f"a subscription requires Accept: {EVENT_STREAM}")
        source = _Source(request)
        found, goes_on = await graphql_execution.messages(operation, {"events": source.open}, variables, its_id)
        return later(req, request.caller.actor) if source.crowded else results(req, found, complete=not goes_on)
    resolvers = {each.field.name: _resolver(request, each) for each in _QUERIES}
    body = await graphql_execution.answer(operation, resolvers, variables, its_id)
    return respond(req, body) if _JSON in accepted else results(req, [body], complete=True)


@Route(
    function="graphql_schema",
    method="GET",
    path="v1/schema.graphql",
    scope=None,
    caching=PUBLIC,
    tag="documents",
    summary="Get the GraphQL schema",
    responses={200: "text/plain"},
)
async def _schema(request: Request) -> func.HttpResponse:
    return respond(request.http, Content(schema().encode(), "text/plain"))


def _accepted(req: func.HttpRequest) -> set[str]:
    """Returns the media types of responses that `Accept` allows. Raises RequestError (406)."""
    given = [each.partition(";")[0].strip().lower() for each in req.headers.get("Accept", "*/*").split(",")]
    accepted = {each for each in (_JSON, EVENT_STREAM) if {each, f"{each.split('/')[0]}/*", "*/*"} & {*given}}
    if not accepted:
        raise _not_acceptable(f"Accept must allow {_JSON} or {EVENT_STREAM}")
    return accepted


def _not_acceptable(detail: str) -> RequestError:
    return RequestError(ProblemCode.ACCEPT_INVALID, detail)


def _resolver(request: Request, query: _Query) -> Callable[..., Awaitable[Any]]:
    async def resolve(info: object, **given: Any) -> Any:
        with _inner(request, query.field, given) as inner:
            return json.loads((await query.read(inner)).get_body())

    return resolve


def _inner(request: Request, field: RootField, given: dict[str, Any]) -> AbstractContextManager[Request]:
    """Returns the request to the field's route. Raises RequestError (400), ScopeMissing."""
    if (limit := given.get("limit")) is not None and not 1 <= limit <= MAX_LINES:
        raise RequestError(
            ProblemCode.LIMIT_INVALID, f"limit must be a whole number from 1 to {MAX_LINES}, not {limit}"
        )
    texts = {
        (parameter.where, parameter.name): _text(given[name])
        for name, parameter in field.arguments.items()
        if given.get(name) is not None
    }
    return request.inner(
        field.route,
        params={name: each for (where, name), each in texts.items() if where == "query"},
        route_params={name: each for (where, name), each in texts.items() if where == "path"},
    )


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


class _Source:
    """The messages of one response to a subscription. Each message has the cursor to continue from, also without a
    match.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        #: `True` if there is no message because too many requests wait
        self.crowded = False

    async def open(self, info: object, **given: Any) -> AsyncIterator[dict[str, Any]]:
        """Opens a subscription. Like a stream, the request waits for events (R75). Raises errors as
        `events_http.events_after` does, except CursorExpired.
        """
        try:
            with _inner(self._request, _EVENTS, given) as inner:
                page, self.crowded = await events_http.events_after(inner, given.get("after") or None)
        except CursorExpired as expired:
            return _each([{"cursor": expired.earliest, "event": None, "gap": True}])
        messages = [
            {"cursor": cursor, "event": event, "gap": False}
            for cursor, event in zip(page.cursors, page.events, strict=True)
        ]
        return _each(messages or [{"cursor": page.next, "event": None, "gap": False}])


async def _each(messages: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    for message in messages:
        yield {"events": message}
