"""`GET /v1/protocols`, `/v1/protocols/{id}`, `/v1/protocols/{id}/versions`: protocols that a job can request."""

from __future__ import annotations

from functools import partial

import azure.functions as func

from shared.access.caller import Scope
from shared.api.protocol import Protocol, ProtocolPage, ProtocolVersion, ProtocolVersions, protocol_response
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_path
from shared.core import registry
from shared.errors import excerpt
from shared.operations.protocols.read_versions import Version, read_versions
from triggers.http.problems import RequestError
from triggers.http.responses import respond
from triggers.http.routes import Request

_ID = in_path("protocolId", {"type": "string"}, "Id of the protocol, or its job type.")
_route = partial(Route, method="GET", scope=Scope.READ, tag="protocols")


@_route(
    function="protocols_list",
    path="v1/protocols",
    summary="List protocols",
    responses={200: ProtocolPage},
)
async def _protocols_list(request: Request) -> func.HttpResponse:
    known = (await request.fresh_context()).registry
    return respond(request.http, ProtocolPage(protocols=[protocol_response(each) for each in known], next=None))


@_route(
    function="protocols_read",
    path="v1/protocols/{protocolId}",
    summary="Get a protocol",
    description="Returns the version that new jobs outside of a ramp follow.",
    parameters=(_ID,),
    responses={200: Protocol},
    problems=(ProblemCode.PROTOCOL_NOT_FOUND,),
)
async def _protocols_read(request: Request) -> func.HttpResponse:
    found = _find((await request.fresh_context()).registry, request.http.route_params["protocolId"])
    return respond(request.http, protocol_response(found))


@_route(
    function="protocols_versions",
    path="v1/protocols/{protocolId}/versions",
    summary="List a protocol's versions",
    every_tenant=True,
    description="Lists each version that the app has ever loaded, with its number of jobs that have not ended. The "
    "numbers are one minute old, or several minutes if many jobs have not ended.",
    parameters=(_ID,),
    responses={200: ProtocolVersions},
    problems=(ProblemCode.PROTOCOL_NOT_FOUND,),
)
async def _protocols_versions(request: Request) -> func.HttpResponse:
    """Returns the versions. Raises LedgerUnavailable, RequestError (404)."""
    wiring, context = request.wiring, await request.fresh_context()
    found = _find(context.registry, request.http.route_params["protocolId"])
    definition = found.definition
    marks = context.sweep_marks if request.caller.sees_all else None
    rows = wiring.protocol_versions()
    known = await read_versions(context.registry, rows, definition.request_type, marks, context.settings.sweepers)
    return respond(
        request.http,
        ProtocolVersions(
            protocol_id=definition.protocol_id,
            request_type=definition.request_type,
            counted_at=known.counted_at,
            versions=[_version(each) for each in known.versions],
        ),
    )


def _version(version: Version) -> ProtocolVersion:
    return ProtocolVersion(
        version=version.protocol.definition.version,
        loaded=version.is_loaded,
        new_jobs_percent=version.new_jobs_percent,
        first_loaded_at=version.first_loaded_at,
        jobs=version.jobs,
        protocol=protocol_response(version.protocol),
    )


def _find(known: registry.Registry, name: str) -> registry.Protocol:
    """Returns the version that new jobs outside of a ramp follow. Raises RequestError (404)."""
    for protocol in known:
        if name in (protocol.definition.protocol_id, protocol.definition.request_type):
            return protocol
    detail = f"protocol not found: {excerpt(name)}; use one of {', '.join(known.request_types)}"
    raise RequestError(ProblemCode.PROTOCOL_NOT_FOUND, detail)
