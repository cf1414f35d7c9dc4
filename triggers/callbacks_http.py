"""`POST /v1/callbacks/ack`, `/result`, `/heartbeat`: replies of services off the bus (FEATURES D14)."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import azure.functions as func

from shared.access.caller import Caller
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.apidocs.message_schemas import callback
from shared.contracts.responses.job import CallbackOutcome
from shared.core import durable_names
from shared.operations.replies.callbacks import Kind, receive_callback
from shared.views.job import callback_view
from shared.wiring import Wiring
from triggers.http.problems import json_body, respond
from triggers.http.routes import Handler, Parameter, Route, add

KINDS: tuple[Kind, ...] = ("ACK", "RESULT", "HEARTBEAT")

IDEMPOTENCY_KEY = Parameter(
    name="Idempotency-Key",
    where="header",
    schema={"type": "string"},
    description="Your name for this callback, at most 512 characters: sent again under it, it changes nothing.",
)

CALLBACKS = {
    kind: Route(
        function=f"callback_{kind.lower()}",
        method="POST",
        path=f"v1/callbacks/{kind.lower()}",
        # the token is the directive's, not the issuer's
        scope=None,
        tag="callbacks",
        summary=f"Hand in {kind} of an attempt, with the token of its directive",
        description="The same as the reply on the bus. Late and repeated ones are recorded and answered with 200.",
        callback=True,
        parameters=(IDEMPOTENCY_KEY,),
        body_schema=callback(kind),
        body_required=kind == "RESULT",
        responses={200: CallbackOutcome},
        headers={200: ("Cache-Control",)},
        problems=(
            (400, "NOT_JSON"),
            (400, "REPLY_INVALID"),
            (400, "LEDGER_REFUSED"),
            (401, "TOKEN_INVALID"),
            (403, "NOT_YOUR_ATTEMPT"),
            (404, "UNKNOWN_JOB"),
            (413, "BODY_TOO_LARGE"),
            (415, "NOT_JSON"),
        ),
    )
    for kind in KINDS
}
ROUTES = tuple(CALLBACKS.values())

#: of an Idempotency-Key; a longer one is no key
_MAX_KEY = 512


def blueprint(wiring: Wiring) -> df.Blueprint:
    """One route a kind of reply; the token in `Authorization` says which attempt speaks."""
    bp = df.Blueprint()
    for kind, route in CALLBACKS.items():
        add(bp, route, _callback(wiring, kind), wiring, client=True)
    return bp


def _callback(wiring: Wiring, kind: Kind) -> Handler:
    async def taken(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        body = json_body(req) if req.get_body().strip() else b""
        key = req.headers.get("Idempotency-Key", "").strip()
        called = await receive_callback(
            wiring.context(),
            DurableOrchestrations(client, durable_names.JOB),
            kind,
            token=_bearer(req),
            body=body,
            key=key if 0 < len(key) <= _MAX_KEY else None,
        )
        # never cached: a fresh token may stand in it
        return respond(req, _told(called), headers={"Cache-Control": "no-store"})

    return taken


def _told(called: Any) -> dict[str, Any]:
    told = callback_view(called.result.record, applied=called.result.applied, why=called.result.reason_code)
    if called.grant is not None:
        told |= {"token": called.token, "token_expires_at": called.grant.expires_at.isoformat().replace("+00:00", "Z")}
    return told


def _bearer(req: func.HttpRequest) -> str | None:
    scheme, _, token = req.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
