"""Lost and refused hints: a process that reads a job anyway finds events that its feed lacks, and nothing is deleted
before (R71, R73).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.sweeper.sweep import sweep
from shared.ports.durable import InstanceState
from shared.ports.feed import FeedWrite
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World
from tests.operations.support import dispatch, submitted
from tests.worlds.events import ONE, TENANT, Fed, fed, of, refusing, sends

__all__ = ["fed"]  # a fixture


async def test_an_old_jobs_mark_that_was_lost_comes_with_the_look_at_the_new_one(fed: Fed) -> None:
    """Its hint was lost, and the process that wrote the new job's end died before it checked the old one."""
    world = fed.world
    old = await submitted(world, **ONE)
    await control_job(
        world.context, world.orchestrations, old, ControlKind.CANCEL, Origin(cause_id="c", actor="ann", source="http")
    )
    await fed.taken()
    world.orchestrations.states[old] = InstanceState.ENDED
    world.clock.advance(timedelta(hours=1).total_seconds())
    await sweep(world.context, world.orchestrations)
    again = Origin(cause_id="redrive", actor="ann", source="http")
    new = (await redrive_job(world.context, world.orchestrations, old, again)).stored.record.job.job_id
    await dispatch(world, new)
    await sends(world, new, "ACK")
    await sends(world, new, "RESULT")
    await fed.hints()  # lost
    job = (await world.job(new)).job
    await fed.feed.write(
        FeedWrite(tenant=TENANT, head=await fed.feed.head(TENANT), events=[], seen={new: job.event_seq})
    )
    for _ in range(2):
        world.clock.advance(11)
        await fed.finished(idempotency_key=str(world.clock.now()))
        await fed.hints()
    world.clock.advance(timedelta(hours=1).total_seconds())
    await sweep(world.context, world.orchestrations)
    await fed.taken()
    assert (await fed.expected(old))[-1] in await fed.ids()


async def test_a_queue_that_refuses_fails_nobody_and_is_left_alone_for_a_while(world: World) -> None:
    fed, queue = refusing(world)
    queue.refuses = True
    job_id = await fed.finished()
    assert (await fed.world.job(job_id)).job.status is JobStatus.SUCCEEDED
    queue.refuses = False
    fed.world.clock.advance(1)
    await submitted(fed.world, idempotency_key="2", **ONE)
    assert await fed.hints() == []
    fed.world.clock.advance(10)
    await submitted(fed.world, idempotency_key="3", **ONE)
    assert len(await fed.hints()) == 1


async def test_an_end_whose_hint_was_refused_is_looked_at_within_a_minute(world: World) -> None:
    fed, queue = refusing(world)
    job_id = await submitted(fed.world, **ONE)
    await dispatch(fed.world, job_id)
    queue.refuses = True
    await sends(fed.world, job_id, "RESULT")
    queue.refuses = False
    await fed.taken()
    assert await fed.ids() != await fed.expected(job_id)
    fed.world.clock.advance(61)
    await sweep(fed.world.context, fed.world.orchestrations)
    await fed.taken()
    assert await fed.ids() == await fed.expected(job_id)


async def test_a_living_job_whose_hint_was_lost_is_hinted_at_by_the_next_pass(fed: Fed) -> None:
    job_id = await submitted(fed.world, **ONE)
    await dispatch(fed.world, job_id)
    await fed.hints()  # lost
    await sweep(fed.world.context, fed.world.orchestrations)
    await fed.taken()
    assert await fed.ids() == await fed.expected(job_id)
    await sweep(fed.world.context, fed.world.orchestrations)
    assert await fed.hints() == []


async def test_a_list_row_waits_for_the_hint_of_its_job(world: World) -> None:
    """Otherwise the next sweep would not find the job, and no process would write its hint."""
    fed, queue = refusing(world)
    job_id = await submitted(fed.world, **ONE)
    await dispatch(fed.world, job_id)
    await fed.hints()
    queue.refuses = True
    await sweep(fed.world.context, fed.world.orchestrations)
    queue.refuses = False
    fed.world.clock.advance(10)
    await sweep(fed.world.context, fed.world.orchestrations)
    await fed.taken()
    assert await fed.ids() == await fed.expected(job_id)


async def test_a_later_end_leaves_an_earlier_one_that_is_behind_to_the_sweeper(fed: Fed) -> None:
    first = await fed.finished()
    await fed.hints()  # lost, though the queue had them
    for number in (2, 3):
        fed.world.clock.advance(11)
        await fed.finished(idempotency_key=str(number))
        await fed.taken()
    assert not [each for each in await fed.ids() if each.startswith(f"{first}:")]
    fed.world.clock.advance(timedelta(hours=1).total_seconds())
    await sweep(fed.world.context, fed.world.orchestrations)
    await fed.taken()
    assert [each for each in await fed.ids() if each.startswith(f"{first}:")] == await fed.expected(first)


async def test_a_job_is_archived_once_its_events_are_in_the_feed(fed: Fed) -> None:
    settings = replace(fed.world.context.settings, retention_days=1.0, idempotency_ttl_days=1.0)
    fed = replace(fed, world=replace(fed.world, context=replace(fed.world.context, settings=settings)))
    job_id = await fed.finished()
    hints = await fed.hints()
    fed.world.orchestrations.states[job_id] = InstanceState.ENDED
    fed.world.clock.advance(timedelta(days=1, hours=1).total_seconds())
    actions = [each.label for each in (await sweep(fed.world.context, fed.world.orchestrations)).actions]
    assert await fed.world.ledger.read(job_id) is not None, actions
    expected = await fed.expected(job_id)
    await fed.taken()
    assert await fed.ids() == expected
    for _ in range(3):
        fed.world.clock.advance(timedelta(hours=2).total_seconds())
        await sweep(fed.world.context, fed.world.orchestrations)
    assert await fed.world.ledger.read(job_id) is None
    assert await fed.feed.read_seen(TENANT, job_id) == 0
    # a message that lay in the queue all the time
    fed.world.context.events.known_feeds.forget(TENANT)
    await fed.taken(hints)
    assert await fed.ids() == expected


async def test_a_feed_that_cannot_be_written_keeps_no_rows_for_ever(world: World) -> None:
    """Rows stay for two days beyond their retention, with a check each hour."""
    fed, queue = refusing(world)
    queue.refuses = True
    settings = replace(fed.world.context.settings, retention_days=1.0, idempotency_ttl_days=1.0)
    fed = replace(fed, world=replace(fed.world, context=replace(fed.world.context, settings=settings)))
    job_id = await fed.finished()
    fed.world.orchestrations.states[job_id] = InstanceState.ENDED
    for hours in (25, 46):
        fed.world.clock.advance(timedelta(hours=hours).total_seconds())
        await sweep(fed.world.context, fed.world.orchestrations)
        assert await fed.world.ledger.read(job_id) is not None
    for _ in range(2):
        fed.world.clock.advance(timedelta(hours=2).total_seconds())
        await sweep(fed.world.context, fed.world.orchestrations)
    assert await fed.world.ledger.read(job_id) is None


async def test_what_ended_before_the_feed_began_stays_out_of_it(world: World) -> None:
    fed = of(world, MemoryFeed(since=world.clock.now() + timedelta(minutes=30)))
    without = replace(fed.world, context=replace(fed.world.context, events=None))
    await replace(fed, world=without).finished()
    fed.world.clock.advance(timedelta(hours=2).total_seconds())
    await sweep(fed.world.context, fed.world.orchestrations)
    await fed.taken()
    assert await fed.ids() == []
