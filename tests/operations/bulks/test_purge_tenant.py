"""Purge: of a tenant that has rows of each kind only the documented ones remain; other tenants do not notice."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import replace
from typing import Any

import pytest

from shared.adapters.tables.purging import RULES, Leaving
from shared.adapters.tables.table import delete_row
from shared.archive_refusals import TenantLive
from shared.core.bulks import BulkAction, BulkState
from shared.core.filters import JobFilter
from shared.core.incidents import IncidentKind, open_incident
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.errors import Conflict, LedgerUnavailable
from shared.operations.bulks.bulks import cancel_bulk, read_bulk, start_bulk
from shared.operations.bulks.purge_tenant import preview_purge, purge_step
from shared.operations.bulks.work_bulk import work_bulk
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.list_jobs import list_jobs
from shared.operations.jobs.read_history import read_history
from shared.operations.process.parts import Process
from shared.refusals import BulkKeyConflict
from tests.isolation.world import OTHER, VICTIM
from tests.jobs import envelope
from tests.operations.faults import noted
from tests.operations.support import by
from tests.worlds.purging import Purging, add_leftovers, populated, purging

__all__ = ["populated", "purging"]  # fixtures


def _words(rows: dict[tuple[str, str, str], Any]) -> set[str]:
    """As the table of retentions names them."""
    shared = {"directory", "incidents", "=guard", "=minutes", "books", "bulks", "asks", "tenants", "=feeds", "=hooks"}
    found = set()
    for _, partition, key in rows:
        word = key.partition(":")[0]
        whole = partition in ("bulks", "asks", "tenants", "=feeds", "=hooks")
        found.add(partition if whole else f"{partition} {word}" if partition in shared else word)
    return found


#: rows that may remain of a purged tenant
STAYS = {word for word, rule in RULES.items() if rule is Leaving.STAYS} | {"BULK", "bulks"}


async def test_nothing_is_left_but_what_is_named(purging: Purging) -> None:
    """Rows of each kind went; the rows and blobs of another tenant are as they were."""
    before, others = purging.of(VICTIM), purging.of(OTHER)
    kinds = _words(before)
    expected = {"CLAIM", "LIST", "ARCHIVED", "ENDED", "GATES", "GATELOG", "USAGE", "SOURCE", "BULKKEY"}
    expected |= {"E", "SEEN", "HOOK", "tenants", "directory TENANTS", "incidents OF"}
    assert expected <= kinds, expected - kinds
    assert any(name[0] == "blobs" for name in before)
    [blob] = purging.texts.kept  # of two tenants: equal bodies are one blob
    # a list of all tenants, which is read once, for a feed of any length
    dropped = noted(purging.context.bulks, "drop_due_before")
    bulk = await purging.worked(await purging.started())
    assert (bulk.state, bulk.refused, bulk.open, len(dropped)) == (BulkState.DONE, 0, 0, 1)
    assert bulk.done == bulk.matched > 5
    after = purging.of(OTHER)
    left = await purging.left()
    assert _words(left) <= STAYS
    assert [*purging.texts.kept] == [blob]
    # the ids of the tenant's incidents lead to no row either
    gone = {
        key.rpartition(":")[2] for _, partition, key in before if partition == "incidents" and key.startswith("OF:")
    }
    assert gone
    assert not [key for *_, key, row in purging.account.rows() if gone & {key, *map(str, row.values.values())}]
    assert [key for _, _, key in left if key.startswith("BULK:")] == [f"BULK:{bulk.bulk_id}"]
    assert {key.partition(":")[2] for _, partition, key in left if partition == "bulks"} == {bulk.bulk_id}
    changed = {name for name in others if after.get(name) != others[name]}
    assert {key.partition(":")[0] for _, _, key in changed} <= {"VERSION", "BOOK", "TENANTS", "MINUTE"}, changed
    # nothing is left to do, and the tenant can begin again
    again = await purging.worked(await purging.started("once more"))
    assert (again.matched, again.state) == (0, BulkState.DONE)
    await add_leftovers(purging, VICTIM)


async def test_a_tenant_with_living_jobs_is_refused(purging: Purging) -> None:
    """With their number; nothing is changed. A preview counts them too."""
    context = purging.context
    for number in range(2):
        body = envelope(tenant_id=VICTIM, doc_id=f"lives-{number}")
        await create_job(context, purging.orchestrations, body, correlation_id=None)
    before = purging.of(VICTIM)
    with pytest.raises(TenantLive) as refused:
        await purging.started()
    assert refused.value.members == {"living": 2}
    preview = await preview_purge(context, VICTIM)
    assert preview.living == 2
    assert preview.jobs > 5
    assert purging.of(VICTIM) == before


@pytest.mark.parametrize("steps", [0, 30])
async def test_asked_twice_it_is_one_purge(purging: Purging, steps: int) -> None:
    """A request with the same reason returns the same purge; another reason is a conflict while the purge runs."""
    bulk = await purging.started()
    for number in range(3000):
        await purging.archive.put(f"{VICTIM}/202601/job_{number}.json", "{}")
    await purging.worked_steps(bulk, steps)
    assert (await purging.started()).bulk_id == bulk.bulk_id
    with pytest.raises(BulkKeyConflict, match=f"another reason is running: bulk operation {bulk.bulk_id}"):
        await purging.started("another reason")
    assert (await purging.worked(bulk)).state is BulkState.DONE
    assert (await purging.started("another reason")).bulk_id != bulk.bulk_id


async def test_a_key_of_a_caller_is_not_the_key_of_a_purge(purging: Purging) -> None:
    """A bulk operation of a caller with the key `purge` neither stops a purge nor becomes one."""
    words = {"status": "QUEUED"}
    fields: dict[str, Any] = {"tenant": VICTIM, "action": BulkAction.CANCEL, "words": words, "actor": "op"}
    own, _ = await start_bulk(purging.context, **fields, reason="r", key="purge")
    purge = await purging.started()
    assert (purge.action, own.action) == (BulkAction.PURGE, BulkAction.CANCEL)
    assert purge.bulk_id != own.bulk_id


@pytest.mark.parametrize("has_key", [True, False])
async def test_an_older_purge_leaves_the_key_of_a_later_one(purging: Purging, has_key: bool) -> None:
    """A cancelled purge releases the key. Its deletion leaves that of the next one, which ends without it too."""
    first = await purging.started()
    await cancel_bulk(purging.context, VICTIM, first.bulk_id)
    second = await purging.started("another reason")
    assert second.bulk_id != first.bulk_id
    assert await purging.context.bulks.remove(first, limit=100)
    key = await purging.context.bulks.find_key(VICTIM, second.key or "")
    assert key is not None
    assert key.bulk_id == second.bulk_id
    if not has_key:
        name = f"BULKKEY:{second.key}"
        [(table, partition, row)] = [each[:3] for each in purging.account.rows() if each[2] == name]
        await purging.account.of(table).submit_transaction([delete_row(partition, row)])
    assert (await purging.worked(second)).state is BulkState.DONE


@pytest.mark.parametrize("steps", [0, 1, 3])
async def test_a_job_that_comes_meanwhile_stays(purging: Purging, steps: int) -> None:
    """Race purge: it runs to its end, and its history is whole; the purge counts it. Another purge deletes it."""
    context, bulk = purging.context, await purging.started()
    purging.clock.advance(1)
    await purging.worked_steps(bulk, steps)
    body = envelope(tenant_id=VICTIM, doc_id="meanwhile")
    created = await create_job(context, purging.orchestrations, body, correlation_id=None)
    job_id = created.stored.record.job.job_id
    done = await purging.worked(bulk)
    assert (done.refused, done.state) == (1, BulkState.DONE)
    record, events = await read_history(context, job_id)
    assert (record.job.status, len(events)) == (JobStatus.QUEUED, record.job.event_seq)
    stored = await control_job(context, purging.orchestrations, job_id, ControlKind.CANCEL, by("stop"))
    assert stored.record.job.status is JobStatus.CANCELLED
    assert await context.index.read_active(VICTIM, job_id) is None
    purging.clock.advance(2 * 3600)
    assert (await purging.worked(await purging.started())).refused == 0
    assert _words(await purging.left()) <= STAYS


async def test_two_workers_purge_while_jobs_come(purging: Purging, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race purge: two requests are one purge; a worker that lost its turn is still at work. Each job that comes
    meanwhile keeps its whole history, and another purge deletes it.
    """
    context, chance, made = purging.context, random.Random(1), list[str]()
    for name in ("get_entity", "write", "submit_transaction"):
        honest = getattr(type(purging.account.of("x")), name)

        async def waits(table: Any, *args: Any, honest: Any = honest) -> Any:
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
            return await honest(table, *args)

        monkeypatch.setattr(type(purging.account.of("x")), name, waits)
    bulk, other = await asyncio.gather(purging.started(), purging.started())
    assert bulk.bulk_id == other.bulk_id
    purging.clock.advance(1)

    async def works() -> None:
        own = replace(context, process=Process())
        while (stored := await context.bulks.read(VICTIM, bulk.bulk_id)) and stored.bulk.state is BulkState.RUNNING:
            with contextlib.suppress(Conflict):
                _, wait_s = await purge_step(own, purging.orchestrations, stored)
                purging.clock.advance(wait_s)

    async def comes(number: int) -> None:
        for _ in range(number * 20):
            await asyncio.sleep(0)
        body = envelope(tenant_id=VICTIM, doc_id=f"meanwhile-{number}")
        created = await create_job(context, purging.orchestrations, body, correlation_id=None)
        made.append(job_id := created.stored.record.job.job_id)
        if number % 2:
            await control_job(context, purging.orchestrations, job_id, ControlKind.CANCEL, by("stop"))

    await asyncio.gather(works(), works(), *map(comes, range(6)))
    monkeypatch.undo()
    done = await read_bulk(context, VICTIM, bulk.bulk_id)
    assert (done.state, done.refused > 0) == (BulkState.DONE, True)
    page = await list_jobs(context, JobFilter(tenant_id=VICTIM), after=None, limit=20)
    assert {each.jobId for each in page.lines} == {*made}
    for job_id in made:
        record, events = await read_history(context, job_id)
        assert len(events) == record.job.event_seq
        if not record.job.status.terminal:
            await control_job(context, purging.orchestrations, job_id, ControlKind.CANCEL, by("stop"))
    purging.clock.advance(2 * 3600)
    assert (await purging.worked(await purging.started())).refused == 0
    assert _words(await purging.left()) <= STAYS


async def test_a_purge_that_dies_anywhere_is_finished(purging: Purging, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fifth of all writes fail; a repeated call continues, and the result is the same."""
    bulk, chance, failed = await purging.started(), random.Random(1), 0
    for name in ("write", "submit_transaction"):
        honest = getattr(type(purging.account.of("x")), name)

        async def failing(table: Any, *args: Any, honest: Any = honest) -> Any:
            nonlocal failed
            if chance.random() < 0.2:
                failed += 1
                raise LedgerUnavailable
            return await honest(table, *args)

        monkeypatch.setattr(type(purging.account.of("x")), name, failing)
    for _ in range(2000):
        try:
            found = await read_bulk(purging.context, VICTIM, bulk.bulk_id)
            if found.state is not BulkState.RUNNING:
                break
            purging.clock.time = max(purging.clock.time, found.look_at)
            await work_bulk(purging.context, purging.orchestrations, VICTIM, bulk.bulk_id)
        except LedgerUnavailable:
            continue
    monkeypatch.undo()
    assert failed > 10
    assert found.state is BulkState.DONE
    assert _words(await purging.left()) <= STAYS


async def test_bundles_that_no_row_names_go_in_pages(purging: Purging, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step deletes at most 100 of them; a step that fails in between is repeated. Other tenants' bundles stay."""
    bulk, left, removed = await purging.started(), 350, list[int]()
    for tenant in (VICTIM, OTHER):
        for number in range(left):
            await purging.archive.put(f"{tenant}/202601/job_{number}.json", "{}")
    others = {name for name in purging.archive.kept if not name.startswith(f"{VICTIM}/")}
    honest = purging.archive.remove

    async def failing(prefix: str, *, limit: int) -> bool:
        before = len(purging.archive.kept)
        more = await honest(prefix, limit=limit)
        removed.append(before - len(purging.archive.kept))
        if len(removed) % 2:
            raise LedgerUnavailable
        return more

    monkeypatch.setattr(purging.archive, "remove", failing)
    done = None
    while done is None:
        with contextlib.suppress(LedgerUnavailable):
            done = await purging.worked(bulk)
    assert done.state is BulkState.DONE
    assert max(removed) == 100
    assert purging.archive.kept.keys() == others


async def test_an_open_incident_is_settled_and_deleted(purging: Purging) -> None:
    """With its log and the row that keeps a second one of its subject out."""
    about = {"tenant": VICTIM, "request_type": "OCR", "code": "BREAKER_OPENED", "detail": None}
    incident, entry = open_incident(IncidentKind.BREAKER, "another", at=purging.clock.now(), **about)
    assert await purging.context.incidents.open(incident, entry)
    await purging.worked(await purging.started())
    assert await purging.context.incidents.find_open(incident.kind, "another") is None
    assert not [key for *_, key, _ in purging.account.rows() if incident.id in key]
