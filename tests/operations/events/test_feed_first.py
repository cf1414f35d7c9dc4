"""The committing process writes the feed itself; messages have the hints that it could not write (R71)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.events.hints import Hint
from shared.errors import BusUnavailable, Conflict, LedgerUnavailable
from shared.operations.events import feed_writer
from shared.operations.events.feed_first import FeedFirst
from shared.operations.process.hinting import Hinting
from shared.operations.process.known_feeds import KnownFeeds
from tests.contexts import changed
from tests.memory_bus import MemoryHints
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.worlds.events import TENANT, Fed, Refusing, fed, refusing

__all__ = ["fed"]  # a fixture


def first(fed: Fed, queue: Any = None) -> Fed:
    """The same feed and queue, in a process that writes the feed first."""
    context = changed(fed.world.context, known_feeds=KnownFeeds())
    hinting = Hinting(queue or fed.queue, fed.world.clock, write_feeds=FeedFirst(lambda: context).write)
    context = changed(context, hinting=hinting)
    return replace(fed, world=replace(fed.world, context=context))


async def settled(fed: Fed) -> None:
    await fed.world.context.require_events().hinting.settle()


async def test_a_job_is_in_the_feed_without_a_message(fed: Fed) -> None:
    """HEAD is read once, as `tell` reads it."""
    process, calls = first(fed), noted(fed.feed, "head")
    job_id = await process.finished()
    await settled(process)
    assert await fed.ids() == await fed.expected(job_id)
    assert (len(calls), fed.queue.sent) == (1, [])


@pytest.mark.parametrize("error", [LedgerUnavailable("away"), Conflict("changed")])
async def test_what_cannot_be_written_is_sent_and_the_next_hints_of_the_tenant_too(fed: Fed, error: Exception) -> None:
    """For half a minute its commits do not try again, those of other tenants do."""
    process = first(fed)
    with failing(fed.feed, "write", error=error):
        job_id = await process.finished()
        await settled(process)
    assert await fed.ids() == []
    tried = noted(fed.feed, "write")
    second = await process.finished(idempotency_key="2")
    other = await process.finished(idempotency_key="3", tenant_id="tenant_b")
    await settled(process)
    assert {call[1].tenant for call in tried} == {"tenant_b"}
    assert await fed.ids("tenant_b") == await fed.expected(other)
    await fed.taken()
    assert await fed.ids() == await fed.expected(job_id) + await fed.expected(second)
    fed.world.clock.advance(31)
    last = await process.finished(idempotency_key="4")
    await settled(process)
    assert (await fed.ids())[-len(await fed.expected(last)) :] == await fed.expected(last)


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "defect"])
async def test_a_feed_that_hangs_or_breaks_delays_an_end_by_the_bound_at_most(
    fed: Fed, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    """The hints leave as messages, and later ends do not try again; another tenant is not concerned."""
    monkeypatch.setattr(feed_writer, "_OWN_WRITE_S", 0.01)
    process, calls = first(fed), 0

    async def write(write: Any) -> None:
        nonlocal calls
        calls += 1
        if not hangs:
            raise ValueError("a defect")
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(fed.feed, "write", write)
        job_id = await process.finished()
        await settled(process)
        tried = calls
        other = await process.finished(idempotency_key="2")
        await settled(process)
    assert calls == tried == 1
    await fed.taken()
    assert await fed.ids() == await fed.expected(job_id) + await fed.expected(other)


async def test_processes_write_one_feed_at_once(fed: Fed) -> None:
    """A conflict costs a read of HEAD; each event is in the feed once, from any of the writers."""
    processes = [first(fed), first(fed), fed]
    jobs = await asyncio.gather(
        *(each.finished(idempotency_key=f"{turn}-{n}") for turn in range(5) for n, each in enumerate(processes))
    )
    for each in processes:
        await settled(each)
    await fed.taken()
    expected = [event for job in jobs for event in await fed.expected(job)]
    assert sorted(await fed.ids()) == sorted(expected)


async def test_a_job_that_cannot_be_read_is_sent_at_once(fed: Fed) -> None:
    """Its rows before are missing in the feed, and the ledger is away."""
    await fed.finished()
    hints, process = await fed.hints(), first(fed)
    failing(process.world.ledger, "events", error=LedgerUnavailable("away"))
    assert await process.world.context.require_events().hinting.send_hint(hints[-1])
    assert [hint.key for hint, _ in fed.queue.sent] == [hints[-1].key]


async def test_feeds_are_written_while_the_bus_is_away(fed: Fed) -> None:
    """A tenant whose feed cannot be written needs messages. The feeds of others do not, in the same batch and later."""
    for number in range(2):
        await fed.finished(idempotency_key=f"{number}")
        await fed.finished(idempotency_key=f"{number}", tenant_id="tenant_b")
    hints, queue = await fed.hints(), MemoryHints()
    process = first(fed, queue)
    failing(queue, "send", error=BusUnavailable("away"))
    tried = noted(queue, "send")
    failing(fed.feed, "write", only=lambda write: write.tenant == TENANT)
    hinting = process.world.context.require_events().hinting
    half = len(hints) // 2
    for some in (hints[:half], hints[half:]):
        assert {hint.tenant for hint in some} == {TENANT, "tenant_b"}
        sent = await asyncio.gather(*map(hinting.send_hint, some))
        assert sent == [hint.tenant != TENANT for hint in some]
    assert len(tried) == 1, "no message is tried again for a few seconds"
    assert await fed.ids() == []
    assert len(await fed.ids("tenant_b")) == sum(len(hint.events or ()) for hint in hints if hint.tenant != TENANT)


async def test_later_hints_are_messages(fed: Fed) -> None:
    process, at = first(fed), fed.world.clock.now() + timedelta(minutes=1)
    await process.world.context.require_events().hinting.again([Hint(tenant=TENANT, job_id="job_1")], at)
    assert [sent for _, sent in fed.queue.sent] == [at]


async def test_feed_and_queue_are_away(world: World) -> None:
    """The end of the job succeeds, and reports that its hint is lost: the sweeper repairs the feed in a minute."""
    fed, queue = refusing(world)
    assert isinstance(queue, Refusing)
    queue.refuses, process = True, first(fed)
    failing(fed.feed, "write", error=LedgerUnavailable("away"))
    job_id = await process.finished()
    assert (await process.world.job(job_id)).job.status == "SUCCEEDED"
    assert await fed.ids() == []
