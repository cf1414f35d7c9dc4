"""Replies over HTTP, for services without access to the bus: the grant in the directive, and the callback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shared.access.callback_token import Grant, grant_of, sign_token, verify_token
from shared.contracts.messages import Callbacks
from shared.core.jobs.job import Record, Step
from shared.core.jobs.routing import normalise
from shared.core.records.canonical import digest
from shared.core.records.strict_json import parse_json
from shared.errors import ReplyUnfit
from shared.operations.jobs.replies.apply import ReplyResult, apply_reply, validate_reply
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.refusals import BodyTooLarge, CallbackTokenInvalid, NotYourAttempt
from shared.settings import Settings

CallbackKind = Literal["ACK", "RESULT", "HEARTBEAT"]

#: maximum size of a callback, as of a message on the bus
MAX_CALLBACK_BYTES = 256 * 1024


@dataclass(frozen=True)
class CallbackResult:
    """The result of a callback. `grant` and `token` are None if the attempt is no longer in flight."""

    result: ReplyResult
    grant: Grant | None
    token: str | None


def callback_urls(settings: Settings, record: Record, step: Step) -> Callbacks | None:
    """Returns the callback URLs of the step's current attempt, or None if callbacks are off."""
    if not settings.callback_keys or settings.public_url is None:
        return None
    base = f"{settings.public_url}/v1/callbacks"
    token = sign_token(grant_of(record, step), settings.callback_keys, deployment=settings.environment)
    return Callbacks(ack=f"{base}/ack", result=f"{base}/result", heartbeat=f"{base}/heartbeat", token=token)


async def receive_callback(
    context: Context,
    orchestrations: Orchestrations,
    kind: CallbackKind,
    *,
    token: str | None,
    body: bytes,
    key: str | None,
    job_id: str | None = None,
) -> CallbackResult:
    """Applies a reply from a callback in the same way as a reply from the bus.

    `key`: the caller's idempotency key for this callback. `job_id`: the job in the callback's path. The token provides
    the parts of the attempt's identity that the body leaves out. Raises CallbackTokenInvalid, BodyTooLarge,
    NotYourAttempt, ReplyUnfit, DataLost, Undecodable, Transient.
    """
    keys, deployment = context.settings.callback_keys, context.settings.environment
    try:
        grant = verify_token(token or "", keys, context.clock.now(), deployment=deployment)
    except ValueError as why:
        raise CallbackTokenInvalid(
            f"invalid callback token: {why}; send the directive's token in the header Authorization: Bearer"
        ) from None
    if job_id is not None and job_id != grant.job_id:
        raise NotYourAttempt("jobId")
    if len(body) > MAX_CALLBACK_BYTES:
        raise BodyTooLarge(
            f"the body is too large: {len(body)} bytes, maximum {MAX_CALLBACK_BYTES}; put large values into a blob"
        )
    attempt = f"{grant.job_id}:{grant.step_id}:{grant.attempt_no}"
    named = f"key:{key}" if key is not None else f"body:{digest(body.decode('utf-8', errors='backslashreplace'))}"
    if kind == "HEARTBEAT" and key is None:
        # each heartbeat is new even if its content repeats: after a lost race it must not count as the one before
        named += f":at:{context.clock.now().isoformat()}"
    result = await apply_reply(
        context,
        orchestrations,
        validate_reply(_reply(kind, grant, body)),
        cause_id=f"callback:{attempt}:{kind}:{digest(named)[:32]}",
        source="callback",
        # without a key, two different heartbeats can have the same body
        maybe_repeated=key is not None,
    )
    step = result.record.step(grant.step_id)
    if step is None or not step.status.in_flight or step.lease_id != grant.lease_id:
        return CallbackResult(result, None, None)
    fresh = grant_of(result.record, step)
    return CallbackResult(result, fresh, sign_token(fresh, keys, deployment=deployment))


def _reply(kind: CallbackKind, grant: Grant, body: bytes) -> dict[str, Any]:
    try:
        given = parse_json(body) if body.strip() else {}
    except ValueError as wrong:
        raise ReplyUnfit("NOT_JSON", str(wrong)) from None
    if not isinstance(given, Mapping):
        raise ReplyUnfit("REPLY_INVALID", f"the body must be a JSON object, not {type(given).__name__}")
    if given.get("type") not in (None, kind):
        raise ReplyUnfit("REPLY_INVALID", f"type must be {kind} for this URL, or absent")
    own = {
        "jobId": grant.job_id,
        "stepId": grant.step_id,
        "tenant_id": grant.tenant_id,
        "attempt_no": grant.attempt_no,
        "lease_id": grant.lease_id,
    }
    for name, value in own.items():
        stated = given.get(name)
        if stated is not None and not _same(name, stated, value):
            raise NotYourAttempt(name)
    return {**given, **own, "type": kind}


def _same(name: str, stated: Any, value: Any) -> bool:
    if name == "tenant_id" and isinstance(stated, str):
        return normalise(stated) == normalise(str(value))
    return bool(stated == value and type(stated) is type(value))
