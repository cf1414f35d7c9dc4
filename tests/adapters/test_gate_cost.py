"""The cost that quotas add to a job."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from benchmarks.scale.job import GATED, Gated
from shared.adapters.tables.direct import DirectTable
from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.job import Record
from shared.core.jobs.states import JobStatus
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.quotas.quotas import By, hold
from tests.adapters.job_cost import App, app, world
from tests.jobs import reply

__all__ = ["app", "world"]  # fixtures


async def test_requests_of_a_job_with_own_gates(app: App) -> None:
    """One read more at POST and one at the end, of the admission state; its row is written in transactions that exist
    anyway.

    A staged job also costs the transaction of its queue and the ledger's transition at its admission, and reads: five
    at POST (the admission state and ACTIVE twice each, and the job), and two at the end of the job that admits it
    (queue, job).
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
    """Requests, rows and messages beyond a job without quotas (docs/explanation/scale.md): of one that passes at once,
    of one that an end admits, and of one that time admits.
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
    assert await beyond(at_once.copy(), plain) == GATED["admitted immediately"]
    assert await beyond(await lives(gated, 2), plain, at_once) == GATED["waits, admitted after another job ended"]

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
    assert replace(by_time, executions=by_time.messages) == GATED["waits, admitted by a wake-up"]


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
    # a turn of two reads too, whose rows the previous turn took
    assert app.requests["reads"] <= 40 + 2 * (turns + 2)
    stored = await gated.lane.context.admissions.read("tenant_a")
    assert stored is not None
    assert stored.admission.active == 0
