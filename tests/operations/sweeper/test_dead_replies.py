import json
from typing import Any

import pytest

from shared.core.jobs.states import JobStatus, StepStatus
from shared.errors import BusUnavailable
from shared.operations.sweeper.dead_replies import drain_replies
from shared.operations.sweeper.report import Action, RepairKind
from shared.operations.sweeper.sweep import sweep
from shared.ports.bus import DeadReply
from tests.jobs import START, reply
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.operations.support import dispatch, submitted

WHY = "MaxDeliveryCountExceeded: could not be consumed after 10 delivery attempts"


def lies(world: World, body: bytes, *, lane: int = 15, number: int = 1, shared: bool = False) -> None:
    dead = DeadReply(
        body=body,
        lane=lane,
        message_id=f"m{number}",
        sequence_number=number,
        delivery_count=10,
        enqueued_at=START,
        reason=WHY,
    )
    world.dead_replies.lying.setdefault(None if shared else lane, []).append(dead)


async def result_lies(world: World, **fields: Any) -> str:
    """Returns a job whose one RESULT was dead-lettered."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    body = reply(await world.job(job_id), "RESULT", **fields)
    lies(world, body.model_dump_json(exclude_none=True).encode())
    return job_id


async def test_a_dead_reply_does_its_work(world: World) -> None:
    """A RESULT from the dead-letter queue changes the job as one from the lane does, and the row has its source."""
    job_id = await result_lies(world)
    swept = await sweep(world.context, world.orchestrations)
    assert (swept.dead_replies, world.dead_replies.lying[15]) == (1, [])
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED
    assert [event.source for event in await world.ledger.events(job_id)][-1] == "dead-letter"
    assert [name for name, _ in world.orchestrations.raised] == ["result:ocr:1"]


async def test_it_comes_before_any_lease_is_touched(world: World) -> None:
    """The sweep that would end the attempt by its lease finds the RESULT first."""
    job_id = await result_lies(world)
    world.clock.advance(10_000)
    await sweep(world.context, world.orchestrations)
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED
    assert "ACK_TIMEOUT" not in [event.type for event in await world.ledger.events(job_id)]


@pytest.mark.parametrize("shared", [False, True])
async def test_what_no_job_takes_is_parked_with_both_reasons(world: World, shared: bool) -> None:
    """Rubbish leaves the dead-letter queue for the rejected table, with why it is unfit and why it was dead.

    One from the queue that the lanes share is parked with its own lane.
    """
    lies(world, b"this is not JSON", lane=3, shared=shared)
    await drain_replies(world.context, world.orchestrations)
    [parked] = world.rejected.quarantined.values()
    assert (parked.reason, parked.lane) == ("NOT_JSON", 3)
    assert parked.detail.endswith(f"(dead-lettered: {WHY})")
    assert world.dead_replies.lying[None if shared else 3] == []


async def test_a_fault_of_ours_does_not_stop_every_sweep(world: World) -> None:
    """A message that trips a bug is parked as FAILED."""
    await result_lies(world)
    with failing(world.ledger, "read", error=ZeroDivisionError("a bug")):
        await drain_replies(world.context, world.orchestrations)
    [parked] = world.rejected.quarantined.values()
    assert (parked.reason, parked.detail.split(" (")[0]) == ("FAILED", "ZeroDivisionError: a bug")


async def test_an_outage_leaves_it_there(world: World) -> None:
    """While the ledger is unavailable a dead reply stays, other lanes continue, and the next sweep handles it."""
    job_id = await result_lies(world)
    lies(world, b"rubbish", lane=3, number=2)
    with failing(world.ledger, "read"):
        drained = await drain_replies(world.context, world.orchestrations)
    assert (drained.replies, drained.unheard, len(world.dead_replies.lying[15])) == (1, {job_id}, 1)
    await drain_replies(world.context, world.orchestrations)
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED


async def test_no_lease_is_touched_on_a_lane_that_could_not_be_drained(world: World) -> None:
    """While the bus is unavailable the sweeper leaves leases unchanged, and checks again at the next sweep."""
    job_id = await result_lies(world)
    world.clock.advance(10_000)
    with failing(world.dead_replies, "drain", error=BusUnavailable):
        swept = await sweep(world.context, world.orchestrations)
    assert swept.undrained == set(range(16))
    assert swept.actions[-1] == Action(job_id, RepairKind.FAILED)
    assert (await world.job(job_id)).steps[0].status is StepStatus.INITIATED
    await sweep(world.context, world.orchestrations)
    assert (await world.job(job_id)).job.status is JobStatus.SUCCEEDED


async def test_a_dry_run_only_counts(world: World) -> None:
    """Race dead-count: a dry run counts the dead replies of all lanes and handles none."""
    job_id = await result_lies(world)
    lies(world, b"rubbish", lane=14, number=2)
    counts = noted(world.dead_replies, "waiting")
    swept = await sweep(world.context, world.orchestrations, dry_run=True)
    assert len(counts) > 1
    assert (swept.dead_replies, len(world.dead_replies.lying[15])) == (2, 1)
    assert (await world.job(job_id)).steps[0].status is StepStatus.INITIATED


async def test_a_stale_dead_reply_is_a_row_of_its_job(world: World) -> None:
    """A reply that names a job but may not change it is recorded in that job, as a reply from the lane is."""
    job_id = await result_lies(world)
    [dead] = world.dead_replies.lying[15]
    lies(world, json.dumps(json.loads(dead.body) | {"lease_id": "another"}).encode(), number=2)
    await drain_replies(world.context, world.orchestrations)
    assert [event.type for event in await world.ledger.events(job_id)][-1] == "REPLY_IGNORED"
    assert world.rejected.quarantined == {}


async def test_a_reply_that_cannot_be_taken_now_holds_up_no_other(world: World) -> None:
    """The replies behind it are handled; the leases of its job alone stay."""
    stuck, free, silent = [
        await submitted(world, request_type="OCR", payload={}, doc_id=name) for name in ("stuck", "free", "silent")
    ]
    for number, job_id in enumerate((stuck, free, silent)):
        await dispatch(world, job_id)
        if job_id != silent:
            body = reply(await world.job(job_id), "RESULT")
            lies(world, body.model_dump_json(exclude_none=True).encode(), number=number)
    world.clock.advance(10_000)
    for instance in (stuck, free, silent):
        await world.orchestrations.start(instance, {})
    with failing(world.ledger, "commit", only=lambda before, *_: before.record.job.job_id == stuck):
        swept = await sweep(world.context, world.orchestrations)
    assert (swept.dead_replies, swept.undrained, swept.unheard) == (1, set(), {stuck})
    assert (await world.job(free)).job.status is JobStatus.SUCCEEDED
    assert (await world.job(silent)).steps[0].status is StepStatus.FAILED_RETRY
    assert Action(stuck, RepairKind.FAILED) in swept.actions
    await sweep(world.context, world.orchestrations)
    assert (await world.job(stuck)).job.status is JobStatus.SUCCEEDED
