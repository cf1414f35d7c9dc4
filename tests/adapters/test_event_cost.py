"""The cost that events, and a day of signed heads, add to jobs."""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import AsyncIterable, Coroutine, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale.events import EVENT_BYTES, Events, events_by_commits
from benchmarks.scale.heads import ALL_TENANTS, HEAD_BYTES, JOB_AT_MIDNIGHT, TENANT
from benchmarks.scale.job import Job
from shared.adapters.kept_blobs import KeptInMemory
from shared.adapters.signing import PemSigner
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.direct import DirectTable
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.heads import TablesHeads
from shared.core.events.hints import Hint, encode_hint
from shared.operations.audit.write_anchors import write_anchors
from shared.operations.events.feed_first import FeedFirst
from shared.operations.events.feed_writer import write_feed
from shared.operations.process.hinting import Hinting
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.process.parts import Audit
from shared.operations.process.topic_relay import TopicRelay
from tests.adapters.job_cost import STEPS, App, app, world
from tests.contexts import changed
from tests.memory_bus import MemoryEvents, MemoryHints
from tests.operations.conftest import World
from tests.worlds.audit import write_key

__all__ = ["app", "world"]  # fixtures


@pytest.mark.parametrize(
    ("app", "mode"),
    [("apart", "off"), ("apart", "feed"), ("one process", "topic"), ("one process", "heads")],
    indirect=["app"],
)
async def test_what_events_add_to_a_job(app: App, azurite: str, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Requests, rows and messages beyond a job without events (docs/explanation/scale.md); of `off` nothing.

    A job's hints come in one batch, or each is a batch that half a minute without another one follows. `heads`: a feed
    with heads, which are rows of the same transactions.
    """
    has_heads = mode == "heads"
    mode = "feed" if has_heads else mode
    rows = Counter[str]()
    real = DirectTable.submit_transaction

    async def submit(self: DirectTable, operations: Sequence[Any]) -> Any:
        rows["entities_written"] += len(operations)
        return await real(self, operations)

    queue, topic, clock = MemoryHints(), MemoryEvents(), app.world.clock
    account = TablesAccount.connect(
        connection=azurite, endpoint=None, credential=None, version_table=f"tenants{uuid.uuid4().hex[:12]}"
    )
    feed = TablesFeed(account, f"feed{uuid.uuid4().hex[:12]}", clock.now)
    known = KnownFeeds()
    passing = TopicRelay(topic, feed, known, clock, spawn=_nobody) if mode == "topic" else None
    audit = Audit(heads=TablesHeads(account, feed._rows.name), signer=PemSigner(Path()), kept=CountedFiles())

    def process(world: World) -> World:
        if mode == "off":
            return world
        context = replace(world.context, audit=audit if has_heads else None)
        hinting = Hinting(queue, clock, has_heads=has_heads)
        return replace(world, context=changed(context, feed=feed, hinting=hinting))

    apart = app.lane is not app.http
    http = process(app.http)
    durable, lane = (process(app.durable), process(app.lane)) if apart else (http, http)
    fed = replace(app, http=http, durable=durable, lane=lane)
    teller = changed(http.context, known_feeds=known, relay=passing) if mode != "off" else http.context

    def requests() -> Counter[str]:
        app.requests.pop("directory", None)
        found = Counter({f"table_{name}": count for name, count in app.requests.items()})
        app.requests.clear()
        return found

    async def take(hints: Sequence[Hint]) -> None:
        await write_feed(teller, hints)
        if passing is not None:
            # as after the half minute
            await passing.catch_up(clock.now() + timedelta(minutes=1))

    for number in (0, 1):
        await fed.job("OCR", number)
        await take([hint for hint, _ in queue.sent])
        queue.sent.clear()
    monkeypatch.setattr(DirectTable, "submit_transaction", submit)
    for number, (request_type, alone) in enumerate([("OCR", False), ("OCR_EMBEDDING_SIS", True)], 2):
        requests()
        topic.sent.clear()
        await fed.job(request_type, number)
        rows.clear()
        hints = [hint for hint, _ in queue.sent]
        queue.sent.clear()
        for batch in [[hint] for hint in hints] if alone else [hints][: len(hints)]:
            await take(batch)
        steps = len(STEPS[request_type])
        found = requests() + rows + Counter({"hints": len(hints), "sent": len(topic.sent)})
        found.subtract(table_writes=4 + 2 * steps, table_reads=steps + 1 if apart else 0)
        batches = len(hints) if alone else 1
        model = Events(steps=steps, mode=mode, batches=batches, seen=batches, pauses=batches)
        for name in ("hints", "sent", "table_writes", "table_reads"):
            assert found[name] == getattr(model, name), (name, steps, alone)
        assert found["entities_written"] == model.entities_written + (model.seen if has_heads else 0)
        head_bytes = HEAD_BYTES * len(hints) if has_heads else 0
        assert sum(len(encode_hint(hint)) for hint in hints) <= model.hint_bytes + head_bytes
        events = await feed.events("tenant_a", after=0, limit=1000) if mode != "off" else []
        mine = [event for event in events if event.job_id == list(app.world.orchestrations.started)[-1]]
        assert len(mine) + bool(mine) == model.rows_kept
        assert sum(len(event.text.encode()) for event in mine) <= EVENT_BYTES * model.events
    await account.close()


@pytest.mark.parametrize("app", ["apart"], indirect=True)
async def test_what_a_feed_costs_that_the_processes_of_the_commits_write(app: App, azurite: str) -> None:
    """No message. A process that writes after another one loses one write and reads HEAD and SEEN again."""
    own, queue, clock = uuid.uuid4().hex[:12], MemoryHints(), app.world.clock
    account = TablesAccount.connect(connection=azurite, endpoint=None, credential=None, version_table=f"tenants{own}")
    feed = TablesFeed(account, f"feed{own}", clock.now)

    turns = asyncio.Lock()

    class InTurn(FeedFirst):
        """Writers at the same moment would lose more writes, as chance has it."""

        async def write(self, hints: Sequence[Hint]) -> list[Hint]:
            async with turns:
                return await super().write(hints)

    def process(world: World) -> World:
        context = changed(world.context, feed=feed, known_feeds=KnownFeeds())
        hinting = Hinting(queue, clock, write_feeds=InTurn(lambda: context).write)
        return replace(world, context=changed(context, hinting=hinting))

    http, durable, lane = map(process, (app.http, app.durable, app.lane))
    fed = replace(app, http=http, durable=durable, lane=lane)

    async def job(number: int) -> None:
        await fed.job("OCR_EMBEDDING_SIS", number)
        for each in (http, durable, lane):
            await each.context.require_events().hinting.settle()

    await job(0)
    await job(1)
    app.requests.clear()
    await job(2)
    plain, model = Job(3), events_by_commits(3)
    assert app.requests["writes"] <= plain.table_writes + model.table_writes
    assert app.requests["reads"] <= plain.table_reads + model.table_reads
    assert queue.sent == []
    assert len(await feed.events("tenant_a", after=0, limit=1000)) == 3 * model.events
    await account.close()


def _nobody(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Does nothing, so that only the requested work costs."""
    work.close()
    return asyncio.get_running_loop().create_future()  # type: ignore[return-value]


class CountedFiles(KeptInMemory):
    """Counts reads and writes; a list costs the same as a write."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = Counter[str]()

    async def create(self, name: str, content: AsyncIterable[bytes]) -> bool:
        self.calls["blob_writes"] += 1
        return await super().create(name, content)

    async def read(self, name: str, *, offset: int = 0, length: int | None = None) -> bytes | None:
        self.calls["blob_reads"] += 1
        return await super().read(name, offset=offset, length=length)

    async def names(self, prefix: str) -> list[str]:
        self.calls["blob_writes"] += 1
        return await super().names(prefix)


@pytest.mark.parametrize("app", ["one process"], indirect=True)
async def test_what_a_day_of_heads_costs(app: App, azurite: str, tmp_path: Path) -> None:
    """A day's check and anchor (docs/explanation/scale.md): of all tenants, of one, and of jobs at midnight."""
    own, clock, numbers = uuid.uuid4().hex[:12], app.world.clock, itertools.count()
    account = TablesAccount.connect(connection=azurite, endpoint=None, credential=None, version_table=f"tenants{own}")
    write_key(tmp_path / "key.pem")
    feed, queue, kept = TablesFeed(account, f"feed{own}", clock.now), MemoryHints(), CountedFiles()
    audit = Audit(heads=TablesHeads(account, f"feed{own}"), signer=PemSigner(tmp_path / "key.pem"), kept=kept)
    context = replace(app.http.context, audit=audit)
    http = replace(app.http, context=changed(context, feed=feed, hinting=Hinting(queue, clock, has_heads=True)))
    fed = replace(app, http=http, durable=http, lane=http)

    async def day(*, living: int) -> Counter[str]:
        for _ in range(living):
            await fed.post("OCR", next(numbers))
        await http.context.require_events().hinting.settle()
        await write_feed(http.context, [hint for hint, _ in queue.sent])
        queue.sent.clear()
        midnight = clock.now().replace(hour=0, minute=0, second=0) + timedelta(days=1)
        clock.advance((midnight + timedelta(minutes=17) - clock.now()).total_seconds())
        app.requests.clear()
        kept.calls.clear()
        assert await write_anchors(http.context) == 1
        # of the open incidents
        app.requests["reads"] += app.requests.pop("directory")
        return Counter({f"table_{name}": count for name, count in app.requests.items()}) + kept.calls

    # the key is kept
    await day(living=(jobs := 1))
    for living in (2, 3):
        found = await day(living=living)
        jobs += living
        for name in ("table_reads", "table_writes", "blob_reads", "blob_writes"):
            expected = sum(getattr(each, name) for each in (ALL_TENANTS, TENANT)) + jobs * getattr(
                JOB_AT_MIDNIGHT, name
            )
            assert found[name] == expected, name
    await account.close()
