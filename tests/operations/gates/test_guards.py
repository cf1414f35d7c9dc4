"""Guards of services and lanes, at dispatch: by a hold, and by the bus's own count (R56)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.api.explain import explain
from shared.api.job import step_response
from shared.api.receipt import receipt
from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.as_of import rebuild_as_of
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.verdict import VerdictKind
from shared.errors import BusUnavailable, CountsForbidden
from shared.operations.jobs.read_history import read_history
from shared.operations.quotas import quotas
from shared.operations.quotas.quotas import By
from shared.refusals import QuotaInvalid
from tests.contexts import changed
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import (
    cancelled,
    control,
    create_numbered,
    dispatch,
    limited,
    service_sends,
    settle,
    submitted,
    swept,
)

SERVICE = Gate.over_all(GateKind.SERVICE, "ocr")
LANE = Gate.over_all(GateKind.LANE, "15")
NEXT = Gate.over_all(GateKind.SERVICE, "embedding")
OPERATOR = By(actor="operator", reason="it is slow")


@dataclass
class FixedCounts:
    """The bus's counts, as a test sets them."""

    in_flight_now: int = 0
    fault: BusUnavailable | None = None
    asked: list[tuple[int, str | None]] = field(default_factory=list)

    async def in_flight(self, lane: int, service: str | None) -> int:
        self.asked.append((lane, service))
        if self.fault is not None:
            raise self.fault
        return self.in_flight_now


def counted(world: World) -> tuple[World, FixedCounts]:
    counts = FixedCounts()
    return replace(world, context=changed(world.context, counts=counts)), counts


async def ruled(world: World, gate: Gate = SERVICE, max_active: int | None = 2) -> None:
    patch = {"max_active": max_active}
    await quotas.set_rule(world.context, world.orchestrations, gate, patch, OPERATOR, rule_seq=None)
    if isinstance(world.context.bus.counts, FixedCounts):
        world.context.bus.counts.asked.clear()


async def held(world: World, gate: Gate = SERVICE, **options: Any) -> None:
    await quotas.hold(world.context, world.orchestrations, gate, OPERATOR, **{"until": None, **options})


async def resumed(world: World, gate: Gate = SERVICE) -> None:
    await quotas.resume(world.context, world.orchestrations, gate, OPERATOR)


async def types(world: World, job_id: str) -> list[str]:
    return [event.type for event in await world.ledger.events(job_id)]


async def test_without_a_number_the_bus_is_not_asked(world: World) -> None:
    """Without a rule, with a hold of another service or a rule of another lane, a dispatch counts no messages."""
    world, counts = counted(world)
    assert (await dispatch(world, await submitted(world))).kind is VerdictKind.SENT
    await ruled(world, Gate.over_all(GateKind.SERVICE, "sis"))
    await ruled(world, Gate.over_all(GateKind.LANE, "3"))
    await held(world, Gate.over_all(GateKind.SERVICE, "embedding"))
    assert (await dispatch(world, await submitted(world, doc_id="another"))).kind is VerdictKind.SENT
    assert counts.asked == []


@pytest.mark.parametrize("gate", [SERVICE, LANE])
async def test_a_held_guard_keeps_the_next_attempt_back(world: World, gate: Gate) -> None:
    """The step is GATED, for half a minute and then longer, up to five: no attempt, one event, until the hold ends."""
    await held(world, gate)
    job_id = await submitted(world)
    waits = []
    for _ in range(7):
        verdict = await dispatch(world, job_id)
        assert (verdict.kind, verdict.attempt_no) == (VerdictKind.GATED, 0)
        waits.append((verdict.until - world.clock.now()).total_seconds())
        world.clock.advance(waits[-1])
    for wait, expected in zip(waits, [30, 60, 120, 240, 300, 300, 300], strict=True):
        assert expected <= wait <= expected * 1.35
    assert max(waits) <= 330
    record = await world.job(job_id)
    assert (record.job.status, record.steps[0].status) == (JobStatus.QUEUED, StepStatus.PENDING)
    shown = step_response(record.steps[0])
    assert shown.gated_by == gate.display_name
    assert shown.gated_since is not None
    assert shown.gated_until is not None
    assert await types(world, job_id) == ["JOB_CREATED", "GATED"]
    created = step_response(rebuild_as_of(record, await world.ledger.events(job_id), 1).steps[0])
    assert (created.gated_since, created.gated_by, created.gated_until) == (None, None, None)
    assert (await world.ledger.events(job_id))[-1].reason == f"dispatch limit {gate.display_name} is held"
    assert world.publisher.sent == []
    await resumed(world, gate)
    assert (await dispatch(world, job_id)).kind is VerdictKind.SENT
    step = (await world.job(job_id)).steps[0]
    assert (step.attempt_no, step.gated_since, step.gated_until, step.gated_by) == (1, None, None, None)


async def test_a_hold_with_an_end_ends_by_itself(world: World) -> None:
    await held(world, until=world.clock.now() + timedelta(minutes=1))
    job_id = await submitted(world)
    assert (await dispatch(world, job_id)).kind is VerdictKind.GATED
    world.clock.advance(61)
    assert (await dispatch(world, job_id)).kind is VerdictKind.SENT


async def test_a_dispatch_that_runs_twice_waits_for_the_same_instant(world: World) -> None:
    """A repeated activity, or one before its time: the same verdict, and nothing is written."""
    await held(world)
    job_id = await submitted(world)
    first = await dispatch(world, job_id)
    before = await world.job(job_id)
    world.clock.advance(5)
    assert await dispatch(world, job_id) == first
    assert await world.job(job_id) == before


async def test_a_guard_is_shut_by_the_bus_s_count(world: World) -> None:
    """At its number it delays attempts; a process uses a count for ten seconds, plus the attempts sent since."""
    world, counts = counted(world)
    await ruled(world, max_active=2)
    jobs = [(await create_numbered(world, number)).stored.record.job.job_id for number in range(3)]
    counts.in_flight_now = 1
    assert (await dispatch(world, jobs[0])).kind is VerdictKind.SENT
    # the bus may not have counted the last sent directives: the process has
    assert (await dispatch(world, jobs[1])).kind is VerdictKind.GATED
    assert (await world.ledger.events(jobs[1]))[-1].reason == "dispatch limit service:ocr is reached"
    assert counts.asked == [(15, "ocr")]
    world.clock.advance(40)
    assert (await dispatch(world, jobs[1])).kind is VerdictKind.SENT
    assert counts.asked == [(15, "ocr")] * 2
    counts.in_flight_now = 2
    world.clock.advance(11)
    assert (await dispatch(world, jobs[2])).kind is VerdictKind.GATED


async def test_a_lane_counts_every_service(world: World) -> None:
    """Its guard counts all messages of the lane, beside those of the service."""
    world, counts = counted(world)
    await ruled(world, LANE, 5)
    await ruled(world, SERVICE, 9)
    counts.in_flight_now = 5
    job_id = await submitted(world)
    assert (await dispatch(world, job_id)).kind is VerdictKind.GATED
    assert (await world.job(job_id)).steps[0].gated_by == "lane:15"
    assert sorted(counts.asked, key=str) == [(15, "ocr"), (15, None)]


@pytest.mark.parametrize("fault", [BusUnavailable("away"), CountsForbidden()])
async def test_a_bus_that_cannot_count_shuts_no_guard(world: World, fault: BusUnavailable) -> None:
    """The directive is sent, since a standstill would be worse. The count is not requested again at each dispatch."""
    world, counts = counted(world)
    await ruled(world, max_active=1)
    counts.fault = fault
    for number in range(3):
        job_id = (await create_numbered(world, number)).stored.record.job.job_id
        assert (await dispatch(world, job_id)).kind is VerdictKind.SENT
    assert len(counts.asked) == 1
    await held(world)
    job_id = (await create_numbered(world, 4)).stored.record.job.job_id
    assert (await dispatch(world, job_id)).kind is VerdictKind.GATED


async def test_the_next_attempt_passes_the_guard_too(world: World) -> None:
    """The attempt after a failed one waits too, with its own event; a late RESULT of the failed one ends the wait."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    await held(world)
    world.clock.advance(30)
    await settle(world, job_id)
    step = (await world.job(job_id)).steps[0]
    assert step.due_at is not None
    world.clock.advance((step.due_at - world.clock.now()).total_seconds())
    verdict = await dispatch(world, job_id)
    assert (verdict.kind, verdict.attempt_no) == (VerdictKind.GATED, 1)
    assert (await types(world, job_id))[-1] == "GATED"
    await service_sends(world, job_id, "RESULT", 1)
    record = await world.job(job_id)
    assert (record.job.status, record.steps[0].gated_until) == (JobStatus.SUCCEEDED, None)


async def unread(world: World) -> None:
    failing(world.context.process.gate_directory, "read")


@pytest.mark.parametrize(
    ("guard", "kind"),
    [
        (lambda world: held(world, NEXT), "GATED"),
        (lambda world: ruled(world, NEXT), "SENT"),
        (unread, "SENT"),
    ],
    ids=["held", "a number", "unread"],
)
async def test_a_result_records_no_attempt_that_a_guard_may_keep_back(
    world: World, guard: Callable[[World], Awaitable[None]], kind: str
) -> None:
    """With a hold, a number, or an unreadable directory, the guard is evaluated before the attempt is recorded."""
    world, counts = counted(world)
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await guard(world)
    await service_sends(world, job_id, "RESULT", 1)
    step = (await world.job(job_id)).steps[1]
    assert (step.status, step.attempt_no, counts.asked) == (StepStatus.PENDING, 0, [])
    assert (await dispatch(world, job_id, "embedding")).kind == kind


async def test_a_guard_that_is_shut_after_the_record_stops_nothing(world: World) -> None:
    """The attempt that a RESULT recorded is sent."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    await held(world, NEXT)
    assert (await dispatch(world, job_id, "embedding")).kind is VerdictKind.SENT


async def test_a_cancel_ends_the_wait(world: World) -> None:
    """At once, and the orchestration receives the event for which it waits."""
    await held(world)
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await cancelled(world, job_id)
    assert (await world.job(job_id)).job.status is JobStatus.CANCELLED
    assert ("result:ocr:1", {"next": "END"}) in world.orchestrations.raised
    assert (await dispatch(world, job_id)).kind is VerdictKind.END


async def test_a_pause_counts_during_the_wait(world: World) -> None:
    """PARK at the next evaluation; after the resume the guard is evaluated again, without a second event."""
    await held(world)
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await control(world, job_id, ControlKind.PAUSE)
    assert (await world.job(job_id)).job.status is JobStatus.PAUSED
    assert (await dispatch(world, job_id)).kind is VerdictKind.PARK
    world.clock.advance(1000)
    await control(world, job_id, ControlKind.RESUME)
    assert (await dispatch(world, job_id)).kind is VerdictKind.GATED
    assert (await types(world, job_id)).count("GATED") == 1


async def test_the_total_time_ends_the_wait(world: World) -> None:
    """The wait is at most the job's total time; then the job fails, with the guard open or shut."""
    await held(world)
    job_id = await submitted(limited(world, total_timeout_s=100.0))
    await dispatch(world, job_id)
    world.clock.advance(80)
    verdict = await dispatch(world, job_id)
    assert (verdict.until - world.clock.now()).total_seconds() == 20
    world.clock.advance(20)
    assert (await dispatch(world, job_id)).kind is VerdictKind.END
    job = (await world.job(job_id)).job
    assert (job.status, job.error_code) == (JobStatus.FAILED_FINAL, "TIME_EXCEEDED")


async def test_the_sweeper_leaves_a_wait_alone_until_it_is_over(world: World) -> None:
    """Hours behind a guard are not stuck; a wait whose timer was lost is: the orchestration is sent a look."""
    await held(world)
    job_id = await submitted(world)
    for _ in range(30):
        verdict = await dispatch(world, job_id)
        world.clock.advance((verdict.until - world.clock.now()).total_seconds())
        assert await swept(world) == []
    world.clock.advance(61)
    assert await swept(world) == ["raise look:1"]
    # the next action of its orchestration
    assert (await settle(world, job_id, 0)).kind is VerdictKind.BACKOFF
    assert (await dispatch(world, job_id)).kind is VerdictKind.GATED
    assert (await types(world, job_id)).count("GATED") == 1
    world.clock.advance(120)
    assert await swept(world) == []


async def test_explain_names_the_guard(world: World) -> None:
    """The answer has the guard, the start of the wait, and the next evaluation; the receipt has the time."""
    await held(world)
    job_id = await submitted(world)
    verdict = await dispatch(world, job_id)
    record, events = await read_history(world.context, job_id)
    explained = explain(record, world.clock.now(), events[-1])
    assert (explained.gate, explained.stopped_by, explained.until) == (
        "GATED",
        "service:ocr",
        verdict.until.replace(microsecond=0),
    )
    assert "the dispatch limit service:ocr" in explained.text
    assert "checked again at" in explained.text
    world.clock.advance(45)
    await resumed(world)
    world.clock.advance(10)
    await dispatch(world, job_id)
    record, events = await read_history(world.context, job_id)
    assert receipt(record, events, world.clock.now()).total.gated_s == 55
    assert explain(record, world.clock.now(), events[-1]).gate is None


@pytest.mark.parametrize(
    ("patch", "member"),
    [({"max_per_hour": 5}, "max_per_hour"), ({"max_active": 2, "max_staged": 1}, "max_staged")],
)
async def test_a_guard_has_one_number(world: World, patch: dict[str, int | None], member: str) -> None:
    """The others mean nothing there."""
    world, _ = counted(world)
    with pytest.raises(QuotaInvalid) as refused:
        await quotas.set_rule(world.context, world.orchestrations, SERVICE, patch, OPERATOR, rule_seq=None)
    assert [path for path, _ in refused.value.errors] == [member]
    with pytest.raises(QuotaInvalid):
        await quotas.throttle(world.context, world.orchestrations, SERVICE, OPERATOR, max_per_hour=5, until=None)


async def test_without_the_right_to_count_a_number_is_refused(world: World) -> None:
    """The error names the missing right; removing the number, and a hold, need no right."""
    world, counts = counted(world)
    await ruled(world)
    counts.fault = CountsForbidden()
    with pytest.raises(QuotaInvalid) as refused:
        await quotas.set_rule(world.context, world.orchestrations, SERVICE, {"max_active": 3}, OPERATOR, rule_seq=None)
    [(path, why)] = refused.value.errors
    assert (path, "targetBasedScaling" in why) == ("max_active", True)
    with pytest.raises(QuotaInvalid):
        await quotas.preview_rule(world.context, SERVICE, {"max_active": 3}, rule_seq=None)
    counts.fault = BusUnavailable("away")
    with pytest.raises(BusUnavailable):
        await ruled(world, max_active=3)
    await ruled(world, max_active=None)
    await held(world)
