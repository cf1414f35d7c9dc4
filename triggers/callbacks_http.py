"""`POST /v1/callbacks/ack`, `/result`, `/heartbeat`: replies of services off the bus (FEATURES D14)."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import azure.functions as func

from orchestrations import names
from shared.adapters.durable_orchestrations import DurableOrchestrations
from shared.core.access import Caller
from shared.core.view import callback_view
from shared.operations.callbacks import Kind, take_callback
from shared.wiring import Wiring
from triggers.problems import answer, json_body
from triggers.routes import Handler, Route, add

KINDS: tuple[Kind, ...] = ("ACK", "RESULT", "HEARTBEAT")

CALLBACKS = {
    kind: Route(
        function=f"callback_{kind.lower()}",
        method="POST",
        path=f"v1/callbacks/{kind.lower()}",
        # the token is the directive's, not the issuer's
        scope=None,
        tag="callbacks",
        summary=f"Hand in {kind} of an attempt, with the token of its directive",
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
    async def callback(req: func.HttpRequest, caller: Caller, client: Any) -> func.HttpResponse:
        body = json_body(req) if req.get_body().strip() else b""
        key = req.headers.get("Idempotency-Key", "").strip()
        called = await take_callback(
            wiring.context(),
            DurableOrchestrations(client, names.JOB),
            kind,
            token=_bearer(req),
            body=body,
            key=key if 0 < len(key) <= _MAX_KEY else None,
        )
        # never cached: a fresh token may stand in it
        return answer(req, _told(called), headers={"Cache-Control": "no-store"})

    return callback


def _told(called: Any) -> dict[str, Any]:
    told = callback_view(called.handed_in.record, applied=called.handed_in.applied, why=called.handed_in.why)
    if called.grant is not None:
        told |= {"token": called.token, "token_expires_at": called.grant.expires_at.isoformat().replace("+00:00", "Z")}
    return told


def _bearer(req: func.HttpRequest) -> str | None:
    scheme, _, token = req.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
