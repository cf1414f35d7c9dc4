import json
from datetime import date
from typing import Any

import pytest

from shared.core.jobs.states import StepStatus
from shared.errors import LedgerRefused
from shared.operations.jobs.rejected_messages import list_rejected, read_rejected, redrive_rejected, what_if
from shared.operations.sweeper.sweep import sweep
from shared.refusals import RejectedNotFound, StillNotApplicable
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import early, parked


def ack(job_id: str, lease_id: str) -> bytes:
    body = {"type": "ACK", "jobId": job_id, "stepId": "ocr", "tenant_id": "tenant_a", "attempt_no": 1}
    return json.dumps(body | {"lease_id": lease_id}).encode()


async def redrive(world: World, id_: str) -> Any:
    return await redrive_rejected(world.context, world.orchestrations, id_)


async def test_a_message_that_a_job_can_take_by_now_is_taken(world: World) -> None:
    """The step changes, the event is raised, and the row has the time and the outcome."""
    job_id, id_ = await early(world)
    assert await what_if(world.context, await read_rejected(world.context, id_)) == ("MOVED", None)
    message = await redrive(world, id_)
    assert (message.redriven_at, message.redriven_outcome) == (START, "APPLIED")
    assert (await world.job(job_id)).steps[0].status is StepStatus.PROCESSING
    assert [name for name, _ in world.orchestrations.raised] == ["ack:ocr:1"]


async def test_a_redrive_again_changes_nothing(world: World) -> None:
    """The second call answers the first one's mark and touches neither ledger nor orchestration."""
    job_id, id_ = await early(world)
    first = await redrive(world, id_)
    before = await world.job(job_id)
    world.clock.advance(60)
    assert await redrive(world, id_) == first
    assert (await world.job(job_id), len(world.orchestrations.raised)) == (before, 1)


async def test_killed_before_the_mark_the_move_is_not_made_twice(world: World) -> None:
    """The next call finds the transition by its cause, raises the event again, and marks the message."""
    job_id, id_ = await early(world)
    with failing(world.rejected, "mark", error=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        await redrive(world, id_)
    before = await world.job(job_id)
    assert (await redrive(world, id_)).redriven_outcome == "APPLIED"
    assert await world.job(job_id) == before


async def test_a_late_message_is_recorded_with_its_job(world: World) -> None:
    """Known by now but stale: an EVENT row of the job, and the mark has that outcome, also for a recorded reply."""
    job_id, _ = await early(world)
    with world.ledger.without(job_id):
        id_ = await parked(world, ack(job_id, "another-lease"), 2)
    assert (await redrive(world, id_)).redriven_outcome == "IGNORED:STALE_ATTEMPT"
    assert (await world.ledger.events(job_id))[-1].type == "REPLY_IGNORED"
    before = await world.job(job_id)
    world.rejected.unmark(id_)
    assert (await redrive(world, id_)).redriven_outcome == "IGNORED:STALE_ATTEMPT"
    assert await world.job(job_id) == before


@pytest.mark.parametrize(
    ("body", "reason"), [(b"{", "NOT_JSON"), (b"\xff{}", "NOT_JSON"), (b"{}", "REPLY_INVALID"), (None, "UNKNOWN_JOB")]
)
async def test_what_no_job_can_take_stays(world: World, body: bytes | None, reason: str) -> None:
    """Refused with the reason; the row is not marked."""
    id_ = await parked(world, ack("job_none", "lease") if body is None else body)
    with pytest.raises(StillNotApplicable) as refused:
        await redrive(world, id_)
    assert refused.value.members == {"reason": reason}
    message = await read_rejected(world.context, id_)
    assert message.redriven_at is None
    assert (await what_if(world.context, message))[0] == "REJECTED"


@pytest.mark.parametrize("id_", ["", "x", "rej_1_2", "rej_9999999999999_" + "0" * 24, "rej_0000000000001_" + "0" * 24])
async def test_an_unknown_message_is_not_found(world: World, id_: str) -> None:
    """For any form of the id."""
    with pytest.raises(RejectedNotFound):
        await redrive(world, id_)


async def test_lists_walk_back_from_today(world: World) -> None:
    """Newest first over the days, page by page without a gap; a date shows that day alone."""
    ids = [await parked(world, b"{", days, days=-days) for days in (0, 1, 40)]
    seen: list[str] = []
    after: str | None = None
    while True:
        page, after = await list_rejected(world.context, day=None, after=after, limit=1)
        seen += [message.id for message in page]
        if after is None:
            break
    assert seen == ids
    page, _ = await list_rejected(world.context, day=date(2026, 1, 26), after=None, limit=10)
    assert [message.id for message in page] == [ids[1]]


async def test_a_job_id_that_the_ledger_refuses_parks_the_message(world: World) -> None:
    """It is refused again at every delivery."""
    failing(world.ledger, "read", error=LedgerRefused("OutOfRangeInput"))
    id_ = await parked(world, ack("job_1", "lease"))
    assert world.rejected.quarantined[id_].reason == "LEDGER_REFUSED"
    what = await what_if(world.context, await read_rejected(world.context, id_))
    assert what == ("REJECTED", "LEDGER_REFUSED: OutOfRangeInput")


async def test_a_parked_message_has_the_tenant_that_it_names(world: World) -> None:
    """Normalised, as jobs have it; none where it names none that a job could have."""
    named = {b'{"tenant_id": " Tenant_A "}': "tenant_a", b"rubbish": None, b'{"tenant_id": 7}': None}
    named[b'{"tenant_id": "' + b"t" * 129 + b'"}'] = None
    for number, (body, tenant) in enumerate(named.items()):
        id_ = await parked(world, body, number)
        assert world.rejected.quarantined[id_].tenant == tenant


async def test_a_sweep_removes_what_is_older_than_the_retention(world: World) -> None:
    """Messages in a list without a date stay."""
    old, kept = await parked(world, b"rubbish", 1), await parked(world, b"rubbish", 2, days=1)
    world.clock.advance(91 * 86_400)
    await sweep(world.context, world.orchestrations)
    assert set(world.rejected.quarantined) == {kept}
    listed, _ = await list_rejected(world.context, day=None, after=None, limit=10)
    assert [each.id for each in listed] == [kept]
    assert old != kept
