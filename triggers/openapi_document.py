"""The OpenAPI 3.1 document of the HTTP API: the routes' declarations, the models of bodies, the protocols there are."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel

from shared.contracts.answers.job import Accepted
from shared.contracts.answers.problem import Problem
from shared.contracts.envelope import Envelope
from shared.contracts.json_schema import Way, schemas
from shared.core import envelope_rules
from shared.core.api_examples import ENVELOPE, PROBLEM, REQUESTS, by_model
from shared.core.references import ReferencePolicy
from shared.core.registry import Registry
from triggers import openapi_headers as headers
from triggers.protocols_http import protocol_view
from triggers.refusals import MEANINGS
from triggers.routes import Parameter, Route

Json = dict[str, Any]

#: of the API that the document tells, not of the app
VERSION = "1.0.0"

_SCHEMAS = "#/components/schemas/"

_TAGS = {
    "jobs": "A job is one document on its way through the steps of a protocol.",
    "dead letters": "Jobs that failed for good.",
    "protocols": "What can be asked for, as data.",
    "rejected messages": "Messages from services that no job could take.",
    "admin": "For operators.",
    "callbacks": "Replies of platform services that are not on the bus, with the token that their directive brought.",
    "health": "For probes.",
    "documents": "What you are reading, for people and for programs.",
}

_DESCRIPTION = (
    "A control plane for document jobs: submit an envelope, follow its job, act on it.\n\n"
    "Bodies are JSON in UTF-8, at most 1 MiB, nested at most 64 deep, without duplicate keys, NaN or lone surrogates. "
    "Members may be added to answers, so ignore those you do not know. Every refusal is a problem of RFC 9457 with a "
    "stable `code`. Lists come in pages: pass `next` as `cursor` to read on. Reads have an `ETag`; with "
    "`If-None-Match` an unchanged one is 304. `HEAD` is answered wherever `GET` is. What `Retry-After` says is in "
    "seconds. Every request may name its `X-Correlation-Id`, and every answer has one."
)

_AUTHENTICATION = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": (
            "An access token of the configured issuer, whose scopes (`scp`) or roles (`roles`) say what it allows: "
            "`orch:read` reads; `orch:operate` submits, controls and redrives; `orch:quota` sets limits; `orch:admin` "
            "is for admin routes and rejected messages. Another tenant's jobs do not exist for it (404); a request "
            "that names another tenant is refused (403). On a laptop: `make up AUTH=1`, then `lucius login`. With "
            "`LUCIUS_AUTH_MODE=none`, which Azure refuses, no token is looked at."
        ),
    },
    "callback": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "lc1",
        "description": (
            "`callback_urls.token` of a directive: good for one attempt of one step, and short-lived; each answer "
            "brings a fresh one as long as the attempt goes on."
        ),
    },
}

#: (status, code) that any route may answer with
_ALWAYS = ((500, "INTERNAL"), (503, "DEPENDENCY_UNAVAILABLE"))
_WITH_TOKEN = ((401, "TOKEN_MISSING"), (401, "TOKEN_INVALID"), (403, "SCOPE_MISSING"), (403, "TENANT_MISSING"))


def document(
    routes: Iterable[Route],
    registry: Registry,
    policy: ReferencePolicy,
    *,
    server: str,
) -> Json:
    """`server` is the address that examples call."""
    routes = list(routes)
    known = [protocol_view(protocol) for protocol in registry][:1]
    examples = by_model() | {"ProtocolPage": {"protocols": known, "next": None}}
    if known:
        examples["Protocol"] = known[0]
    paths: Json = {}
    for route in routes:
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = _operation(route, routes, examples)
    used = {route.tag for route in routes}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "LUCIUS",
            "version": VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": server}],
        "tags": [{"name": tag, "description": text} for tag, text in _TAGS.items() if tag in used],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(_schemas(routes, registry, policy).items())),
            "parameters": headers.PARAMETERS,
            "headers": headers.HEADERS,
            "securitySchemes": _AUTHENTICATION,
        },
    }


def _schemas(routes: Iterable[Route], registry: Registry, policy: ReferencePolicy) -> Json:
    wanted: dict[type[BaseModel], Way] = {Problem: "read"}
    for route in routes:
        if route.body not in (None, Envelope):
            wanted[route.body] = "write"
        wanted |= {model: "read" for answer in route.answers.values() for model in _models(answer)}
    found = schemas(list(wanted.items())) | envelope_rules.components(registry, policy)
    for route in routes:
        if route.body_schema is not None:
            found |= _parts(route.body_schema)
    return found


def _parts(whole: Mapping[str, Any]) -> Json:
    """A schema and those that it holds, each by its name."""
    parts = {whole["title"]: {name: each for name, each in whole.items() if name != "$defs"}, **whole.get("$defs", {})}
    told: Json = json.loads(json.dumps(parts).replace('"#/$defs/', f'"{_SCHEMAS}'))
    return told


def _models(answer: Any) -> tuple[type[BaseModel], ...]:
    if answer is None or isinstance(answer, str):
        return ()
    return get_args(answer) if isinstance(answer, UnionType) else (answer,)


def _operation(route: Route, routes: Iterable[Route], examples: Json) -> Json:
    told: Json = {
        "operationId": route.function,
        "tags": [route.tag],
        "summary": route.summary,
        "security": _security(route),
        "parameters": _parameters(route),
        "responses": _responses(route, routes, examples),
    }
    if route.description:
        told["description"] = route.description
    if (body := _body(route)) is not None:
        told["requestBody"] = body
    if route.deprecated:
        told["deprecated"] = True
        told["description"] = f"An older name of `{route.successor}`."
    return told


def _security(route: Route) -> list[Json]:
    if route.callback:
        return [{"callback": []}]
    return [] if route.scope is None else [{"bearer": [str(route.scope)]}]


def _parameters(route: Route) -> list[Json]:
    told = [_parameter(each) for each in route.parameters]
    named = {each.name for each in route.parameters}
    for name in re.findall(r"{(\w+)}", route.path):
        assert name in named, f"{route.function} does not declare its parameter {name}"
    common = ["CorrelationId", *(["IfNoneMatch"] if route.method == "GET" and 304 not in route.answers else [])]
    return told + [{"$ref": f"#/components/parameters/{name}"} for name in common]


def _parameter(each: Parameter) -> Json:
    told: Json = {
        "name": each.name,
        "in": each.where,
        "required": each.required,
        "schema": dict(each.schema),
    }
    if each.description:
        told["description"] = each.description
    if each.schema.get("type") == "array":
        told |= {"style": "form", "explode": False}
    return told


def _body(route: Route) -> Json | None:
    if route.body is Envelope:
        schema: Json = {"allOf": [{"$ref": f"{_SCHEMAS}{name}"} for name in envelope_rules.ENVELOPE]}
        name = "Envelope"
    elif route.body is not None:
        schema, name = {"$ref": f"{_SCHEMAS}{route.body.__name__}"}, route.body.__name__
    elif route.body_schema is not None:
        schema, name = {"$ref": f"{_SCHEMAS}{route.body_schema['title']}"}, route.body_schema["title"]
    else:
        return None
    content: Json = {
        media_type: {"schema": _LINES, "examples": {"two jobs": {"value": _NDJSON_EXAMPLE}}}
        if "ndjson" in media_type
        else {"schema": schema, "examples": {name: {"value": REQUESTS[name]}}}
        for media_type in route.media_types
    }
    return {"required": route.body_required, "content": content}


#: without a type: to a tool that knows JSON only, lines of it are no string
_LINES = {
    "pattern": r"[^ \t\n\r\v\f]",
    "description": "An envelope a line, at most 1,000; blank lines are skipped.",
}
_NDJSON_EXAMPLE = "".join(
    json.dumps(
        ENVELOPE | {"doc_id": doc_id, "input_ref": f"https://account.blob.core.windows.net/documents/{doc_id}.pdf"}
    )
    + "\n"
    for doc_id in ("1", "2")
)


def _links(routes: Iterable[Route]) -> Json:
    """What can be done with a new job."""
    return {
        route.function: {"operationId": route.function, "parameters": {"jobId": "$response.body#/jobId"}}
        for route in routes
        if "{jobId}" in route.path
    }


def _responses(route: Route, routes: Iterable[Route], examples: Json) -> Json:
    told: Json = {}
    for status, answer in route.answers.items():
        told[str(status)] = _answer(route, status, answer, examples)
        if answer is Accepted:
            told[str(status)]["links"] = _links(routes)
    if route.method == "GET" and 200 in route.answers:
        told["304"] = {
            "description": "It is still what `If-None-Match` names.",
            "headers": headers.of(route, 304),
        }
    refused: dict[int, list[str]] = {}
    for status, code in (*route.refusals, *(_WITH_TOKEN if route.scope is not None else ()), *_ALWAYS):
        refused.setdefault(status, []).append(code)
    for status, codes in sorted(refused.items()):
        told[str(status)] = _refusal(route, status, list(dict.fromkeys(codes)))
    return told


def _answer(route: Route, status: int, answer: Any, examples: Json) -> Json:
    models = _models(answer)
    told: Json = {"description": _says(route, status, models), "headers": headers.of(route, status)}
    if isinstance(answer, str):
        told["content"] = {answer: {"schema": {"type": "string"} if answer.startswith("text/") else {"type": "object"}}}
    elif models:
        named = [{"$ref": f"{_SCHEMAS}{model.__name__}"} for model in models]
        content: Json = {"schema": named[0] if len(named) == 1 else {"anyOf": named}}
        shown = {model.__name__: {"value": examples[model.__name__]} for model in models if model.__name__ in examples}
        if shown:
            content["examples"] = shown
        told["content"] = {"application/json": content}
    return told


def _says(route: Route, status: int, models: tuple[type[BaseModel], ...]) -> str:
    if status in route.says:
        return route.says[status]
    return " Or: ".join((model.__doc__ or "").split("\n\n")[0].strip() for model in models) or "As asked."


def _refusal(route: Route, status: int, codes: list[str]) -> Json:
    schema: Json = {
        "allOf": [
            {"$ref": f"{_SCHEMAS}Problem"},
            {"properties": {"status": {"const": status}, "code": {"enum": codes}}},
        ]
    }
    content: Json = {"schema": schema}
    if PROBLEM["code"] in codes and PROBLEM["status"] == status:
        content["examples"] = {PROBLEM["code"]: {"value": PROBLEM}}
    return {
        "description": "\n\n".join(f"`{code}`: {MEANINGS[code]}" for code in codes),
        "headers": headers.of(route, status),
        "content": {"application/problem+json": content},
    }
