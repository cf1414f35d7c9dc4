import json
from datetime import timedelta

import pytest

from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.verdict import VerdictKind
from shared.operations.jobs.control_job import control_job
from tests.jobs import START, reply
from tests.operations.conftest import World
from tests.operations.support import arrives, dispatch, service_sends, settle, submitted


async def test_dispatch_records_then_publishes(world: World) -> None:
    """SENT with the ACK deadline; the directive carries the attempt, its lease and its workspace."""
    job_id = await submitted(world)
    verdict = await dispatch(world, job_id)
    assert (verdict.kind, verdict.attempt_no) == (VerdictKind.SENT, 1)
    assert (verdict.until - world.clock.now()).total_seconds() == 30
    [directive] = world.publisher.sent
    step = (await world.job(job_id)).steps[0]
    assert (directive.lease_id, directive.lane) == (step.lease_id, 15)
    assert directive.workspace_ref.uri.endswith(f"/workspace/lucius/tenant_a/{job_id}/OCR/1/")


async def test_a_dispatch_that_runs_twice_sends_the_same_message(world: World) -> None:
    """A repeated activity publishes the same attempt under the same message id."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    assert (await dispatch(world, job_id)).kind is VerdictKind.SENT
    assert world.publisher.message_ids == [f"{job_id}:ocr:1"] * 2
    assert (await world.job(job_id)).job.attempts_total == 1


async def test_a_foreign_instance_is_fenced_off(world: World) -> None:
    """Only the instance that JOB names may dispatch."""
    job_id = await submitted(world)
    assert (await dispatch(world, job_id, instance_id="another")).kind is VerdictKind.END
    assert world.publisher.sent == []


async def test_a_publish_fault_is_a_verdict(world: World) -> None:
    """PUBLISH_FAILED until the backoff is over; then the same attempt is sent with a new ACK timeout."""
    job_id = await submitted(world)
    world.publisher.failing = True
    verdict = await dispatch(world, job_id)
    assert verdict.kind is VerdictKind.PUBLISH_FAILED
    world.publisher.failing = False
    world.clock.advance((verdict.until - world.clock.now()).total_seconds())
    verdict = await dispatch(world, job_id)
    assert (verdict.kind, verdict.attempt_no) == (VerdictKind.SENT, 1)
    assert (verdict.until - world.clock.now()).total_seconds() == 30
    assert (await world.job(job_id)).job.attempts_total == 1


async def test_replies_move_the_ledger_and_wake_the_orchestration(world: World) -> None:
    """The event of an ACK has the lease, that of a RESULT the next verdict; the last is END and closes the index."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)
    await service_sends(world, job_id, "RESULT", 2)
    assert [name for name, _ in world.orchestrations.raised] == ["ack:ocr:1", "result:ocr:1"]
    assert world.orchestrations.raised[1][1] == {"next": "END"}
    job = (await world.job(job_id)).job
    assert job.status is JobStatus.SUCCEEDED
    claim = await world.index.read_claim("tenant_a", job.idempotency_hash)
    assert claim is not None
    assert claim.expires_at is not None


async def test_a_redelivered_reply_is_raised_again_and_written_once(world: World) -> None:
    """Killed between the commit and the event: the redelivery raises the event and adds no EVENT row."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)
    await service_sends(world, job_id, "RESULT", 2)
    before = await world.job(job_id)
    await service_sends(world, job_id, "RESULT", 2)
    assert [name for name, _ in world.orchestrations.raised] == ["ack:ocr:1", "result:ocr:1", "result:ocr:1"]
    assert await world.job(job_id) == before


async def test_a_duplicate_reply_is_recorded_and_wakes_nobody(world: World) -> None:
    """The same RESULT sent twice by the service is an EVENT row and nothing else."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    await service_sends(world, job_id, "RESULT", 2)
    assert len(world.orchestrations.raised) == 1
    assert [event.type for event in await world.ledger.events(job_id)][-1] == "REPLY_IGNORED"


async def test_a_reply_is_its_services_by_the_lease_alone(world: World) -> None:
    """The directive alone brought the lease: without it, or with that of another attempt, the sender is not known."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1, lease_id="0" * 32)
    await service_sends(world, job_id, "ACK", 2, attempt_no=2)
    await service_sends(world, job_id, "ACK", 3)
    await service_sends(world, job_id, "ACK", 4)
    events = (await world.ledger.events(job_id))[-4:]
    assert [(event.type, event.reason, event.actor) for event in events] == [
        ("REPLY_IGNORED", "STALE_ATTEMPT", "service"),
        ("REPLY_IGNORED", "STALE_ATTEMPT", "service"),
        ("ACK", None, "service:ocr"),
        ("REPLY_IGNORED", "DUPLICATE", "service:ocr"),
    ]


async def test_heartbeats_wake_nobody(world: World) -> None:
    """A heartbeat moves the lease in the ledger and the orchestration sleeps on."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)
    world.clock.advance(500)
    await service_sends(world, job_id, "HEARTBEAT", 2)
    assert [name for name, _ in world.orchestrations.raised] == ["ack:ocr:1"]
    world.clock.advance(500)
    verdict = await settle(world, job_id)
    assert (verdict.kind, (verdict.until - world.clock.now()).total_seconds()) == (VerdictKind.AWAIT_RESULT, 400)


async def test_messages_that_no_job_can_take_are_parked(world: World) -> None:
    """Bad JSON, a wrong form and an unknown job become rejected messages, each once after any number of deliveries."""
    for _ in range(2):
        await arrives(world, b"{", 1)
        await arrives(world, b'{"type": "ACK"}', 2)
        body = {"type": "ACK", "jobId": "job_x", "stepId": "ocr", "tenant_id": "t", "attempt_no": 1, "lease_id": "l"}
        await arrives(world, json.dumps(body).encode(), 3)
    assert [message.reason for message in world.rejected.quarantined.values()] == [
        "NOT_JSON",
        "REPLY_INVALID",
        "UNKNOWN_JOB",
    ]


async def test_legacy_replies_are_understood(world: World) -> None:
    """The legacy forms `status=ACKED` and `status=FAILED` with a failure class."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    step = (await world.job(job_id)).steps[0]
    legacy = {
        "jobId": job_id,
        "stepId": "ocr",
        "tenant_id": "tenant_a",
        "attempt_no": 1,
        "lease_id": step.lease_id,
        "timestamp": "2026-01-27T10:02:00Z",
    }
    await arrives(world, json.dumps(legacy | {"status": "ACKED"}).encode(), 1)
    assert (await world.job(job_id)).steps[0].status is StepStatus.PROCESSING
    failed = legacy | {"status": "FAILED", "failure_class": "NON_RETRYABLE"}
    await arrives(world, json.dumps(failed).encode(), 2)
    assert (await world.job(job_id)).job.status is JobStatus.FAILED_FINAL


async def test_settle_ends_the_attempt_only_when_the_lease_is_over(world: World) -> None:
    """AWAIT_ACK while the lease runs, BACKOFF when it ended, RECORDed again by dispatch alone."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    assert (await settle(world, job_id)).kind is VerdictKind.AWAIT_ACK
    world.clock.advance(30)
    verdict = await settle(world, job_id)
    assert verdict.kind is VerdictKind.BACKOFF
    assert (await dispatch(world, job_id)).kind is VerdictKind.BACKOFF
    world.clock.advance(66)
    verdict = await dispatch(world, job_id)
    assert (verdict.kind, verdict.attempt_no) == (VerdictKind.SENT, 2)


async def test_a_reply_without_an_orchestration_is_kept(world: World) -> None:
    """The durable engine does not know the instance: the ledger has the transition, the message is completed."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.orchestrations.unknown = True
    await service_sends(world, job_id, "ACK", 1)
    assert (await world.job(job_id)).steps[0].status is StepStatus.PROCESSING


async def test_our_own_backlog_uses_up_no_attempt(world: World) -> None:
    """While its directive waits on the bus the attempt waits too, twice as long each time; one EVENT row records it."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.lanes.waiting_directives = [(f"{job_id}:ocr:1", world.clock.now())]
    world.clock.advance(30)
    waits = []
    for _ in range(40):
        verdict = await settle(world, job_id)
        assert verdict.kind is VerdictKind.AWAIT_ACK
        waits.append((verdict.until - world.clock.now()).total_seconds())
        world.clock.advance(waits[-1])
    assert waits == [30, 60, 120, 240, *[300] * 36]
    world.lanes.waiting_directives = []
    assert (await settle(world, job_id)).kind is VerdictKind.BACKOFF
    assert (await world.job(job_id)).steps[0].attempt_no == 1
    history = [event.type for event in await world.ledger.events(job_id)]
    assert history == ["JOB_CREATED", "ATTEMPT_RECORDED", "LANE_BACKLOG", "ACK_TIMEOUT"]


async def test_only_the_jobs_own_time_ends_a_backlog(world: World) -> None:
    """With a queue of any length the job ends with TIME_EXCEEDED, and no attempt was used before."""
    job_id = await submitted(world, request_type="OCR", payload={})
    stored = world.ledger.jobs[job_id]
    capped = stored.record.with_job(deadline_at=world.clock.now() + timedelta(days=3))
    await world.ledger.commit(stored, capped, [])
    await dispatch(world, job_id)
    world.lanes.waiting_directives = [(f"{job_id}:ocr:1", world.clock.now())]
    verdict = await settle(world, job_id)
    while verdict.kind is VerdictKind.AWAIT_ACK:
        world.clock.advance((verdict.until - world.clock.now()).total_seconds())
        verdict = await settle(world, job_id)
    job = (await world.job(job_id)).job
    assert (job.error_code, job.attempts_total, verdict.kind) == ("TIME_EXCEEDED", 1, VerdictKind.END)
    assert world.clock.now() == START + timedelta(days=3)


async def test_a_directive_lives_as_long_as_its_job(world: World) -> None:
    """It may wait behind any number of others: R36."""
    job_id = await submitted(world)
    stored = world.ledger.jobs[job_id]
    capped = stored.record.with_job(deadline_at=world.clock.now() + timedelta(hours=5))
    await world.ledger.commit(stored, capped, [])
    await dispatch(world, job_id)
    assert world.publisher.lives_s == [5 * 3600]


@pytest.mark.parametrize("older", [1, 32, 33])
async def test_a_directive_that_was_taken_is_missed_on_a_busy_lane(world: World, older: int) -> None:
    """Older directives that a service processes precede it.

    With more than a peek shows it may be behind them, unless the last shown one is newer.
    """
    job_id = await submitted(world)
    await dispatch(world, job_id)
    sent_at = world.clock.now()
    lying = [(f"job_x{number}:ocr:1", sent_at - timedelta(minutes=10)) for number in range(older)]
    world.lanes.waiting_directives = lying
    world.clock.advance(30)
    more = older == 33
    assert (await settle(world, job_id)).kind is (VerdictKind.AWAIT_ACK if more else VerdictKind.BACKOFF)
    if more:
        # by more than clocks may differ
        world.lanes.waiting_directives = [*lying[:31], *[("job_y:ocr:1", sent_at + timedelta(seconds=61))] * 2]
        world.clock.advance(30)
        assert (await settle(world, job_id)).kind is VerdictKind.BACKOFF


async def test_that_nothing_waits_only_a_look_after_the_deadline_can_show(world: World) -> None:
    """That something waits, one of some seconds before can: a deep queue shares it."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.clock.advance(31)
    assert (await settle(world, job_id)).kind is VerdictKind.BACKOFF
    assert world.lanes.asked_since == [START + timedelta(seconds=21), START + timedelta(seconds=30)]


@pytest.mark.parametrize(("taken_up", "lag_s", "waits_on"), [(False, 5, True), (True, 5, True), (True, -1, False)])
async def test_replies_from_before_the_lease_ended_explain_a_silence(
    world: World, taken_up: bool, lag_s: int, waits_on: bool
) -> None:
    """A reply lane that lags by some seconds for ever explains no dead attempt for ever."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    if taken_up:
        await service_sends(world, job_id, "ACK", 1)
    lease_ends = (await world.job(job_id)).steps[0].lease_expires_at
    assert lease_ends is not None
    world.clock.advance((lease_ends - world.clock.now()).total_seconds())
    world.lanes.waiting_replies = [("r1", lease_ends - timedelta(seconds=lag_s))]
    waiting = (VerdictKind.AWAIT_RESULT if taken_up else VerdictKind.AWAIT_ACK) if waits_on else VerdictKind.BACKOFF
    assert (await settle(world, job_id)).kind is waiting
    world.clock.advance(300)
    world.lanes.waiting_replies = [("r2", world.clock.now() - timedelta(seconds=5))]
    assert (await settle(world, job_id)).kind is VerdictKind.BACKOFF


@pytest.mark.parametrize("control", [ControlKind.CANCEL, ControlKind.PAUSE])
async def test_a_cancelled_job_does_not_wait_to_send_its_directive(world: World, control: ControlKind) -> None:
    """The bus took nothing: CANCELLED at once, also out of PAUSING, and nothing is sent when the bus is back."""
    job_id = await submitted(world)
    world.publisher.failing = True
    await dispatch(world, job_id)
    world.publisher.failing = False
    for kind in dict.fromkeys((control, ControlKind.CANCEL)):
        origin = Origin(cause_id=kind, actor="a", source="http")
        await control_job(world.context, world.orchestrations, job_id, kind, origin)
    assert (await world.job(job_id)).job.status is JobStatus.CANCELLED
    world.clock.advance(60)
    assert (await dispatch(world, job_id)).kind is VerdictKind.END
    assert world.publisher.sent == []


async def test_a_bus_that_cannot_be_asked_costs_no_attempt(world: World) -> None:
    """The messages on the lane are unknown: the attempt continues to wait."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.lanes.away = True
    for _ in range(50):
        world.clock.advance(300)
        assert (await settle(world, job_id)).kind is VerdictKind.AWAIT_ACK
    assert len(await world.ledger.events(job_id)) == 3


async def test_a_waiting_attempt_is_adopted_and_not_sent_again(world: World) -> None:
    """A new orchestration finds the directive on the bus: the bus would drop a second one for half an hour only."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.lanes.waiting_directives = [(f"{job_id}:ocr:1", world.clock.now())]
    world.clock.advance(30)
    await settle(world, job_id)
    assert (await dispatch(world, job_id)).kind is VerdictKind.AWAIT_ACK
    assert len(world.publisher.sent) == 1


async def test_a_directive_that_was_never_sent_is_nobodys_silence(world: World) -> None:
    """In a publish backoff the next try is pending, after any delay: settle sends nothing and fails nothing."""
    job_id = await submitted(world)
    world.publisher.failing = True
    await dispatch(world, job_id)
    world.publisher.failing = False
    world.clock.advance(3600)
    verdict = await settle(world, job_id)
    assert (verdict.kind, verdict.until) == (VerdictKind.BACKOFF, world.clock.now())
    assert (await dispatch(world, job_id)).kind is VerdictKind.SENT
    assert (await world.job(job_id)).job.attempts_total == 1


async def test_a_result_that_waits_on_the_lane_keeps_its_lease(world: World) -> None:
    """A lease that is over while replies wait gets one more timeout; the RESULT then counts."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)
    world.clock.advance(900)
    world.lanes.waiting_replies = [("r1", world.clock.now() - timedelta(seconds=5))]
    assert (await settle(world, job_id)).kind is VerdictKind.AWAIT_RESULT
    await service_sends(world, job_id, "RESULT", 2)
    assert (await world.job(job_id)).job.attempts_total == 1


async def test_a_job_that_ends_while_paused_wakes_its_parked_orchestration(world: World) -> None:
    """A revived RESULT ends the paused job: its orchestration, parked on resume alone, gets its event."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    origin = Origin(cause_id="pause", actor="a", source="http")
    await control_job(world.context, world.orchestrations, job_id, ControlKind.PAUSE, origin)
    world.clock.advance(30)
    assert (await settle(world, job_id)).kind is VerdictKind.PARK
    await service_sends(world, job_id, "RESULT", 1)
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED
    assert "resume:1" in [name for name, _ in world.orchestrations.raised]


async def test_a_second_delivery_is_no_news(world: World) -> None:
    """A heartbeat that was applied before does not restart the lease when it is delivered again, much later."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    beat = reply(await world.job(job_id), "HEARTBEAT").model_dump_json(exclude_none=True).encode()
    await arrives(world, beat, 1)
    before = await world.job(job_id)
    world.clock.advance(500)
    await arrives(world, beat, 1, delivery_count=2)
    assert await world.job(job_id) == before


async def test_new_progress_is_written_by_the_setting(world: World) -> None:
    """R6: every thirty seconds of the default, long before the lease needs it."""
    assert world.context.settings.progress_s == 30
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)
    for number, seconds in enumerate((10, 10, 10, 29, 1), start=2):
        world.clock.advance(seconds)
        await service_sends(world, job_id, "HEARTBEAT", number, progress=number)
    assert (await world.job(job_id)).steps[0].progress == 6
    beats = [event for event in await world.ledger.events(job_id) if event.type == "HEARTBEAT"]
    assert [event.data["changes"]["steps"]["ocr"]["progress"] for event in beats] == [4, 6]
