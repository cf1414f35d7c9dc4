"""What a job costs in requests, messages, events and bytes, counted where they leave: in one process, in Flex's shape.

On Flex Consumption HTTP, Durable, and each lane's replies are processes apart, which share nothing but the tables.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import Counter
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.scale.events import EVENT_BYTES, Events
from benchmarks.scale.heads import ALL_TENANTS, HEAD_BYTES, JOB_AT_MIDNIGHT, TENANT
from benchmarks.scale.job import GATED, Gated
from shared.adapters.blobs import BlobTexts
from shared.adapters.kept_blobs import KeptInMemory
from shared.adapters.signing import PemSigner
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.direct import DirectAccount, DirectTable
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.heads import TablesHeads
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.api.receipt import operations
from shared.core.events.hints import Hint, encode_hint
from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.directive import encode_directive
from shared.core.jobs.job import Record
from shared.core.jobs.states import JobStatus
from shared.operations.audit.write_anchors import write_anchors
from shared.operations.events.feed_writer import write_feed
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.read_history import read_history
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.process.hinting import Hinting
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.process.parts import Audit
from shared.operations.process.recent_ends import RecentEnds
from shared.operations.process.recent_jobs import RecentJobs
from shared.operations.process.topic_relay import TopicRelay
from shared.operations.quotas.quotas import By, hold
from shared.ports.durable import InstanceState
from tests.contexts import changed
from tests.jobs import START, envelope, reply
from tests.memory_bus import MemoryEvents, MemoryHints
from tests.operations.conftest import World, world
from tests.worlds.audit import write_key

__all__ = ["world"]  # a fixture of the operations' tests

STEPS = {"OCR": ("ocr",), "OCR_EMBEDDING": ("ocr", "embedding"), "OCR_EMBEDDING_SIS": ("ocr", "embedding", "sis")}
PAYLOADS: dict[str, Any] = {"ocr": {}, "embedding": {}, "sis": {"prompt_set": ["When does the lease end?"]}}

#: bodies of directives, and of requests to the tables by a job and by each step: two percent or more above what is sent
DIRECTIVE_BYTES = 600
JOB_TABLE_BYTES, STEP_TABLE_BYTES = 8_800, 18_200


@dataclass
class App:
    """The world's functions in three processes, over the tables; `requests` counts what leaves all of them."""

    world: World
    http: World
    durable: World
    lane: World
    requests: Counter[str]
    #: bodies of requests to the tables, in bytes
    sent: Counter[str]

    async def job(self, request_type: str, number: int) -> None:
        """One job from its POST to its end, without faults; the clock then goes on past the time of its histories."""
        await self.run(await self.post(request_type, number))

    def limited(self, **settings: Any) -> App:
        """With other settings, in every process."""

        def process(world: World) -> World:
            limits = replace(world.context.settings, **settings)
            return replace(world, context=changed(world.context, settings=limits, gate_directory=GateDirectory()))

        apart = self.lane is not self.http
        http = process(self.http)
        durable, lane = (process(self.durable), process(self.lane)) if apart else (http, http)
        return replace(self, http=http, durable=durable, lane=lane)

    async def post(self, request_type: str, number: int) -> Record:
        steps = STEPS[request_type]
        asked = envelope(
            request_type=request_type,
            payload={step: PAYLOADS[step] for step in steps} if len(steps) > 1 else PAYLOADS[steps[0]],
            idempotency_key=f"key-{number}",
        )
        created = await create_job(self.http.context, self.world.orchestrations, asked, correlation_id=None)
        return created.stored.record

    async def run(self, record: Record) -> None:
        job_id, steps = record.job.job_id, STEPS[record.job.request_type]
        for place, step_id in enumerate(steps):
            await dispatch_step(
                self.durable.context, self.world.orchestrations, job_id=job_id, instance_id=job_id, step_id=step_id
            )
            sent = self.world.publisher.sent[-1]
            for type_ in ("ACK", "RESULT"):
                self.world.clock.advance(1)
                answer = reply(record, type_, step_id, attempt_no=1, lease_id=sent.lease_id)
                message = ReplyMessage(
                    body=answer.model_dump_json(exclude_none=True).encode(),
                    lane=sent.lane,
                    message_id=f"{type_}-{place}",
                    sequence_number=place,
                    delivery_count=1,
                    enqueued_at=self.world.clock.now(),
                )
                await receive_reply(self.lane.context, self.world.orchestrations, message)
        self.world.orchestrations.states[job_id] = InstanceState.ENDED
        self.world.clock.advance(15)


@pytest.fixture(params=["one process", "apart"])
async def app(
    request: pytest.FixtureRequest, azurite: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[App]:
    requests, sent = Counter[str](), Counter[str]()
    real = DirectAccount.send

    async def send(self: DirectAccount, method: str, path: str, *args: Any, **fields: Any) -> Any:
        of_directory = path.startswith(("gates", "/gates"))
        requests["directory" if of_directory else "reads" if method == "GET" else "writes"] += 1
        sent["table bytes"] += len(fields.get("body") or b"")
        return await real(self, method, path, *args, **fields)

    monkeypatch.setattr(DirectAccount, "send", send)
    own = uuid.uuid4().hex[:12]
    async with AsyncExitStack() as closing:

        async def process() -> World:
            account = TablesAccount.connect(
                connection=azurite, endpoint=None, credential=None, version_table=f"tenants{own}"
            )
            texts = BlobTexts.connect(connection=azurite, endpoint=None, credential=None)
            closing.push_async_callback(account.close)
            closing.push_async_callback(texts.close)
            context = changed(
                world.context,
                ledger=TablesLedger(account, f"ledger{own}", texts),
                index=TablesIndex(account, f"index{own}", f"tenants{own}"),
                admissions=TablesAdmissions(account, f"index{own}", f"gates{own}"),
                incidents=TablesIncidents(account, f"index{own}", f"gates{own}"),
                allocations=TablesAllocations(account, f"gates{own}"),
                bulks=TablesBulks(account, f"index{own}", f"gates{own}"),
                gate_directory=GateDirectory(),
                recent_jobs=RecentJobs(),
                recent_ends=RecentEnds(),
            )
            return replace(world, context=context)

        http = await process()
        apart = request.param == "apart"
        durable, lane = (await process(), await process()) if apart else (http, http)
        yield App(world, http, durable, lane, requests, sent)


async def test_cost_of_a_job(app: App) -> None:
    """Writes: two at POST, the first attempt, two a step, one at the end; the end has the earlier one's clearing in it.
    A directive a step, an event a reply.

    Reads: none in one process; apart, one before each directive and one at the first ACK.
    """
    await app.job("OCR", 0)  # the tables are made sure of, and the tenant is woken
    for number in (1, 2):
        await app.job("OCR", number)
    for number, (request_type, steps) in enumerate(STEPS.items(), 3):
        for counted in (app.requests, app.sent, app.world.publisher.sent, app.world.orchestrations.raised):
            counted.clear()
        await app.job(request_type, number)
        n = len(steps)
        # the directory of gates, once in ten seconds, however many jobs there are
        assert app.requests.pop("directory") <= (1 if app.lane is app.http else 3)
        reads = 0 if app.lane is app.http else n + 1
        assert app.requests == {"writes": 4 + 2 * n} | ({"reads": reads} if reads else {})
        assert (len(app.world.publisher.sent), len(app.world.orchestrations.raised)) == (n, 2 * n)
        directives = sum(len(encode_directive(each)) for each in app.world.publisher.sent)
        assert directives <= DIRECTIVE_BYTES * n
        assert app.sent["table bytes"] <= JOB_TABLE_BYTES + STEP_TABLE_BYTES * n
        receipt = operations(*await read_history(app.lane.context, list(app.world.orchestrations.started)[-1]))
        assert (receipt.table_writes.count, receipt.table_reads.count) == (4 + 2 * n, n + 1)
    stored = await app.lane.context.ledger.read(list(app.world.orchestrations.started)[-1])
    assert stored is not None
    assert stored.record.job.status is JobStatus.SUCCEEDED
    later = await app.lane.context.index.due_for_clearing("tenant_a", now=START + timedelta(days=365), limit=10)
    assert [row.purged for row in later] == [False, False, True, True, True, True]


async def test_requests_of_a_job_with_own_gates(app: App) -> None:
    """One read more at POST and one at the end, of the admission state; its row goes with the transactions that are
    made anyway.

    A staged job costs beside that the transaction of its line and the ledger's move when it is let in, and reads: at
    POST five (the admission state and ACTIVE twice each, and the job), and at the end of whoever lets it in two (line,
    job).
    """
    gated = app.limited(max_inflight_per_tenant=2, overflow="stage")
    await gated.job("OCR", 0)
    # the second count of an admission state that was opened
    app.world.clock.advance(60)
    await gated.job("OCR", 1)
    app.requests.clear()
    await gated.job("OCR", 2)
    reads = 0 if app.lane is app.http else 2
    app.requests.pop("directory")
    # the end reads ACTIVE; its turn reads the admission state and FREED rows, and writes the admission state
    assert app.requests == {"writes": 7, "reads": reads + 4}

    first, second = await gated.post("OCR", 3), await gated.post("OCR", 4)
    app.requests.clear()
    third = await gated.post("OCR", 5)
    assert third.job.status is JobStatus.THROTTLED
    app.requests.pop("directory", None)
    posted = dict(app.requests)
    app.requests.clear()
    await gated.run(first)
    app.requests.pop("directory", None)
    let_in = dict(app.requests)
    app.requests.clear()
    await gated.run(second)
    app.requests.pop("directory", None)
    alone = dict(app.requests)
    assert posted == {"writes": 3, "reads": 1 + 6}
    assert {name: let_in[name] - alone[name] for name in alone} == {"writes": 1, "reads": 2}
    stored = await gated.lane.context.ledger.read(third.job.job_id)
    assert stored is not None
    assert stored.record.job.status is JobStatus.QUEUED


async def test_what_gates_add_to_a_job(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests, rows and messages beyond a job without gates (docs/explanation/scale.md): of one that passes at
    once, of one that an end lets in, and of one that time lets in.
    """
    rows = Counter[str]()
    real = DirectTable.submit_transaction

    async def submit(self: DirectTable, operations: Sequence[Any]) -> Any:
        rows["entities_written"] += len(operations)
        return await real(self, operations)

    monkeypatch.setattr(DirectTable, "submit_transaction", submit)
    calls: Any = app.world.context.bus.admission_calls

    def counted() -> Counter[str]:
        app.requests.pop("directory", None)
        found = Counter({f"table_{name}": count for name, count in app.requests.items()})
        found += rows + Counter({"messages": len(calls.calls)})
        for each in (app.requests, rows, calls.calls):
            each.clear()
        return found

    numbers = itertools.count()

    async def lives(gated: App, jobs: int) -> Counter[str]:
        records = [await gated.post("OCR", next(numbers)) for _ in range(jobs)]
        for record in records:
            await gated.run(record)
        return counted()

    async def beyond(found: Counter[str], *others: Counter[str]) -> Gated:
        for each in others:
            found.subtract(each)
        return Gated(**{field.name: found[field.name] for field in fields(Gated) if field.name != "executions"})

    for _ in range(3):
        plain = await lives(app, 1)
    gated = app.limited(max_inflight_per_tenant=1, overflow="stage")
    await lives(gated, 1)
    # the second count of an admission state that was opened
    app.world.clock.advance(60)
    await lives(gated, 1)
    at_once = await lives(gated, 1)
    assert await beyond(at_once.copy(), plain) == GATED["passes its gates at once"]
    assert await beyond(await lives(gated, 2), plain, at_once) == GATED["waits, and an end lets it in"]

    context, orchestrations = gated.lane.context, app.world.orchestrations
    until = app.world.clock.now() + timedelta(minutes=5)
    by = By(actor="op", reason="audit")
    await hold(context, orchestrations, Gate(GateKind.TENANT, "tenant_a"), by, until=until)
    counted()
    record = await gated.post("OCR", next(numbers))
    assert record.job.status is JobStatus.THROTTLED
    app.world.clock.advance(301)
    await notify(context, orchestrations, "tenant_a", await take_turn(context, "tenant_a"))
    await gated.run(record)
    by_time = await beyond(counted(), plain)
    assert replace(by_time, executions=by_time.messages) == GATED["waits, and time lets it in"]


@pytest.mark.parametrize("app", ["one process"], indirect=True)
async def test_forty_ends_of_a_tenant_with_gates_share_turns(app: App) -> None:
    """Each costs its commit, its own rows and a read of ACTIVE; one to three turns serve all of them.

    Their creations share transactions too.
    """
    gated = app.limited(max_inflight_per_tenant=100, overflow="stage")
    await gated.job("OCR", 0)
    app.world.clock.advance(60)
    await gated.job("OCR", 1)
    app.requests.clear()
    records = await asyncio.gather(*(gated.post("OCR", number) for number in range(2, 42)))
    # the ledger's rows of each
    created = app.requests["writes"] - 40
    assert created <= 5
    assert app.requests["reads"] <= 5
    for record in records:
        job_id = record.job.job_id
        context = gated.durable.context
        await dispatch_step(context, app.world.orchestrations, job_id=job_id, instance_id=job_id, step_id="ocr")
    sent = {each.jobId: each for each in app.world.publisher.sent}

    async def answered(record: Record, type_: str) -> None:
        directive = sent[record.job.job_id]
        answer = reply(record, type_, "ocr", attempt_no=1, lease_id=directive.lease_id)
        message = ReplyMessage(
            body=answer.model_dump_json(exclude_none=True).encode(),
            lane=directive.lane,
            message_id=f"{type_}-{record.job.job_id}",
            sequence_number=1,
            delivery_count=1,
            enqueued_at=app.world.clock.now(),
        )
        await receive_reply(gated.lane.context, app.world.orchestrations, message)

    await asyncio.gather(*(answered(record, "ACK") for record in records))
    app.requests.clear()
    await asyncio.gather(*(answered(record, "RESULT") for record in records))
    turns = app.requests["writes"] - 2 * 40
    assert 1 <= turns <= 3
    # a turn of two reads, too, whose rows the turn before it took
    assert app.requests["reads"] <= 40 + 2 * (turns + 2)
    stored = await gated.lane.context.admissions.read("tenant_a")
    assert stored is not None
    assert stored.admission.active == 0


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


def _nobody(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Goes on beside nothing: a cost is what was asked for."""
    work.close()
    return asyncio.get_running_loop().create_future()  # type: ignore[return-value]


class CountedFiles(KeptInMemory):
    """Counts reads and writes; a list costs what a write does."""

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
