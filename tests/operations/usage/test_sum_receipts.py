from datetime import timedelta
from typing import Any

import pytest

from shared.api.receipt import PARTS, Operation, Operations, operations, receipt
from shared.core.filters import JobFilter
from shared.core.jobs.states import JobStatus
from shared.operations.jobs.read_history import read_history
from shared.operations.usage.sum_receipts import Grouping, sum_receipts
from tests.jobs import START, body
from tests.operations.conftest import World
from tests.operations.faults import noted
from tests.operations.jobs.test_archived_dependencies import archives
from tests.operations.support import (
    cancelled,
    dispatch,
    eventful,
    failed_at_embedding,
    redrive,
    service_sends,
    settle,
    submitted,
)


async def plain(world: World, **changes: object) -> str:
    """A job of three steps without faults."""
    job_id = await submitted(world, **changes)
    for number, step_id in enumerate(("ocr", "embedding", "sis")):
        await dispatch(world, job_id, step_id)
        await service_sends(world, job_id, "ACK", 10 * number, step_id=step_id)
        world.clock.advance(5)
        await service_sends(world, job_id, "RESULT", 10 * number + 1, step_id=step_id)
    return job_id


async def cost(world: World, job_id: str) -> Operations:
    return operations(*await read_history(world.context, job_id))


async def test_a_job_without_faults_costs_its_bound(world: World) -> None:
    """N directives, 2N replies, 4 + 2N table writes for N steps, as counted at the ports."""
    in_ledger, in_index = noted(world.ledger, "commit", "create"), noted(world.index, "reserve", "close")
    job_id = await plain(world)
    assert body(await cost(world, job_id)) == {
        "directives": {"count": 3, "bound": 3},
        "replies": {"count": 6, "bound": 6},
        "table_writes": {"count": 10, "bound": 10},
        "table_reads": {"count": 4, "bound": 4},
        "episodes": {"count": 10, "bound": 10},
        "beyond": {},
    }
    assert (len(in_ledger) + len(in_index), len(world.publisher.sent)) == (10, 3)


async def test_beyond_lists_why_a_job_cost_more(world: World) -> None:
    """Attempts, publish faults, heartbeats and late replies beyond the recorded ones are in the count."""
    job_id = await submitted(world, request_type="OCR", payload={})
    world.publisher.failing = True
    await dispatch(world, job_id)
    world.publisher.failing = False
    world.clock.advance(40)
    await dispatch(world, job_id)
    for number in range(25):
        await service_sends(world, job_id, "ACK", number, lease_id="another")
    costs = await cost(world, job_id)
    assert (costs.directives, len(world.publisher.sent)) == (Operation(count=1, bound=1), 1)
    assert costs.replies == Operation(count=25, bound=2)
    # the claim, the rows, the attempt, the fault, the renewal, and each late reply
    assert costs.table_writes == Operation(count=30, bound=6)
    # the attempt, the renewal, and two for each late reply
    assert costs.table_reads == Operation(count=52, bound=2)
    # the start, the attempt, the fault and its timer, the renewal
    assert costs.episodes == Operation(count=4, bound=4)
    assert costs.beyond == {"LEASE_RENEWED": 1, "PUBLISH_FAILED": 1, "REPLY_IGNORED": 20}


async def test_a_late_dispatch_sends_one_directive(world: World) -> None:
    """The attempt that the RESULT recorded gets a new lease, and its directive is sent once."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    world.clock.advance(11)
    await dispatch(world, job_id, "embedding")
    costs = await cost(world, job_id)
    assert costs.beyond == {"LEASE_RENEWED": 1}
    assert costs.directives.count == len(world.publisher.sent) == 2


async def test_a_late_result_needs_a_read(world: World) -> None:
    """A process keeps its commits for a minute."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    await service_sends(world, job_id, "ACK", 1)
    world.clock.advance(61)
    await service_sends(world, job_id, "RESULT", 2)
    assert (await cost(world, job_id)).table_reads == Operation(count=3, bound=2)


async def test_our_own_backlog_is_a_gate_of_its_own(world: World) -> None:
    """Time past a lease while the lane is full is neither the service's nor a wait for its ACK."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    world.lanes.waiting_directives = [(f"{job_id}:ocr:1", world.clock.now())]
    world.clock.advance(30)
    await settle(world, job_id)
    world.clock.advance(20)
    costs = receipt(*await read_history(world.context, job_id), world.clock.now())
    assert (costs.total.ack_s, costs.total.backlog_s) == (30, 20)
    assert sum(body(costs.total).values()) == costs.elapsed_s == 50


async def test_sums_are_those_of_the_jobs(world: World) -> None:
    """By tenant and time range, page by page; another tenant's jobs are not in it."""
    ids = [await plain(world, doc_id="1"), await eventful(world), await failed_at_embedding(world)]
    world.clock.advance(3600)
    ids.append((await redrive(world, ids[-1])).stored.record.job.job_id)
    await plain(world, tenant_id="tenant_b")
    now = world.clock.now()
    receipts = [receipt(*await read_history(world.context, job_id), now) for job_id in ids]
    pages, after = [], None
    while True:
        page, found = await sum_receipts(world.context, JobFilter(tenant_id=" Tenant_A "), after=after, limit=2)
        pages.append(page)
        if (after := found.after) is None:
            break
    assert [page["jobs"] for page in pages] == [2, 2]
    assert {page["tenant_id"] for page in pages} == {"tenant_a"}
    for part in PARTS:
        expected = sum(getattr(each.total, part) for each in receipts)
        assert sum(getattr(page["total"], part) for page in pages) == pytest.approx(expected)
    expected = sum(each.operations.table_writes.count for each in receipts)
    assert sum(page["operations"].table_writes.count for page in pages) == expected
    young = await sums(world, since=now - timedelta(seconds=60))
    assert (young["jobs"], young["by_status"]) == (1, {"QUEUED": 1})
    assert (await sums(world, until=START))["jobs"] == 0
    failed = await sums(world, statuses=frozenset({JobStatus.FAILED_FINAL}), label=("team", "red"))
    assert (failed["jobs"], failed["by_status"]) == (1, {"FAILED_FINAL": 1})


async def test_jobs_that_cannot_be_read_are_counted(world: World) -> None:
    """On each page, which has the others. Of archived jobs the bundle is read: one is gone, one another one's."""
    ids = []
    for number in range(4):
        ids.append(await submitted(world, doc_id=str(number)))
        await cancelled(world, ids[-1])
        await archives(world, ids[-1])
    gone, wrong, whole, _ = (name for job_id in ids for name in world.archive.kept if job_id in name)
    world.archive.kept[wrong] = world.archive.kept[whole]
    del world.archive.kept[gone]
    archived = JobFilter(tenant_id="tenant_a", archived=True)
    first, found = await sum_receipts(world.context, archived, after=None, limit=2)
    assert (first["jobs"], first["unreadable"]) == (2, 0)
    second, found = await sum_receipts(world.context, archived, after=found.after, limit=2)
    assert (second["jobs"], second["unreadable"], found.after) == (0, 2, None)


async def sums(world: World, **job_filter: Any) -> dict[str, Any]:
    found, _ = await sum_receipts(world.context, JobFilter(tenant_id="tenant_a", **job_filter), after=None, limit=100)
    return found


async def test_sums_by_what_jobs_have_in_common(world: World) -> None:
    """Of each type, source or priority; the groups add up to the total, and a source is compared as gates do."""
    await plain(world)
    await submitted(world, request_type="OCR", payload={}, source="Scanner ", priority="low")
    await submitted(world, request_type="OCR", payload={}, source="scanner", doc_id="2")

    async def jobs(by: Grouping | None) -> dict[str, int] | None:
        job_filter = JobFilter(tenant_id="tenant_a")
        sums, _ = await sum_receipts(world.context, job_filter, after=None, limit=10, by=by)
        groups = sums.get("groups")
        assert groups is None or sum(group.elapsed_s for group in groups.values()) == sums["elapsed_s"]
        return {key: group.jobs for key, group in groups.items()} if groups is not None else None

    assert await jobs(None) is None
    assert await jobs(Grouping.TYPE) == {"OCR": 2, "OCR_EMBEDDING_SIS": 1}
    assert await jobs(Grouping.SOURCE) == {"": 1, "scanner": 2}
    assert await jobs(Grouping.PRIORITY) == {"low": 1, "normal": 2}
