"""Hints become the feed: each public event once, in its job's order, after any lost, late or reordered hint (R72)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from shared.core.events.hints import MAX_HINT_BYTES, Hint, decode_hint, encode_hint
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.errors import LedgerUnavailable
from shared.operations.events.feed_writer import AGAIN_AFTER, MAX_ROWS
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.redrive_job import redrive_job
from shared.ports.feed import FeedWrite, Head
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.operations.support import dispatch, submitted
from tests.worlds.events import ONE, TENANT, Fed, fed, of, sends

__all__ = ["fed"]  # a fixture


async def test_a_job_is_in_the_feed(fed: Fed) -> None:
    job_id = await fed.finished()
    await fed.taken()
    assert await fed.ids() == await fed.expected(job_id)
    last = json.loads((await fed.feed.events(TENANT, after=0, limit=100))[-1].text)
    assert (last["type"], last["source"]) == ("job.completed", "/lucius/local/tenant_a")
    assert last["sequence"] == f"{len(await fed.ids()):020d}"


async def test_a_batch_costs_one_write_and_no_read(fed: Fed) -> None:
    calls = noted(fed.feed, "head", "read_seen", "write")
    first, second = await fed.finished(), await fed.finished(idempotency_key="2")
    hints = await fed.hints()
    failing(fed.world.ledger, "events", error=AssertionError("a job was read"))
    await fed.taken(hints[:4])
    await fed.taken(hints[4:])
    assert [name for name, *_ in calls] == ["head", "write", "write"]
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

    async def read_seen(self, tenant: str, job_id: str) -> int:
        found: int = await self._call(super().read_seen(tenant, job_id))
        return found

    async def write(self, write: FeedWrite) -> Head:
        found: Head = await self._call(super().write(write))
        return found


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_a_fault_at_any_call_before_and_after_it(world: World) -> None:
    """A failed write is repeated by a hint a minute later, and the feed is complete."""
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


async def test_a_job_that_cannot_be_read_holds_up_no_other(fed: Fed) -> None:
    bad, good = await fed.finished(), await fed.finished(idempotency_key="2")
    hints = [hint for hint in await fed.hints() if hint.job_id == good or hint.last != 2]
    failing(fed.world.ledger, "read", only=lambda job_id: job_id == bad)
    await fed.taken(hints)
    assert await fed.ids() == await fed.expected(good)
    for wait in AGAIN_AFTER:
        again = fed.queue.sent
        assert {(hint.job_id, at) for hint, at in again} == {(bad, fed.world.clock.now() + wait)}
        await fed.taken()
    # the sweeper's now
    assert fed.queue.sent == []


async def test_two_processes_in_every_order(world: World) -> None:
    """Race feed: two processes have shared and own hints, and at each call either goes first."""
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
    """Lets one of the waiting processes continue at a time, in the given order."""

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

    async def read_seen(self, tenant: str, job_id: str) -> int:
        await self._turn()
        return await super().read_seen(tenant, job_id)

    async def write(self, write: FeedWrite) -> Head:
        await self._turn()
        return await super().write(write)


async def test_more_than_a_transaction_holds(fed: Fed) -> None:
    """Sixty jobs in one batch, and one job that is far behind: no transaction has more rows than it may."""
    writes = noted(fed.feed, "write")
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
    assert max(1 + len(write.seen) + len(write.events) for _, write in writes) <= MAX_ROWS
    assert len(writes) == 4
    assert [each for each in await fed.ids() if each.startswith(f"{jobs[0]}:")] == await fed.expected(jobs[0])
    assert len(await fed.ids()) == 59 + len(await fed.expected(jobs[0]))


async def test_a_redrive_shows_the_old_jobs_mark(fed: Fed) -> None:
    """No process checks a job that ended long ago: the write of the new job into the feed reads it too."""
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
