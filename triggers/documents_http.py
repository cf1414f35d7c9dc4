"""What the API says of itself, open to everybody: `/v1/openapi.json`, `/v1/asyncapi.json`, `/v1/schemas`, `/v1/docs`.

Made of the routes, of the models and of the protocols that rule now; nothing is fetched from elsewhere.
"""

from __future__ import annotations

from urllib.parse import urlsplit

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller
from shared.access.references import ReferencePolicy
from shared.apidocs import asyncapi, envelope_schema, message_schemas
from shared.apidocs.json_schema import Json
from shared.apidocs.openapi import document
from shared.contracts.responses.protocol import SchemaPage
from shared.core.docs_start import started
from shared.core.registry import Registry
from shared.errors import Refusal
from shared.settings import Settings
from shared.wiring import Wiring
from triggers.http.problems import respond
from triggers.http.routes import Parameter, Route, add

OPENAPI = Route(
    function="documents_openapi",
    method="GET",
    path="v1/openapi.json",
    scope=None,
    tag="documents",
    summary="This API as an OpenAPI 3.1 document",
    description="With the protocols that rule now: the payload of each `request_type` stands in it.",
    responses={200: "application/json"},
)
ASYNCAPI = Route(
    function="documents_asyncapi",
    method="GET",
    path="v1/asyncapi.json",
    scope=None,
    tag="documents",
    summary="The messages on the bus as an AsyncAPI 3 document",
    responses={200: "application/json"},
)
SCHEMAS = Route(
    function="documents_schemas",
    method="GET",
    path="v1/schemas",
    scope=None,
    tag="documents",
    summary="List the JSON Schemas of messages, envelopes and payloads",
    responses={200: SchemaPage},
)
SCHEMA = Route(
    function="documents_schema",
    method="GET",
    path="v1/schemas/{name}",
    scope=None,
    tag="documents",
    summary="Read one JSON Schema (draft 2020-12)",
    parameters=(
        Parameter(name="name", where="path", required=True, schema={"type": "string"}, description="As the list says."),
    ),
    responses={200: "application/schema+json"},
    problems=((404, "SCHEMA_NOT_FOUND"),),
)
DOCS = Route(
    function="documents_page",
    method="GET",
    path="v1/docs",
    scope=None,
    tag="documents",
    summary="This API as a page to read",
    responses={200: "text/html"},
)
ROUTES = (OPENAPI, ASYNCAPI, SCHEMAS, SCHEMA, DOCS)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """The documents are made of the routes and of the protocols that rule now."""
    # this module's own routes are among them
    from triggers.registered import ROUTES as every_route

    bp = df.Blueprint()
    # making it takes longer than all else here, and whoever asks needs no token
    made: tuple[Registry, Json] | None = None

    async def told(req: func.HttpRequest) -> Json:
        nonlocal made
        registry = (await wiring.fresh_context()).registry
        if made is None or made[0] is not registry:
            made = registry, document(every_route, registry, _policy(wiring.settings), server="/")
        parts = urlsplit(req.url)
        server = wiring.settings.public_url or f"{parts.scheme}://{parts.netloc}"
        return {**made[1], "servers": [{"url": server}]}

    async def openapi(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        return respond(req, await told(req))

    async def bus(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        settings = wiring.settings
        names = asyncapi.BusNames(
            lanes=settings.lanes, reply_prefix=settings.reply_prefix, reply_subscription=settings.reply_subscription
        )
        return respond(req, asyncapi.document(names))

    async def schemas(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        registry = (await wiring.fresh_context()).registry
        found = schema_documents(registry, _policy(wiring.settings))
        listed = [
            {"name": name, "title": each.get("title", name), "path": f"/v1/schemas/{name}"}
            for name, each in found.items()
        ]
        return respond(req, {"schemas": listed, "next": None})

    async def schema(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        name = req.route_params["name"]
        registry = (await wiring.fresh_context()).registry
        found = schema_documents(registry, _policy(wiring.settings)).get(name)
        if found is None:
            raise Refusal(404, "SCHEMA_NOT_FOUND", "there is no such schema; GET /v1/schemas lists them")
        return respond(req, found, media_type="application/schema+json")

    async def page(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        text = await told(req)
        settings = wiring.settings
        begin = started(
            text["servers"][0]["url"],
            _on_a_laptop(settings.auth_issuer),
            _on_a_laptop(settings.workspace_uri.removesuffix("/workspace")),
        )
        shown = page.page(text, begin)
        return respond(req, shown, media_type="text/html", headers={"Content-Security-Policy": page.POLICY})

    for route, handler in ((OPENAPI, openapi), (ASYNCAPI, bus), (SCHEMAS, schemas), (SCHEMA, schema), (DOCS, page)):
        add(bp, route, handler, wiring)
    return bp


def _on_a_laptop(uri: str | None) -> str | None:
    return uri if uri is not None and urlsplit(uri).hostname == "127.0.0.1" else None


def _policy(settings: Settings) -> ReferencePolicy:
    return ReferencePolicy(settings.allowed_ref_schemes, settings.allowed_ref_hosts)


def schema_documents(registry: Registry, policy: ReferencePolicy) -> dict[str, Json]:
    """Every JSON Schema by name: messages, the envelope with its rules, the steps' payloads."""
    envelope = envelope_schema.document(registry, policy)
    return message_schemas.documents() | {"envelope": envelope} | envelope_schema.step_schemas(registry)
