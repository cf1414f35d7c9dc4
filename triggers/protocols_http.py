"""`GET /v1/protocols`, `/v1/protocols/{id}`: what a caller can ask for."""

from __future__ import annotations

from functools import partial

import azure.functions as func

from shared.access.caller import Scope
from shared.api.protocol import Protocol, ProtocolPage, protocol_response
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_path
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

_route = partial(Route, method="GET", scope=Scope.READ, tag="protocols")


@_route(
    function="protocols_list",
    path="v1/protocols",
    summary="List protocols",
    responses={200: ProtocolPage},
)
async def _protocols_list(request: Request) -> func.HttpResponse:
    registry = (await request.fresh_context()).registry
    return respond(request.http, ProtocolPage(protocols=[protocol_response(each) for each in registry], next=None))


@_route(
    function="protocols_read",
    path="v1/protocols/{protocolId}",
    summary="Get a protocol",
    parameters=(in_path("protocolId", {"type": "string"}, "Id of the protocol, or its job type."),),
    responses={200: Protocol},
    problems=(ProblemCode.PROTOCOL_NOT_FOUND,),
)
async def _protocols_read(request: Request) -> func.HttpResponse:
    name = request.http.route_params["protocolId"]
    registry = (await request.fresh_context()).registry
    for protocol in registry:
        if name in (protocol.definition.protocol_id, protocol.definition.request_type):
            return respond(request.http, protocol_response(protocol))
    detail = f"known: {', '.join(registry.request_types)}"
    raise RequestError(ProblemCode.PROTOCOL_NOT_FOUND, detail)
