"""Hints become the feed: each public event once, in its job's order, whatever is lost, doubled, late or refused."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.adapters.memory_feed import MemoryFeed, MemoryHints
from shared.core.hints import MAX_HINT_BYTES, Hint, decode_hint, encode_hint
from shared.core.history import Origin
from shared.core.occurrences import ControlKind
from shared.core.public_events import public_events
from shared.core.states import JobStatus
from shared.errors import BusUnavailable, LedgerUnavailable
from shared.operations.control_job import control_job
from shared.operations.hinting import Hinting
from shared.operations.known_feeds import KnownFeeds
from shared.operations.redrive_job import redrive_job
from shared.operations.sweeper.sweep import sweep
from shared.operations.tell import AGAIN_AFTER, MAX_ROWS, take_hints
from shared.ports.durable import InstanceState
from shared.ports.feed import FeedWrite, Head
from tests.operations.conftest import World
from tests.operations.support import dispatch, service_sends, submitted

ONE: dict[str, Any] = {"request_type": "OCR", "payload": {}}
TENANT = "tenant_a"


_numbers = itertools.count(1)


async def sends(world: World, job_id: str, type_: str) -> None:
    await service_sends(world, job_id, type_, next(_numbers))


@dataclass
class Fed:
    """A world with a feed; hints wait in `queue` until `taken`."""

    world: World
    queue: MemoryHints
    feed: MemoryFeed

    async def hints(self) -> list[Hint]:
        """What was sent, over the wire."""
        assert self.world.context.hinting is not None
        await self.world.context.hinting.settle()
        sent, self.queue.sent = self.queue.sent, []
        found = [decode_hint(encode_hint(hint)) for hint, _ in sent]
        return [hint for hint in found if hint is not None]

    async def taken(self, hints: Sequence[Hint] | None = None) -> None:
        await take_hints(self.world.context, await self.hints() if hints is None else hints)

    async def ids(self, tenant: str = TENANT) -> list[str]:
        events = await self.feed.events(tenant, after=0, limit=10_000)
        assert [event.number for event in events] == list(range(1, len(events) + 1))
        assert all(json.loads(event.text)["id"] == event.event_id for event in events)
        return [event.event_id for event in events]

    async def expected(self, job_id: str) -> list[str]:
        job, rows = (await self.world.job(job_id)).job, await self.world.ledger.events(job_id)
        return [each["id"] for row in rows for each in public_events(row, job)]

    async def finished(self, **changes: Any) -> str:
        """A job of one step that succeeded."""
        job_id = await submitted(self.world, **ONE | changes)
        await dispatch(self.world, job_id)
        await sends(self.world, job_id, "ACK")
        await sends(self.world, job_id, "RESULT")
        return job_id


@pytest.fixture
def fed(world: World) -> Fed:
    return of(world)


def of(world: World, feed: MemoryFeed | None = None) -> Fed:
    queue, feed = MemoryHints(), feed or MemoryFeed()
    context = replace(
        world.context, feed=feed, hinting=Hinting(queue, world.clock), known_feeds=KnownFeeds(), sleep=no_sleep
    )
    return Fed(replace(world, context=context), queue, feed)


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


async def test_a_job_is_in_the_feed(fed: Fed) -> None:
    job_id = await fed.finished()
    await fed.taken()
    assert await fed.ids() == await fed.expected(job_id)
    last = json.loads((await fed.feed.events(TENANT, after=0, limit=100))[-1].text)
    assert (last["type"], last["source"]) == ("job.completed", "/lucius/local/tenant_a")
    assert last["sequence"] == f"{len(await fed.ids()):020d}"


async def test_a_batch_costs_one_write_and_no_read(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name in ("head", "seen", "write"):
        original = getattr(fed.feed, name)

        async def counted(*args: Any, name: str = name, original: Any = original) -> Any:
            calls.append(name)
            return await original(*args)

        monkeypatch.setattr(fed.feed, name, counted)

    async def unread(job_id: str, **_options: Any) -> Any:
        raise AssertionError(f"{job_id} was read")

    first, second = await fed.finished(), await fed.finished(idempotency_key="2")
    hints = await fed.hints()
    monkeypatch.setattr(fed.world.ledger, "events", unread)
    await fed.taken(hints[:4])
    await fed.taken(hints[4:])
    assert calls == ["head", "write", "write"]
    assert len(await fed.ids()) == len(hints) + 2  # a last RESULT means two
    assert first != second


@pytest.mark.parametrize("order", ["lost", "doubled", "backwards", "one by one backwards"])
async def test_hints_that_are_lost_doubled_or_out_of_order(fed: Fed, order: str) -> None:
    job_id = await fed.finished()
    hints = await fed.hints()
    match order:
        case "lost":
            await fed.taken([hints[0], hints[-1]])
        case "doubled":
            await fed.taken(hints + hints)
            await fed.taken(hints)
        case "backwards":
            await fed.taken(hints[::-1])
        case _:
            for hint in hints[::-1]:
                await fed.taken([hint])
    assert await fed.ids() == await fed.expected(job_id)


async def test_a_hint_without_its_events(fed: Fed) -> None:
    """One that was too large, and one of a sweeper's: the rows are read."""
    job_id = await fed.finished()
    await fed.hints()
    await fed.taken([Hint(tenant=TENANT, job_id=job_id)])
    assert await fed.ids() == await fed.expected(job_id)
    await fed.taken([Hint(tenant=TENANT, job_id="unknown"), Hint(tenant="tenant_b", job_id=job_id)])
    assert len(await fed.ids()) == len(await fed.expected(job_id))
    assert await fed.ids("tenant_b") == []


def test_large_and_foreign_hints() -> None:
    event = {
        "id": "job_1:1:0",
        "type": "job.queued",
        "time": "2026-01-27T10:00:00Z",
        "subject": "job_1",
        "tenant": TENANT,
        "jobseq": 1,
        "data": {"payload": {}},
    }
    hint = Hint(tenant=TENANT, job_id="job_1", first=1, last=1, events=(event,))
    assert decode_hint(encode_hint(hint)) == hint
    wide = Hint(tenant=TENANT, job_id="job_1", first=1, last=1, events=({**event, "x": "y" * MAX_HINT_BYTES},))
    assert decode_hint(encode_hint(wide)) == replace(hint, events=None)
    # an event of another tenant's is read instead of believed
    other = Hint(tenant=TENANT, job_id="job_1", first=1, last=1, events=({**event, "tenant": "tenant_b"},))
    assert decode_hint(encode_hint(other)) == replace(hint, events=None)
    for body in (b"", b"[]", b"{}", b'{"tenant": 1, "job_id": "j"}', b'{"tenant": "t", "job_id": "j", "from": "x"}'):
        assert decode_hint(body) is None


class Failing(MemoryFeed):
    """One call fails, before or after it took effect."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0
        self.fails_at: tuple[int, bool] | None = None

    async def _call(self, call: Any) -> Any:
        self.calls += 1
        if self.fails_at == (self.calls, False):
            raise LedgerUnavailable("before")
        answer = await call
        if self.fails_at == (self.calls, True):
            raise LedgerUnavailable("after")
        return answer

    async def head(self, tenant: str) -> Head:
        found: Head = await self._call(super().head(tenant))
        return found

    async def seen(self, tenant: str, job_id: str) -> int:
        found: int = await self._call(super().seen(tenant, job_id))
        return found

    async def write(self, write: FeedWrite) -> Head:
        found: Head = await self._call(super().write(write))
        return found


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_a_fault_at_any_call_before_and_after_it(world: World) -> None:
    """What fails is hinted at again a minute later, and the feed is whole."""
    first = of(world)
    jobs = [await first.finished(), await first.finished(idempotency_key="2")]
    hints = await first.hints()
    for call in range(1, 7):
        for after in (False, True):
            feed = Failing()
            feed.fails_at = (call, after)
            fed = of(world, feed)
            for hint in reversed(hints):
                await fed.taken([hint])
            feed.fails_at = None
            again = fed.queue.sent
            assert bool(again) == (call <= feed.calls)
            for hint, at in again:
                assert (hint.tries, at) == (1, world.clock.now() + AGAIN_AFTER[0])
            await fed.taken()
            for job_id in jobs:
                found = [each for each in await fed.ids() if each.startswith(f"{job_id}:")]
                assert found == await fed.expected(job_id), (call, after)


async def test_a_job_that_cannot_be_read_holds_up_no_other(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = await fed.finished(), await fed.finished(idempotency_key="2")
    hints = [hint for hint in await fed.hints() if hint.job_id == good or hint.last != 2]
    real = fed.world.ledger.read

    async def read(job_id: str) -> Any:
        if job_id == bad:
            raise LedgerUnavailable("away")
        return await real(job_id)

    monkeypatch.setattr(fed.world.ledger, "read", read)
    await fed.taken(hints)
    assert await fed.ids() == await fed.expected(good)
    for wait in AGAIN_AFTER:
        again = fed.queue.sent
        assert {(hint.job_id, at) for hint, at in again} == {(bad, fed.world.clock.now() + wait)}
        await fed.taken()
    # the sweeper's now
    assert fed.queue.sent == []


async def test_two_processes_in_every_order(world: World) -> None:
    """Race feed: each with its own memory, both with the same and with other hints; at every call either goes first."""
    first = of(world)
    jobs = [await first.finished(), await first.finished(idempotency_key="2")]
    hints = await first.hints()
    orders = [bin(number)[2:].zfill(8) for number in range(2**8)]
    for order in orders:
        feed = Turns(order)
        one, two = of(world, feed), of(world, feed)
        await asyncio.gather(one.taken(hints[:5]), two.taken(hints[2:]), feed.run())
        for job_id in jobs:
            found = [each for each in await one.ids() if each.startswith(f"{job_id}:")]
            assert found == await one.expected(job_id), order
        assert one.queue.sent == two.queue.sent == []


class Turns(MemoryFeed):
    """Lets one of those that wait go on at a time, by the order that it was given."""

    def __init__(self, order: str) -> None:
        super().__init__()
        self._order = order
        self._waiting: list[asyncio.Future[None]] = []

    async def _turn(self) -> None:
        self._waiting.append(asyncio.get_running_loop().create_future())
        await self._waiting[-1]

    async def run(self) -> None:
        idle = 0
        for digit in self._order + "0" * 200:
            for _ in range(20):
                await asyncio.sleep(0)
            if not self._waiting:
                idle += 1
                if idle > 3:
                    return
                continue
            idle = 0
            self._waiting.pop(int(digit) % len(self._waiting)).set_result(None)

    async def head(self, tenant: str) -> Head:
        await self._turn()
        return await super().head(tenant)

    async def seen(self, tenant: str, job_id: str) -> int:
        await self._turn()
        return await super().seen(tenant, job_id)

    async def write(self, write: FeedWrite) -> Head:
        await self._turn()
        return await super().write(write)


async def test_more_than_a_transaction_holds(fed: Fed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sixty jobs in one batch, and one job that is far behind: no transaction has more rows than it may."""
    rows: list[int] = []
    real = fed.feed.write

    async def write(write: FeedWrite) -> Head:
        rows.append(1 + len(write.seen) + len(write.events))
        return await real(write)

    monkeypatch.setattr(fed.feed, "write", write)
    settings = replace(fed.world.context.settings, attempt_max_s=1_000_000.0)
    fed = replace(fed, world=replace(fed.world, context=replace(fed.world.context, settings=settings)))
    jobs = [await submitted(fed.world, idempotency_key=str(number), **ONE) for number in range(60)]
    await dispatch(fed.world, jobs[0])
    await sends(fed.world, jobs[0], "ACK")
    for _ in range(100):
        fed.world.clock.advance(300)
        await sends(fed.world, jobs[0], "HEARTBEAT")
    hints = await fed.hints()
    await fed.taken([hint for hint in hints if hint.job_id != jobs[0]])
    await fed.taken(hints[-1:])
    assert max(rows) <= MAX_ROWS
    assert len(rows) == 4
    assert [each for each in await fed.ids() if each.startswith(f"{jobs[0]}:")] == await fed.expected(jobs[0])
    assert len(await fed.ids()) == 59 + len(await fed.expected(jobs[0]))


async def test_a_redrive_shows_the_old_jobs_mark(fed: Fed) -> None:
    """Nobody looks at a job that ended long ago: whatever brings the new one into the feed looks at it too."""
    job_id = await submitted(fed.world, **ONE)
    origin = Origin(cause_id="cancel", actor="ann", source="http")
    await control_job(fed.world.context, fed.world.orchestrations, job_id, ControlKind.CANCEL, origin)
    await fed.taken()
    created = await redrive_job(
        fed.world.context, fed.world.orchestrations, job_id, Origin(cause_id="redrive", actor="ann", source="http")
    )
    new_id = created.stored.record.job.job_id
    await fed.taken([hint for hint in await fed.hints() if hint.job_id == new_id])
    assert (await fed.expected(job_id))[-1] in await fed.ids()
    assert len(await fed.ids()) == len(await fed.expected(job_id)) + len(await fed.expected(new_id))


# --- what heals


async def test_an_old_jobs_mark_that_was_lost_comes_with_the_look_at_the_new_one(fed: Fed) -> None:
    """Its hint was lost, and who wrote the new job's end died before it looked at the old one."""
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


class Refusing(MemoryHints):
    refuses = False

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        if self.refuses:
            raise BusUnavailable("away")
        await super().send(hints, at=at)


def refusing(world: World) -> tuple[Fed, Refusing]:
    fed, queue = of(world), Refusing()
    context = replace(fed.world.context, hinting=Hinting(queue, world.clock))
    return Fed(replace(fed.world, context=context), queue, fed.feed), queue


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
    """Else the next pass would not find the job behind, and nobody would hint at it."""
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
    assert await fed.feed.seen(TENANT, job_id) == 0
    # a message that lay in the queue all the time
    fed.world.context.known_feeds.forget(TENANT)
    await fed.taken(hints)
    assert await fed.ids() == expected


async def test_a_feed_that_cannot_be_written_keeps_no_rows_for_ever(world: World) -> None:
    """Two days longer than their time, with a look each hour."""
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
    without = replace(fed.world, context=replace(fed.world.context, feed=None, hinting=None))
    await replace(fed, world=without).finished()
    fed.world.clock.advance(timedelta(hours=2).total_seconds())
    await sweep(fed.world.context, fed.world.orchestrations)
    await fed.taken()
    assert await fed.ids() == []
