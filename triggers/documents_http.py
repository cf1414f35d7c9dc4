"""Documents about the API, open to everybody: `/v1/openapi.json`, `/v1/asyncapi.json`, `/v1/schemas`, `/v1/docs`.

Made of the routes, of the models and of the protocols that hold now; nothing is fetched from elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

import azure.durable_functions as df
import azure.functions as func

from shared.access.references import ReferencePolicy
from shared.apidocs import asyncapi, envelope_schema, message_schemas, page, quickstart
from shared.apidocs.json_schema import JsonObject
from shared.apidocs.openapi import document
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Parameter, Route
from shared.core.registry import Registry
from shared.responses.protocol import SchemaLine, SchemaPage
from shared.settings import Settings
from shared.wiring import Wiring
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request, add

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
        Parameter(name="name", where="path", required=True, schema={"type": "string"}, description="As in the list."),
    ),
    responses={200: "application/schema+json"},
    problems=((404, ProblemCode.SCHEMA_NOT_FOUND),),
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


def blueprint(wiring: Wiring, every_route: Callable[[], tuple[Route, ...]]) -> df.Blueprint:
    """The routes of documents; `every_route` gives all routes of the app, which the OpenAPI document describes."""
    bp = df.Blueprint()
    settings = wiring.settings
    policy = _policy(settings)
    # making it takes longer than all else here, and it is served without a token
    made: tuple[Registry, JsonObject] | None = None

    async def openapi_of(request: Request) -> JsonObject:
        nonlocal made
        registry = (await request.fresh_context()).registry
        if made is None or made[0] is not registry:
            made = registry, document(every_route(), registry, policy, server="/")
        parts = urlsplit(request.http.url)
        server = settings.public_url or f"{parts.scheme}://{parts.netloc}"
        return {**made[1], "servers": [{"url": server}]}

    async def openapi(request: Request) -> func.HttpResponse:
        return respond(request.http, await openapi_of(request))

    async def messages(request: Request) -> func.HttpResponse:
        names = asyncapi.BusNames(
            lanes=settings.lanes, reply_prefix=settings.reply_prefix, reply_subscription=settings.reply_subscription
        )
        return respond(request.http, asyncapi.document(names))

    async def schemas(request: Request) -> func.HttpResponse:
        found = schema_documents((await request.fresh_context()).registry, policy)
        lines = [
            SchemaLine(name=name, title=each.get("title", name), path=f"/v1/schemas/{name}")
            for name, each in found.items()
        ]
        return respond(request.http, SchemaPage(schemas=lines, next=None))

    async def schema(request: Request) -> func.HttpResponse:
        documents = schema_documents((await request.fresh_context()).registry, policy)
        found = documents.get(request.http.route_params["name"])
        if found is None:
            detail = "there is no such schema; GET /v1/schemas lists them"
            raise RequestError(ProblemCode.SCHEMA_NOT_FOUND, detail, status=404)
        return respond(request.http, found, media_type="application/schema+json")

    async def docs(request: Request) -> func.HttpResponse:
        shown = await openapi_of(request)
        issuer, blobs = settings.auth_issuer, settings.workspace_uri.removesuffix("/workspace")
        text = page.page(shown, quickstart.section(shown["servers"][0]["url"], issuer, blobs))
        return respond(request.http, text, media_type="text/html", headers={"Content-Security-Policy": page.POLICY})

    for route, handler in (
        (OPENAPI, openapi),
        (ASYNCAPI, messages),
        (SCHEMAS, schemas),
        (SCHEMA, schema),
        (DOCS, docs),
    ):
        add(bp, route, handler, wiring)
    return bp


def _policy(settings: Settings) -> ReferencePolicy:
    return ReferencePolicy(settings.allowed_ref_schemes, settings.allowed_ref_hosts)


def schema_documents(registry: Registry, policy: ReferencePolicy) -> dict[str, JsonObject]:
    """Every JSON Schema by name: messages, the envelope with its rules, the steps' payloads."""
    envelope = envelope_schema.document(registry, policy)
    return message_schemas.documents() | {"envelope": envelope} | envelope_schema.step_schemas(registry)
