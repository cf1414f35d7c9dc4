"""The OpenAPI 3.1 document of the HTTP API, made from the routes, the models of bodies and the protocols."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from pydantic import BaseModel

from shared.api.protocol import protocol_response
from shared.api.response import Problem
from shared.apidocs import envelope_schema, headers
from shared.apidocs.examples import by_model
from shared.apidocs.json_schema import JsonObject, Way, schemas
from shared.apidocs.operation import models_of, operation
from shared.apidocs.route import Route
from shared.apidocs.version import version_text
from shared.contracts.envelope import Envelope
from shared.core.registry import Registry

_SCHEMAS = "#/components/schemas/"

_TAGS = {
    "jobs": "A job processes one document in the steps of a protocol.",
    "runs": "A run is a job that executes a program. A run has a live log and artifacts.",
    "dead letters": "Failed jobs that are neither redriven nor dismissed.",
    "incidents": "Conditions that need an operator: escalated job failures, open circuit breakers, silent services, "
    "and rows that LUCIUS cannot process.",
    "events": "Events of a tenant, in order.",
    "graphql": "Jobs, events and quotas, with the fields that the query selects.",
    "webhooks": "URLs that receive a tenant's signed events, and the deliveries to these URLs.",
    "quotas": "Limits on running and starting jobs, and the waiting queues.",
    "bulks": "Bulk operations: one control, redrive or replay of many jobs, with the result for each job.",
    "protocols": "Definitions of job types.",
    "audit": "Signed heads of job histories and logs, daily anchors, and the public keys of the signatures.",
    "rejected messages": "Messages that services sent and that no job could accept.",
    "admin": "Sweeps and the deletion of a tenant's data, for operators.",
    "callbacks": "Replies that platform services send by HTTP instead of the bus. Each reply requires the token of "
    "its directive.",
    "dashboard": "The overview that the dashboard and `lucius status` show.",
    "health": "Health checks for probes.",
    "documents": (
        "API documents, for people and for programs. [/v1/problems](/v1/problems) has the meaning of each error code."
    ),
}
#: titles of tags that differ from the capitalized name
_TITLES = {"graphql": "GraphQL"}

_DESCRIPTION = (
    "LUCIUS is a control plane for document jobs. A caller submits a job request, follows the job and controls it.\n\n"
    "Bodies of requests are JSON in UTF-8, with at most 64 nested levels, without duplicate keys, NaN or lone "
    "surrogates. The maximum is 1 MiB, for a callback 256 KiB, and for a GraphQL request 16 KiB. A minor version can "
    "add fields to responses: ignore unknown fields. Every error has the form of "
    "RFC 9457 and a stable `code`.\n\nLists are paged: pass `next` as `cursor`, or as `after` for the events of a "
    "tenant, to get the next page. Reads have an `ETag`. If the response is unchanged, a request with `If-None-Match` "
    "returns 304. Every `GET` route supports `HEAD`.\n\n`Retry-After` is in seconds. A request can set "
    "`X-Correlation-Id`. Every response has this header."
)

_AUTHENTICATION = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": (
            "An access token of the configured issuer. The scopes (`scp`, `scope`) or roles (`roles`) of the token "
            "grant access:\n\n- `orch:read`: read jobs, runs, events, incidents, bulk operations, quotas, usage and "
            "protocols\n- `orch:operate`: submit, control, redrive and replay jobs, run bulk operations, and close "
            "incidents\n- `orch:quota`: hold and throttle quotas; for operators, also change limits, reset breakers "
            "and admit waiting jobs\n- `orch:audit`: read signed heads, anchors and public keys\n- `orch:admin`, as "
            "a role only: use webhooks, rejected messages and admin routes\n\nA request for a job of another tenant "
            "returns 404. A request that names another tenant returns 403. The role `orch:all-tenants:read` removes "
            "both restrictions for reading, and `orch:all-tenants:operate` for changes. A caller with the first role "
            "is an all-tenants caller, and a caller with the second role is an operator.\n\nTo get a token on a "
            "laptop, run `make up AUTH=1`, then `lucius login`. With `LUCIUS_AUTH_MODE=none` the API checks no "
            "tokens. An app in Azure refuses this mode."
        ),
    },
    "callback": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "lc1",
        "description": (
            "`callback_urls.token` of a directive. The token is valid for one attempt of one step, until `lease_s` "
            "seconds after the earlier time limit of job and step. Each response has a new token while the attempt is "
            "in progress. After the ACK, a new token is valid until `lease_s` seconds after the end of the lease."
        ),
    },
}


def document(
    routes: Iterable[Route],
    registry: Registry,
    schemes: Collection[str],
    *,
    server: str,
    build: str | None = None,
) -> JsonObject:
    """Makes the OpenAPI document.

    `schemes` has the allowed URI schemes of references. `server` is the URL of the API. The version shows `build`.
    """
    routes = list(routes)
    known = [protocol_response(protocol).model_dump(mode="json", exclude_unset=True) for protocol in registry][:1]
    examples = by_model() | {"ProtocolPage": {"protocols": known, "next": None}}
    if known:
        examples["Protocol"] = known[0]
        examples["ProtocolVersions"] = {
            **{name: known[0][name] for name in ("protocol_id", "request_type")},
            "counted_at": "2026-01-27T10:00:00Z",
            "versions": [
                {
                    "version": known[0]["version"],
                    "loaded": True,
                    "new_jobs_percent": 100,
                    "first_loaded_at": "2026-01-26T08:00:00Z",
                    "jobs": 12,
                    "protocol": known[0],
                }
            ],
        }
    paths: JsonObject = {}
    for route in routes:
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = operation(route, routes, examples)
    used = {route.tag for route in routes}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "LUCIUS",
            "version": version_text(build),
            "description": _DESCRIPTION,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": server}],
        "tags": [
            {"name": tag, "x-displayName": _TITLES.get(tag, tag.capitalize()), "description": text}
            for tag, text in _TAGS.items()
            if tag in used
        ],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(_schemas(routes, registry, schemes).items())),
            "parameters": headers.PARAMETERS,
            "headers": headers.HEADERS,
            "securitySchemes": _AUTHENTICATION,
        },
    }


def _schemas(routes: Iterable[Route], registry: Registry, schemes: Collection[str]) -> JsonObject:
    models: dict[type[BaseModel], Way] = {Problem: "read"}
    for route in routes:
        if route.body not in (None, Envelope):
            models[route.body] = "write"
        models |= {model: "read" for answer in route.responses.values() for model in models_of(answer)}
    found = schemas(list(models.items())) | envelope_schema.components(registry, schemes)
    for route in routes:
        if route.body_schema is not None:
            found |= _parts(route.body_schema)
    return found


def _parts(whole: Mapping[str, Any]) -> JsonObject:
    """Returns a schema and its nested schemas, by name."""
    parts = {whole["title"]: {name: each for name, each in whole.items() if name != "$defs"}, **whole.get("$defs", {})}
    schemas_by_name: JsonObject = json.loads(json.dumps(parts).replace('"#/$defs/', f'"{_SCHEMAS}'))
    return schemas_by_name
