"""One operation of the OpenAPI document, made from its route: parameters, body, responses, problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel

from shared.api.job_requests import Accepted
from shared.apidocs import envelope_schema, headers
from shared.apidocs.examples import ENVELOPE, PROBLEM, REQUESTS
from shared.apidocs.json_schema import JsonObject
from shared.apidocs.problem_codes import ProblemCode, Refusal
from shared.apidocs.route import Parameter, Route
from shared.contracts.envelope import Envelope
from shared.refusals import ScopeMissing, TenantForbidden, TenantMissing, TokenInvalid, TokenMissing

_SCHEMAS = "#/components/schemas/"

#: problems of every route
_ALWAYS = (ProblemCode.PARAMETER_UNKNOWN, ProblemCode.INTERNAL, ProblemCode.DEPENDENCY_UNAVAILABLE)
#: problems of routes that need a token; most of these routes read stored rows
_WITH_TOKEN = (TokenMissing, TokenInvalid, ScopeMissing, TenantMissing, ProblemCode.DATA_LOST)


def models_of(answer: Any) -> tuple[type[BaseModel], ...]:
    if answer is None or isinstance(answer, str):
        return ()
    return get_args(answer) if isinstance(answer, UnionType) else (answer,)


def operation(route: Route, routes: Iterable[Route], examples: JsonObject) -> JsonObject:
    described: JsonObject = {
        "operationId": route.function,
        "tags": [route.tag],
        "summary": route.summary,
        "security": _security(route),
        "parameters": _parameters(route),
        "responses": _responses(route, routes, examples),
    }
    if route.description:
        described["description"] = route.description
    if (body := _body(route)) is not None:
        described["requestBody"] = body
    if route.deprecated:
        described["deprecated"] = True
        described["summary"] = f"{route.summary} (older path)"
        described["description"] = f"Deprecated. Use `{route.successor}`, which has the same effect."
    return described


def _security(route: Route) -> list[JsonObject]:
    if route.callback:
        return [{"callback": []}]
    return [] if route.scope is None else [{"bearer": [str(route.scope)]}]


def _parameters(route: Route) -> list[JsonObject]:
    parameters = [_parameter(each) for each in route.parameters]
    named = {each.name for each in route.parameters}
    for name in re.findall(r"{(\w+)}", route.path):
        assert name in named, f"{route.function} does not declare its parameter {name}"
    common = ["CorrelationId", *(["IfNoneMatch"] if route.revalidates else [])]
    return parameters + [{"$ref": f"#/components/parameters/{name}"} for name in common]


def _parameter(each: Parameter) -> JsonObject:
    described: JsonObject = {
        "name": each.name,
        "in": each.where,
        "required": each.required,
        "schema": dict(each.schema),
    }
    if each.description:
        described["description"] = each.description
    if each.schema.get("type") == "array":
        described |= {"style": "form", "explode": False}
    return described


def _body(route: Route) -> JsonObject | None:
    if route.body is Envelope:
        schema: JsonObject = {"allOf": [{"$ref": f"{_SCHEMAS}{name}"} for name in envelope_schema.ENVELOPE]}
        name = "Envelope"
    elif route.body is not None:
        schema, name = {"$ref": f"{_SCHEMAS}{route.body.__name__}"}, route.body.__name__
    elif route.body_schema is not None:
        schema, name = {"$ref": f"{_SCHEMAS}{route.body_schema['title']}"}, route.body_schema["title"]
    else:
        return None
    content: JsonObject = {
        media_type: {"schema": _LINES, "examples": {"two jobs": {"value": _NDJSON_EXAMPLE}}}
        if "ndjson" in media_type
        else {"schema": schema, "examples": {name: {"value": REQUESTS[name]}}}
        for media_type in route.media_types
    }
    return {"required": route.body_required, "content": content}


#: without `type`: tools that only support JSON would reject a body that is not a JSON string
_LINES = {
    "pattern": r"[^ \t\n\r\v\f]",
    "description": "One job request per line, at most 1,000. LUCIUS skips blank lines.",
}
_NDJSON_EXAMPLE = "".join(
    json.dumps(
        ENVELOPE | {"doc_id": doc_id, "input_ref": f"https://account.blob.core.windows.net/documents/{doc_id}.pdf"}
    )
    + "\n"
    for doc_id in ("1", "2")
)


def _links(routes: Iterable[Route]) -> JsonObject:
    return {
        route.function: {"operationId": route.function, "parameters": {"jobId": "$response.body#/jobId"}}
        for route in routes
        if "{jobId}" in route.path
    }


def _responses(route: Route, routes: Iterable[Route], examples: JsonObject) -> JsonObject:
    responses: JsonObject = {}
    for status, answer in route.responses.items():
        responses[str(status)] = _response(route, status, answer, examples)
        if answer is Accepted:
            responses[str(status)]["links"] = _links(routes)
    if route.revalidates:
        responses["304"] = {
            "description": "Not modified: an ETag of `If-None-Match` is current.",
            "headers": headers.of(route, 304),
        }
    meanings: dict[int, dict[str, str]] = {}
    for refusal in refusals_of(route):
        meanings.setdefault(refusal.status, {})[refusal.code] = refusal.meaning
    for status, of_status in sorted(meanings.items()):
        responses[str(status)] = _refused(route, status, of_status)
    return responses


def refusals_of(route: Route) -> tuple[Refusal, ...]:
    """Returns the problems that the route declares, then the problems of routes with a token, then the problems of
    every route. If the route requires the right to change jobs of one tenant, TenantForbidden precedes the problems of
    every route.
    """
    with_token = _WITH_TOKEN if route.scope is not None else ()
    moving = (TenantForbidden,) if with_token and route.moves and not route.every_tenant else ()
    return (*route.problems, *with_token, *moving, *_ALWAYS)


def _response(route: Route, status: int, answer: Any, examples: JsonObject) -> JsonObject:
    models = models_of(answer)
    response: JsonObject = {"description": _description(route, status, models), "headers": headers.of(route, status)}
    if isinstance(answer, str):
        kind = "string" if answer.startswith("text/") else "object"
        response["content"] = {answer: {"schema": {"type": kind}}}
    elif models:
        named = [{"$ref": f"{_SCHEMAS}{model.__name__}"} for model in models]
        content: JsonObject = {"schema": named[0] if len(named) == 1 else {"anyOf": named}}
        shown = {model.__name__: {"value": examples[model.__name__]} for model in models if model.__name__ in examples}
        if shown:
            content["examples"] = shown
        response["content"] = {"application/json": content}
        if route.streams and status == 200:
            response["content"]["text/event-stream"] = {"schema": {"type": "string"}}
    return response


def _description(route: Route, status: int, models: tuple[type[BaseModel], ...]) -> str:
    if status in route.descriptions:
        return route.descriptions[status]
    return " Or: ".join((model.__doc__ or "").split("\n\n")[0].strip() for model in models) or "The requested document."


def _refused(route: Route, status: int, meanings: dict[str, str]) -> JsonObject:
    """Returns the error response with a status. `meanings` has the meaning of each code."""
    schema: JsonObject = {
        "allOf": [
            {"$ref": f"{_SCHEMAS}Problem"},
            {"properties": {"status": {"const": status}, "code": {"enum": list(meanings)}}},
        ]
    }
    content: JsonObject = {"schema": schema}
    if PROBLEM["code"] in meanings and PROBLEM["status"] == status:
        content["examples"] = {PROBLEM["code"]: {"value": PROBLEM}}
    return {
        "description": "\n\n".join(f"`{code}`: {meaning}" for code, meaning in meanings.items()),
        "headers": headers.of(route, status),
        "content": {"application/problem+json": content},
    }
