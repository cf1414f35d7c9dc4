"""`GET /v1/protocols`, `/v1/protocols/{id}` (FEATURES B6)."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller, Scope
from shared.contracts.responses.protocol import Protocol as ProtocolView
from shared.contracts.responses.protocol import ProtocolPage
from shared.core.registry import Protocol
from shared.errors import Refusal
from shared.wiring import Wiring
from triggers.http.problems import respond
from triggers.http.routes import Parameter, Route, add

LIST = Route(
    function="protocols_list",
    method="GET",
    path="v1/protocols",
    scope=Scope.READ,
    tag="protocols",
    summary="List what can be asked for",
    responses={200: ProtocolPage},
)
READ = Route(
    function="protocols_read",
    method="GET",
    path="v1/protocols/{protocolId}",
    scope=Scope.READ,
    tag="protocols",
    summary="Read a protocol, by its id or request type",
    parameters=(
        Parameter(
            name="protocolId", where="path", required=True, schema={"type": "string"}, description="Or a request type."
        ),
    ),
    responses={200: ProtocolView},
    problems=((404, "PROTOCOL_NOT_FOUND"),),
)
ROUTES = (LIST, READ)


def blueprint(wiring: Wiring) -> df.Blueprint:
    """What a caller can ask for, with the JSON Schema of each step's payload."""
    bp = df.Blueprint()

    async def protocols_list(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        registry = (await wiring.fresh_context()).registry
        return respond(req, {"protocols": [protocol_view(protocol) for protocol in registry], "next": None})

    async def protocols_read(req: func.HttpRequest, caller: Caller) -> func.HttpResponse:
        name = req.route_params["protocolId"]
        registry = (await wiring.fresh_context()).registry
        for protocol in registry:
            if name in (protocol.definition.protocol_id, protocol.definition.request_type):
                return respond(req, protocol_view(protocol))
        raise Refusal(404, "PROTOCOL_NOT_FOUND", f"known: {', '.join(registry.request_types)}")

    add(bp, LIST, protocols_list, wiring)
    add(bp, READ, protocols_read, wiring)
    return bp


def protocol_view(protocol: Protocol) -> dict[str, Any]:
    shown = protocol.definition.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for step in shown["steps"]:
        if (schema := protocol.schemas.get(step["step_id"])) is not None:
            step["payload_schema"] = schema
    return {**shown, "digest": protocol.digest}
