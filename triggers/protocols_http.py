"""`GET /v1/protocols`, `/v1/protocols/{id}` (FEATURES B6)."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.core.registry import Protocol
from shared.errors import Refusal
from shared.wiring import Wiring
from triggers.problems import answer, answers_problems


def blueprint(wiring: Wiring) -> df.Blueprint:
    """What a caller can ask for, with the JSON Schema of each step's payload."""
    bp = df.Blueprint()

    @bp.function_name("protocols_list")
    @bp.route(route="v1/protocols", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def protocols_list(req: func.HttpRequest) -> func.HttpResponse:
        registry = (await wiring.fresh_context()).registry
        return answer(req, {"protocols": [_view(protocol) for protocol in registry], "next": None})

    @bp.function_name("protocols_read")
    @bp.route(route="v1/protocols/{protocolId}", methods=["GET"], auth_level=func.AuthLevel.ANONYMOUS)
    @answers_problems
    async def protocols_read(req: func.HttpRequest) -> func.HttpResponse:
        name = req.route_params["protocolId"]
        registry = (await wiring.fresh_context()).registry
        for protocol in registry:
            if name in (protocol.definition.protocol_id, protocol.definition.request_type):
                return answer(req, _view(protocol))
        raise Refusal(404, "PROTOCOL_NOT_FOUND", f"known: {', '.join(registry.request_types)}")

    return bp


def _view(protocol: Protocol) -> dict[str, Any]:
    shown = protocol.definition.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for step in shown["steps"]:
        if (schema := protocol.schemas.get(step["step_id"])) is not None:
            step["payload_schema"] = schema
    return {**shown, "digest": protocol.digest}
