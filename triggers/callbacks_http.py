"""`POST /v1/callbacks/ack`, `/result`, `/heartbeat`: replies of services over HTTP instead of the bus."""

from __future__ import annotations

import azure.functions as func

from shared.api.job import CallbackOutcome, callback_outcome
from shared.apidocs.message_schemas import callback
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import NO_STORE, Route, in_header
from shared.operations.jobs.replies.callbacks import CallbackKind, receive_callback
from shared.refusals import NotYourAttempt, TokenInvalid
from triggers.http.bodies import BODY_PROBLEMS, json_body, sent_body
from triggers.http.responses import respond
from triggers.http.routes import Handler, Request

IDEMPOTENCY_KEY = in_header(
    "Idempotency-Key",
    {"type": "string"},
    "Idempotency key, at most 512 characters. LUCIUS ignores a longer key. Repeating the callback with the same key "
    "has no effect.",
)

#: problems that `receive_reply` can raise
CALLBACK_PROBLEMS = (
    *BODY_PROBLEMS,
    ProblemCode.REPLY_INVALID,
    ProblemCode.LEDGER_REFUSED,
    ProblemCode.DATA_LOST,
    TokenInvalid,
    NotYourAttempt,
    ProblemCode.UNKNOWN_JOB,
)

#: maximum length of an Idempotency-Key; a longer one is ignored
_MAX_KEY = 512


def _callback(kind: CallbackKind) -> Handler:
    @Route(
        function=f"callback_{kind.lower()}",
        method="POST",
        path=f"v1/callbacks/{kind.lower()}",
        # the directive's token authorizes the call
        scope=None,
        every_tenant=True,
        durable_client=True,
        tag="callbacks",
        summary=f"Send an attempt's {kind}",
        description="Has the same effect as the reply on the bus. Requires the token of the attempt's directive. "
        "LUCIUS records late and repeated callbacks and returns 200.",
        callback=True,
        parameters=(IDEMPOTENCY_KEY,),
        body_schema=callback(kind),
        body_required=kind == "RESULT",
        responses={200: CallbackOutcome},
        # the response may have a new token
        caching=NO_STORE,
        problems=CALLBACK_PROBLEMS,
    )
    async def receive(request: Request) -> func.HttpResponse:
        return await receive_reply(request, kind)

    return receive


async def receive_reply(request: Request, kind: CallbackKind, job_id: str | None = None) -> func.HttpResponse:
    """Applies the reply in a request's body. `job_id` is the job id in the path, if any."""
    req = request.http
    key = req.headers.get("Idempotency-Key", "").strip()
    called = await receive_callback(
        await request.fresh_context(),
        request.orchestrations(),
        kind,
        token=_bearer(req),
        body=json_body(req) if sent_body(req).strip() else b"",
        key=key if 0 < len(key) <= _MAX_KEY else None,
        job_id=job_id,
    )
    outcome = callback_outcome(
        called.result.record,
        applied=called.result.applied,
        reason_code=called.result.reason_code,
        token=called.token,
        token_end=called.grant.expires_at if called.grant is not None else None,
    )
    return respond(req, outcome)


_ack, _result, _heartbeat = _callback("ACK"), _callback("RESULT"), _callback("HEARTBEAT")


def _bearer(req: func.HttpRequest) -> str | None:
    scheme, _, token = req.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None
