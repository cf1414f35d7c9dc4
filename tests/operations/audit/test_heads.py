"""Heads are written with the feed, one for each history and day, after any lost, late or reordered hint (R91)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.audit.heads import DayHead
from shared.core.events.hints import Hint
from shared.core.events.public_log_events import feed_of
from shared.operations.events.feed_writer import write_feed
from shared.operations.incidents.incidents import find_incident
from tests.operations.faults import failing, noted
from tests.operations.support import dispatch, relisted, submitted
from tests.worlds.audit import Audited, audited
from tests.worlds.events import ONE, TENANT, sends
from tests.worlds.gates import OCR, held, ruled
from tests.worlds.incidents import an_incident

__all__ = ["audited"]  # a fixture

DAY_S = 24 * 3600.0


async def over_two_days(audited: Audited) -> str:
    """A job that is acknowledged on one day and succeeds on the next one."""
    job_id = await submitted(audited.world, **ONE)
    await dispatch(audited.world, job_id)
    await sends(audited.world, job_id, "ACK")
    audited.world.clock.advance(DAY_S)
    await sends(audited.world, job_id, "HEARTBEAT")
    await sends(audited.world, job_id, "RESULT")
    return job_id


@pytest.mark.parametrize("order", ["in order", "one by one", "doubled", "backwards", "lost", "without rows"])
async def test_each_day_of_a_job_has_its_last_event(audited: Audited, order: str) -> None:
    job_id = await over_two_days(audited)
    hints = await audited.hints()
    match order:
        case "one by one":
            for hint in hints:
                await audited.taken([hint])
        case "doubled":
            await audited.taken(hints + hints)
            await audited.taken(hints)
        case "backwards":
            for hint in hints[::-1]:
                await audited.taken([hint])
        case "lost":
            await audited.taken([hints[0], hints[-1]])
        case "without rows":
            await audited.taken([Hint(tenant=TENANT, job_id=job_id)])
        case _:
            await audited.taken(hints)
    expected = await audited.expected_heads(job_id)
    assert await audited.recorded() == expected
    assert len(expected) == 2


async def test_internal_rows_over_midnight(audited: Audited) -> None:
    """Rows without public events travel with the next hint: that of the first day is not lost between."""
    job_id = await submitted(audited.world, **ONE)
    await audited.taken()
    await dispatch(audited.world, job_id)
    audited.world.clock.advance(DAY_S)
    await sends(audited.world, job_id, "ACK")
    await audited.taken()
    assert await audited.recorded() == await audited.expected_heads(job_id)


async def test_a_clock_that_jumps_over_midnight_and_back(audited: Audited) -> None:
    """Each day has the last event that was written on it, also if another day's event came between."""
    job_id = await submitted(audited.world, **ONE)
    await dispatch(audited.world, job_id)
    for days, type_ in ((1, "ACK"), (-1, "HEARTBEAT"), (1, "HEARTBEAT"), (-1, "RESULT")):
        await audited.taken()
        audited.world.clock.advance(days * DAY_S)
        await sends(audited.world, job_id, type_)
    await audited.taken()
    expected = await audited.expected_heads(job_id)
    assert await audited.recorded() == expected
    assert len(expected) == 2


async def test_a_batch_reads_nothing(audited: Audited) -> None:
    """Heads are in the hints, and are written in the transaction of the feed."""
    job_id = await audited.finished()
    hints, writes = await audited.hints(), noted(audited.feed, "write")
    with failing(audited.world.ledger, "events", "read", error=AssertionError("read")):
        await audited.taken(hints)
    assert [len(write.heads) for _, write in writes] == [1]
    assert await audited.recorded() == await audited.expected_heads(job_id)


async def test_a_late_reply_to_an_ended_job(audited: Audited) -> None:
    """It has no public event, and no sweep compares the job: it has its own hint."""
    job_id = await audited.finished()
    await audited.taken()
    audited.world.clock.advance(DAY_S)
    await sends(audited.world, job_id, "RESULT")
    await audited.taken()
    assert await audited.recorded() == await audited.expected_heads(job_id)
    assert len(await audited.recorded()) == 2


async def test_a_lost_hint_is_healed_by_the_sweeper(audited: Audited) -> None:
    job_id = await submitted(audited.world, **ONE)
    await dispatch(audited.world, job_id)
    await audited.hints()
    assert await relisted(audited.world) == 1
    await audited.taken()
    assert await audited.recorded() == await audited.expected_heads(job_id)


async def test_logs_of_quotas_and_incidents(audited: Audited) -> None:
    await ruled(audited.world, OCR, max_active=5)
    await held(audited.world, OCR)
    incident, _ = await find_incident(audited.world.context, await an_incident(audited.world))
    assert incident is not None
    await audited.taken()
    recorded = await audited.recorded()
    entries = await audited.world.context.admissions.log(OCR.tenant, OCR.id, after=0, limit=10)
    name = f"quota:{OCR.id}"
    assert recorded[name, audited.today] == DayHead(
        name=name, day=audited.today, seq=entries[-1].seq, hash=entries[-1].hash
    )
    opened = await audited.world.context.incidents.log(incident, after=0, limit=10)
    of_feed = await audited.recorded(feed_of(incident.tenant))
    assert of_feed[f"incident:{incident.id}", audited.today].hash == opened[-1].hash
    assert recorded[name, audited.today].line == {"log": name, "seq": entries[-1].seq, "hash": entries[-1].hash}


async def test_without_a_key_there_is_nothing(audited: Audited) -> None:
    """There are no rows and no columns; a process without heads ends existing heads without a gap."""
    plain = audited.context_without()
    job_id = await submitted(plain, **ONE)
    await audited.hints()
    await write_feed(plain.context, [Hint(tenant=TENANT, job_id=job_id)])
    assert await audited.recorded() == {}
    row = await audited.feed._rows.read(TENANT, "HEAD")
    assert row is not None
    assert "heads_since" not in row
    await dispatch(audited.world, job_id)
    await sends(audited.world, job_id, "ACK")
    await audited.taken()
    head = await audited.feed.head(TENANT)
    assert head.heads_since == audited.world.clock.now()
    await sends(plain, job_id, "RESULT")
    await write_feed(plain.context, [Hint(tenant=TENANT, job_id=job_id)])
    assert (await audited.feed.head(TENANT)).heads_since is None


async def test_hints_of_a_process_without_heads_are_read(audited: Audited) -> None:
    """The setting changes while processes run: the hint has no heads, and the process that reads it records them."""
    job_id = await audited.finished()
    hints = [replace(hint, heads=None) for hint in await audited.hints()]
    await audited.taken(hints)
    assert await audited.recorded() == await audited.expected_heads(job_id)
