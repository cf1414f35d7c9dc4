"""A job with a status of a later release, on the real tables: this release leaves it alone, and other jobs continue
(R44).
"""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from shared.access.caller import Caller
from shared.adapters.scoped.stores import TenantLedger
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.adapters.tables.table import merge_row
from shared.core.filters import JobFilter
from shared.core.jobs.states import JobStatus
from shared.errors import UnknownStatus
from shared.operations.jobs.list_jobs import list_jobs
from shared.operations.jobs.replies.receive import ReplyMessage
from shared.operations.usage.sum_receipts import sum_receipts
from tests.adapters.conftest import Storage
from tests.jobs import START, reply
from tests.operations.conftest import World, built
from tests.operations.support import dispatch, submitted
from triggers.replies_bus import receive

pytestmark = pytest.mark.parametrize("storage", ["tables"], indirect=True)
LATER = "OF_A_LATER_RELEASE"


async def one_later_of_two(storage: Storage) -> tuple[World, str, str, bytes]:
    """A job of a later release, one of this, and the ACK of the former."""
    assert isinstance(storage.ledger, TablesLedger)
    assert isinstance(storage.index, TablesIndex)
    world = built(storage.ledger)  # type: ignore[arg-type]  # any ledger will do
    world = replace(world, context=replace(world.context, index=storage.index))
    later, ours = [await submitted(world, request_type="OCR", payload={}, doc_id=name) for name in ("later", "ours")]
    await dispatch(world, later)
    ack = reply(await world.job(later), "ACK").model_dump_json(exclude_none=True).encode()
    ledger = await storage.ledger._rows.account.table(storage.ledger._rows.name)
    await ledger.write(merge_row({"PartitionKey": later, "RowKey": "JOB", "status": LATER}))
    index = await storage.index._rows.account.table(storage.index._rows.name)
    async for row in index.query_entities(f"job_id eq '{later}' and status eq 'QUEUED'"):
        await index.write(merge_row({"PartitionKey": row["PartitionKey"], "RowKey": row["RowKey"], "status": LATER}))
    return world, later, ours, ack


async def test_lists_and_sums_leave_it_out(storage: Storage) -> None:
    """With and without a filter, and in the receipts."""
    world, _, ours, _ = await one_later_of_two(storage)
    for statuses in (None, frozenset({JobStatus.QUEUED})):
        whose = JobFilter(tenant_id="tenant_a", statuses=statuses)
        page = await list_jobs(world.context, whose, after=None, limit=10)
        assert [line.jobId for line in page.lines] == [ours]
    sums, _ = await sum_receipts(world.context, JobFilter(tenant_id="tenant_a"), after=None, limit=10)
    assert sums["jobs"] == 1


async def test_another_tenant_does_not_learn_of_it(storage: Storage) -> None:
    """For another tenant there is no such job; its own tenant can repeat the request at a newer instance."""
    world, later, _, _ = await one_later_of_two(storage)
    own, other = (Caller(actor="a", scopes=frozenset(), tenant=tenant) for tenant in ("tenant_a", "tenant_b"))
    assert await TenantLedger(world.context.ledger, other).read(later) is None
    with pytest.raises(UnknownStatus, match=LATER):
        await TenantLedger(world.context.ledger, own).read(later)


async def test_its_reply_holds_no_place_of_the_lane(storage: Storage) -> None:
    """It is given back at once, for an instance of the later release."""
    world, _, _, ack = await one_later_of_two(storage)
    message = ReplyMessage(body=ack, lane=15, message_id="m", sequence_number=1, delivery_count=1, enqueued_at=START)
    waits: list[float] = []

    async def sleeping(seconds: float) -> None:
        waits.append(seconds)

    with pytest.raises(UnknownStatus):
        await receive(replace(world.context, sleep=sleeping), world.orchestrations, message, time.monotonic())
    assert waits == []
