import json
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.contracts.messages import Callbacks
from shared.core.jobs.directive import encode_directive
from shared.core.jobs.states import JobStatus, StepStatus
from shared.errors import Conflict, LuciusError, ReplyUnfit
from shared.operations.jobs.replies.callbacks import MAX_CALLBACK_BYTES, CallbackKind, CallbackResult, receive_callback
from shared.refusals import BodyTooLarge, CallbackTokenInvalid, NotYourAttempt
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import dispatch, settle, submitted

KEYS = (("k1", b"1" * 32),)


@pytest.fixture
def calling(world: World) -> World:
    """A world with callbacks on."""
    settings = replace(world.context.settings, callback_keys=KEYS, public_url="https://lucius.example/api")
    return replace(world, context=replace(world.context, settings=settings))


async def granted(world: World, **changes: Any) -> tuple[str, Callbacks]:
    """Returns a job of one step whose directive is sent, and the grant in the directive."""
    job_id = await submitted(world, **({"request_type": "OCR", "payload": {}} | changes))
    await dispatch(world, job_id)
    callbacks = world.publisher.sent[-1].callback_urls
    assert callbacks is not None
    return job_id, callbacks


async def call(
    world: World, kind: CallbackKind, token: str | None, body: Any = None, key: str | None = None
) -> CallbackResult:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return await receive_callback(world.context, world.orchestrations, kind, token=token, body=raw, key=key)


RESULT = {"status": "SUCCEEDED", "result_ref": {"uri": "https://account.blob.core.windows.net/x.json"}}


async def test_a_job_runs_by_callbacks_alone(calling: World) -> None:
    """ACK, heartbeat and RESULT with nothing but the token: the same moves and the same events to the orchestration."""
    job_id, callbacks = await granted(calling)
    assert callbacks.result == "https://lucius.example/api/v1/callbacks/result"
    assert (await call(calling, "ACK", callbacks.token)).result.outcome == "APPLIED"
    calling.clock.advance(400)
    assert (await call(calling, "HEARTBEAT", callbacks.token, {"progress": {"page": 1}})).result.applied
    done = await call(calling, "RESULT", callbacks.token, RESULT)
    assert (done.result.record.job.status, done.token) == (JobStatus.SUCCEEDED, None)
    assert [name for name, _ in calling.orchestrations.raised] == ["ack:ocr:1", "result:ocr:1"]
    events = await calling.ledger.events(job_id)
    assert {(event.source, event.actor) for event in events[2:]} == {("callback", "service:ocr")}


async def test_the_path_of_a_run_and_its_token_are_of_one_job(calling: World) -> None:
    """`POST /v1/runs/{jobId}/heartbeat` with the token of another job changes nothing."""
    job_id, callbacks = await granted(calling)
    await call(calling, "ACK", callbacks.token)
    calling.clock.advance(400)
    before = await calling.job(job_id)
    given = {"token": callbacks.token, "body": b"", "key": None}
    with pytest.raises(NotYourAttempt):
        await receive_callback(calling.context, calling.orchestrations, "HEARTBEAT", job_id="job_9", **given)
    assert await calling.job(job_id) == before
    beaten = await receive_callback(calling.context, calling.orchestrations, "HEARTBEAT", job_id=job_id, **given)
    assert beaten.result.applied


async def test_directives_carry_no_grant_where_callbacks_are_off(world: World, calling: World) -> None:
    """Without keys or without an address of the app, the message has no grant."""
    only_keys = replace(calling.context.settings, public_url=None)
    for one in (world, replace(calling, context=replace(calling.context, settings=only_keys))):
        job_id = await submitted(one, request_type="OCR", payload={}, idempotency_key=str(id(one)))
        await dispatch(one, job_id)
        assert b"callback" not in encode_directive(one.publisher.sent[-1])
    job_id, _ = await granted(calling)
    assert json.loads(encode_directive(calling.publisher.sent[-1]))["callback_urls"]["token"].startswith("lc1.k1.")


async def test_a_token_goes_on_as_long_as_the_attempt(calling: World) -> None:
    """Each answer brings a token for the lease as it is then: work longer than the first token's life ends well."""
    _, callbacks = await granted(calling)
    token = first = (await call(calling, "ACK", callbacks.token)).token
    for _ in range(10):
        calling.clock.advance(800)
        token = (await call(calling, "HEARTBEAT", token)).token
    with pytest.raises(CallbackTokenInvalid):
        await call(calling, "HEARTBEAT", first)
    assert (await call(calling, "RESULT", token, RESULT)).result.applied


@pytest.mark.parametrize("token", [None, "", "x", "lc1.k1.e30.AAAA"])
async def test_without_a_good_token_nothing_happens(calling: World, token: str | None) -> None:
    """The callback is refused, and its job is not touched."""
    job_id, _ = await granted(calling)
    before = await calling.job(job_id)
    with pytest.raises(CallbackTokenInvalid):
        await call(calling, "ACK", token)
    assert await calling.job(job_id) == before


async def test_no_keys_no_callbacks(world: World, calling: World) -> None:
    """A token is worth nothing to an app without keys."""
    _, callbacks = await granted(calling)
    with pytest.raises(CallbackTokenInvalid):
        await call(world, "ACK", callbacks.token)


@pytest.mark.parametrize(
    "named", [{"jobId": "job_9"}, {"stepId": "sis"}, {"tenant_id": "b"}, {"attempt_no": 2}, {"attempt_no": True}]
)
async def test_a_token_speaks_for_its_attempt_only(calling: World, named: dict[str, Any]) -> None:
    """A body that names another attempt is refused; one that names its own, in the words of the bus, is taken."""
    job_id, callbacks = await granted(calling)
    with pytest.raises(NotYourAttempt, match=f"{next(iter(named))} differs between the request and the token"):
        await call(calling, "ACK", callbacks.token, named)
    own = {"type": "ACK", "jobId": job_id, "stepId": "ocr", "tenant_id": " TENANT_A", "attempt_no": 1}
    assert (await call(calling, "ACK", callbacks.token, own)).result.applied


@pytest.mark.parametrize(
    ("kind", "body", "error", "reason"),
    [
        ("ACK", b"{", ReplyUnfit, "NOT_JSON"),
        ("ACK", [], ReplyUnfit, "REPLY_INVALID"),
        ("ACK", {"type": "RESULT"}, ReplyUnfit, "REPLY_INVALID"),
        ("RESULT", {}, ReplyUnfit, "REPLY_INVALID"),
        ("RESULT", {"status": "PERFECT"}, ReplyUnfit, "REPLY_INVALID"),
        ("ACK", b" " * MAX_CALLBACK_BYTES + b"{}", BodyTooLarge, None),
    ],
)
async def test_a_bad_body_is_refused_with_its_reason(
    calling: World, kind: CallbackKind, body: Any, error: type[LuciusError], reason: str | None
) -> None:
    """Each is refused with its reason; nothing is parked and nothing moves."""
    job_id, callbacks = await granted(calling)
    before = await calling.job(job_id)
    with pytest.raises(error) as refused:
        await call(calling, kind, callbacks.token, body)
    assert getattr(refused.value, "reason", None) == reason
    assert (await calling.job(job_id), calling.rejected.quarantined) == (before, {})


async def test_the_same_callback_again_changes_nothing(calling: World) -> None:
    """By its body or by its key: APPLIED again, the event is raised again, and no row is added."""
    for key in (None, "call-1"):
        job_id, callbacks = await granted(calling, idempotency_key=f"job of {key}")
        await call(calling, "RESULT", callbacks.token, RESULT, key)
        before = await calling.job(job_id)
        raised = len(calling.orchestrations.raised)
        again = await call(calling, "RESULT", callbacks.token, RESULT, key)
        assert again.result.outcome == "APPLIED"
        assert (await calling.job(job_id), len(calling.orchestrations.raised)) == (before, raised + 1)


async def test_another_result_for_the_same_attempt_is_recorded_only(calling: World) -> None:
    """The first RESULT decides; the second, from bus or callback, is an EVENT row."""
    job_id, callbacks = await granted(calling)
    await call(calling, "RESULT", callbacks.token, RESULT)
    failed = {"status": "FAILED_FINAL", "error": {"code": "X", "message": "y"}}
    assert (await call(calling, "RESULT", callbacks.token, failed)).result.outcome == "IGNORED:JOB_TERMINAL"
    assert (await calling.job(job_id)).job.status is JobStatus.SUCCEEDED


async def test_heartbeats_with_the_same_body_all_count(calling: World) -> None:
    """An empty heartbeat restarts the lease each time it is due."""
    job_id, callbacks = await granted(calling)
    await call(calling, "ACK", callbacks.token)
    leases: list[datetime | None] = []
    for _ in range(3):
        calling.clock.advance(300)
        await call(calling, "HEARTBEAT", callbacks.token)
        leases.append((await calling.job(job_id)).steps[0].lease_expires_at)
    assert len(set(leases)) == 3


async def test_a_heartbeat_that_lost_a_race_still_renews_the_lease(calling: World) -> None:
    """An equal one was committed before, and another commit comes first now: this one is decided again, not found."""
    job_id, callbacks = await granted(calling)
    await call(calling, "ACK", callbacks.token)
    calling.clock.advance(400)
    await call(calling, "HEARTBEAT", callbacks.token)
    calling.clock.advance(400)
    failing(calling.ledger, "commit", error=Conflict, at=[1])
    await call(calling, "HEARTBEAT", callbacks.token)
    lease = (await calling.job(job_id)).steps[0].lease_expires_at
    assert lease == calling.clock.now() + timedelta(seconds=900)


async def test_a_late_callback_is_recorded(calling: World) -> None:
    """The attempt ended and the next one is out: the old token's word is an EVENT row, and gets no new token."""
    job_id, callbacks = await granted(calling)
    calling.clock.advance(30)
    await settle(calling, job_id)
    calling.clock.advance(70)
    await dispatch(calling, job_id)
    late = await call(calling, "ACK", callbacks.token)
    assert (late.result.outcome, late.token) == ("IGNORED:STALE_ATTEMPT", None)
    # its token proves its tenant, after the attempt too
    assert (await calling.ledger.events(job_id))[-1].actor == "service:ocr"
    assert (await calling.job(job_id)).steps[0].status is StepStatus.INITIATED


async def test_a_job_that_is_gone_is_not_found(calling: World) -> None:
    """The token is good, its job was archived."""
    job_id, callbacks = await granted(calling)
    calling.ledger.take(job_id)
    with pytest.raises(ReplyUnfit) as refused:
        await call(calling, "ACK", callbacks.token)
    assert refused.value.reason == "UNKNOWN_JOB"
