"""Public documents about the API: OpenAPI, AsyncAPI, JSON Schemas, and two pages for people.

The documents are generated from the routes, the models and the present protocols, once after each change of these
sources. Every caller can read the documents, so they name no allowed host and repeat nothing of the request.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property, partial

import azure.durable_functions as df
import azure.functions as func

from shared.api.protocol import SchemaLine, SchemaPage
from shared.apidocs import asyncapi, docs_page, envelope_schema, event_schemas, message_schemas, problems_page
from shared.apidocs.json_schema import JsonObject
from shared.apidocs.openapi import document
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import IMMUTABLE, PUBLIC, Route, in_path
from shared.build import build_text
from shared.core.events.event_types import PublicType
from shared.core.registry import Registry
from shared.settings import Settings
from shared.wiring import Wiring
from triggers.http.problems import RequestError
from triggers.http.responses import Content, content_of, respond, respond_packed, respond_page
from triggers.http.routes import Request, add

route = partial(Route, scope=None, caching=PUBLIC, tag="documents")
OPENAPI = route(
    function="documents_openapi",
    method="GET",
    path="v1/openapi.json",
    summary="Get the OpenAPI document",
    description="Returns an OpenAPI 3.1 document, with the payload schema of each `request_type` of the protocols that "
    "are in effect now.",
    responses={200: "application/json"},
)
ASYNCAPI = route(
    function="documents_asyncapi",
    method="GET",
    path="v1/asyncapi.json",
    summary="Get the AsyncAPI document",
    description="Returns an AsyncAPI 3 document of the messages on the bus.",
    responses={200: "application/json"},
)
SCHEMAS = route(
    function="documents_schemas",
    method="GET",
    path="v1/schemas",
    summary="List JSON Schemas",
    description="Lists schemas of messages, job requests, payloads and public events.",
    responses={200: SchemaPage},
)
SCHEMA = route(
    function="documents_schema",
    method="GET",
    path="v1/schemas/{name}",
    summary="Get a JSON Schema",
    description="Returns a JSON Schema, draft 2020-12.",
    parameters=(in_path("name", {"type": "string"}, "`name` from the list of schemas."),),
    responses={200: "application/schema+json"},
    problems=(ProblemCode.SCHEMA_NOT_FOUND,),
)
EVENT_SCHEMA = route(
    function="documents_event_schema",
    method="GET",
    path="v1/schemas/events/{type}",
    summary="Get an event's JSON Schema",
    description="Returns a JSON Schema, draft 2020-12.",
    parameters=(in_path("type", {"type": "string", "examples": [PublicType.COMPLETED.value]}, "`type` of the event."),),
    responses={200: "application/schema+json"},
    problems=(ProblemCode.SCHEMA_NOT_FOUND,),
)
DOCS = route(
    function="documents_page",
    method="GET",
    path="v1/docs",
    summary="Get the API reference page",
    responses={200: "text/html"},
)
DOCS_FILE = route(
    function="documents_page_file",
    method="GET",
    path="v1/docs/{file}",
    caching=IMMUTABLE,
    summary="Get a reference page file",
    parameters=(in_path("file", {"type": "string", "examples": [docs_page.SCRIPT]}, "File name, as in the page."),),
    responses={200: "text/javascript"},
    problems=(ProblemCode.ROUTE_NOT_FOUND,),
)
PROBLEMS = route(
    function="documents_problems",
    method="GET",
    path="v1/problems",
    summary="List error codes",
    description="Returns a page with the meaning of each error code. The `type` of an error is the URL of its entry.",
    responses={200: "text/html"},
)
ROUTES = (OPENAPI, ASYNCAPI, SCHEMAS, SCHEMA, EVENT_SCHEMA, DOCS, DOCS_FILE, PROBLEMS)


def blueprint(wiring: Wiring, every_route: Callable[[], tuple[Route, ...]]) -> df.Blueprint:
    """Makes the routes of documents.

    `every_route` returns all routes of the app, which the OpenAPI document describes.
    """
    bp = df.Blueprint()
    made: Documents | None = None

    async def documents(request: Request) -> Documents:
        nonlocal made
        registry = (await request.fresh_context()).registry
        if made is None or made.registry is not registry:
            made = Documents(registry, every_route(), wiring.settings)
        return made

    async def openapi(request: Request) -> func.HttpResponse:
        return respond_packed(request.http, (await documents(request)).openapi_in)

    async def messages(request: Request) -> func.HttpResponse:
        return respond(request.http, (await documents(request)).asyncapi)

    async def schemas(request: Request) -> func.HttpResponse:
        return respond(request.http, (await documents(request)).schema_list)

    async def schema(request: Request) -> func.HttpResponse:
        return await one_schema(request, request.http.route_params["name"])

    async def event_schema(request: Request) -> func.HttpResponse:
        return await one_schema(request, f"events/{request.http.route_params['type']}")

    async def one_schema(request: Request, name: str) -> func.HttpResponse:
        found = (await documents(request)).schemas.get(name)
        if found is None:
            detail = f"schema not found: {name[:128]}; GET /v1/schemas lists all schemas"
            raise RequestError(ProblemCode.SCHEMA_NOT_FOUND, detail)
        return respond(request.http, found)

    async def docs(request: Request) -> func.HttpResponse:
        return respond_page(request.http, (await documents(request)).docs, "docs", policy=docs_page.POLICY)

    async def docs_file(request: Request) -> func.HttpResponse:
        if request.http.route_params["file"] != docs_page.SCRIPT:
            raise RequestError(ProblemCode.ROUTE_NOT_FOUND, "file of the API page not found; reload the page")
        return respond_packed(request.http, _script)

    async def problems(request: Request) -> func.HttpResponse:
        headers = {"Content-Security-Policy": problems_page.POLICY}
        return respond(request.http, (await documents(request)).problems, headers=headers)

    handlers = (openapi, messages, schemas, schema, event_schema, docs, docs_file, problems)
    for route, handler in zip(ROUTES, handlers, strict=True):
        add(bp, route, handler, wiring)
    return bp


@cache
def _script(packed: bool) -> Content:
    """Returns the script of the docs page, in gzip or plain."""
    body = docs_page.packed_script()
    return Content(body if packed else gzip.decompress(body), "text/javascript")


class Documents:
    """The public documents for one registry of protocols. Each document is made at its first request."""

    def __init__(self, registry: Registry, routes: tuple[Route, ...], settings: Settings) -> None:
        self.registry = registry
        self._routes = routes
        self._settings = settings

    def openapi_in(self, packed: bool) -> Content:
        """Returns the OpenAPI document, in gzip or plain."""
        return self._packed_openapi if packed else self._openapi

    @cached_property
    def _openapi(self) -> Content:
        return content_of(self._described)

    @cached_property
    def _packed_openapi(self) -> Content:
        # without a time, so that the ETag is the same in each process
        return replace(self._openapi, body=gzip.compress(self._openapi.body, mtime=0))

    @cached_property
    def asyncapi(self) -> Content:
        settings = self._settings
        names = asyncapi.BusNames(
            lanes=settings.lanes, reply_prefix=settings.reply_prefix, reply_subscription=settings.reply_subscription
        )
        return content_of(asyncapi.document(names, build_text(settings.build_commit)))

    @cached_property
    def schemas(self) -> dict[str, Content]:
        """Returns the schemas by name."""
        return {name: content_of(each, "application/schema+json") for name, each in self._schemas.items()}

    @cached_property
    def schema_list(self) -> Content:
        lines = [
            SchemaLine(name=name, title=each.get("title", name), path=f"/v1/schemas/{name}")
            for name, each in self._schemas.items()
        ]
        return content_of(SchemaPage(schemas=lines, next=None))

    @cached_property
    def docs(self) -> Content:
        return content_of(docs_page.PAGE, "text/html")

    @cached_property
    def problems(self) -> Content:
        return content_of(problems_page.problems_page(self._routes), "text/html")

    @cached_property
    def _described(self) -> JsonObject:
        settings = self._settings
        # `/` stands for the host that served the document
        server, build = settings.public_url or "/", build_text(settings.build_commit)
        return document(self._routes, self.registry, settings.allowed_ref_schemes, server=server, build=build)

    @cached_property
    def _schemas(self) -> dict[str, JsonObject]:
        """Returns every JSON Schema by name: messages, the job request with its rules, payloads of steps, public
        events.
        """
        envelope = envelope_schema.document(self.registry, self._settings.allowed_ref_schemes)
        events = {f"events/{name}": each for name, each in event_schemas.documents().items()}
        steps = envelope_schema.step_schemas(self.registry)
        return message_schemas.documents() | {"envelope": envelope} | steps | events
