"""Purge: of a tenant that has rows of each kind nothing is left but what the docs name; other tenants do not notice."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.memory_tables import MemoryAccount, MemoryTexts, Row
from shared.adapters.tables.purging import RULES, Leaving
from shared.adapters.tables.table import delete_row
from shared.archive_refusals import TenantLive
from shared.core.bulks import Bulk, BulkState
from shared.core.filters import JobFilter
from shared.core.incidents import IncidentKind, opened
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.states import JobStatus
from shared.errors import Conflict, LedgerUnavailable
from shared.operations.bulks.bulks import cancel_bulk, read_bulk
from shared.operations.bulks.purge_tenant import preview_purge, purge_step, start_purge
from shared.operations.bulks.work_bulk import work_bulk
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.list_jobs import list_jobs
from shared.operations.jobs.read_history import read_history
from shared.operations.process.context import Context
from shared.operations.process.parts import Events, Process
from shared.operations.sweeper.sweep import sweep
from shared.ports.durable import InstanceState
from shared.ports.rejected import RejectedMessage, rejection_id
from shared.refusals import BulkKeyConflict
from shared.store_wiring import stores_over
from tests.isolation.faults import Kind
from tests.isolation.world import EVERYTHING, OTHER, VICTIM
from tests.isolation.world import World as Populated
from tests.jobs import envelope
from tests.operations.conftest import RecordingOrchestrations, StillClock
from tests.operations.faults import noted
from tests.operations.support import by

#: names of tables in the populated world, by the setting of the app
_TABLES = {
    **{"ledger_table": "ledger", "index_table": "index", "tenants_table": "tenants", "gates_table": "gates"},
    **{"rejected_table": "rejected", "feed_table": "feed"},
}
_LONG = "x" * 40_000


class Engine(RecordingOrchestrations):
    """An orchestration that is terminated has ended."""

    async def terminate(self, instance_id: str, reason: str) -> None:
        await super().terminate(instance_id, reason)
        self.states[instance_id] = InstanceState.ENDED


@dataclass
class Purging:
    """A process over a copy of the populated world's tables, days later."""

    account: MemoryAccount
    texts: MemoryTexts
    archive: MemoryTexts
    context: Context
    orchestrations: RecordingOrchestrations
    clock: StillClock

    async def started(self, reason: str = "the contract has ended") -> Bulk:
        return (await start_purge(self.context, VICTIM, reason=reason, actor="app:1"))[0]

    async def worked(self, bulk: Bulk, calls: int = 500) -> Bulk:
        """Calls until the bulk has ended, each when it is due."""
        for _ in range(calls):
            found = await read_bulk(self.context, VICTIM, bulk.bulk_id)
            if found.state is not BulkState.RUNNING:
                return found
            self.clock.time = max(self.clock.time, found.look_at)
            await work_bulk(self.context, self.orchestrations, VICTIM, bulk.bulk_id)
        raise AssertionError("it does not end")

    async def worked_steps(self, bulk: Bulk, steps: int) -> None:
        stored = await self.context.bulks.read(VICTIM, bulk.bulk_id)
        assert stored is not None
        for _ in range(steps):
            stored, _ = await purge_step(self.context, self.orchestrations, stored)

    async def left(self) -> dict[tuple[str, str, str], Any]:
        """Of the tenant, after a sweep, which forgets that it had webhooks."""
        await sweep(self.context, self.orchestrations)
        return self.of(VICTIM)

    def of(self, tenant: str) -> dict[tuple[str, str, str], Any]:
        """The rows that name the tenant in a key or in a value, and blobs."""
        found: dict[tuple[str, str, str], Any] = {}
        for table, partition, key, row in self.account.rows():
            if tenant in f"{partition} {key}" or tenant in str([*row.values.values()]):
                found[table, partition, key] = row.values
        for store in (self.texts, self.archive):
            found |= {("blobs", "", name): text for name, text in store.kept.items() if tenant in name}
        return found


def _words(rows: dict[tuple[str, str, str], Any]) -> set[str]:
    """As the table of retentions names them."""
    shared = {"directory", "incidents", "=guard", "=minutes", "books", "bulks", "asks", "tenants", "=feeds", "=hooks"}
    found = set()
    for _, partition, key in rows:
        word = key.partition(":")[0]
        whole = partition in ("bulks", "asks", "tenants", "=feeds", "=hooks")
        found.add(partition if whole else f"{partition} {word}" if partition in shared else word)
    return found


@pytest.fixture(scope="module")
def populated() -> Populated:
    """Jobs with everything that a job can have, of three tenants; each has ended."""
    world = Populated(None, Kind.MISSING, EVERYTHING)
    asyncio.run(world.run())
    return world


@pytest.fixture
def purging(populated: Populated) -> Purging:
    """The tenant has a rejected message and archived jobs too."""
    return asyncio.run(_purging(populated))


async def _purging(populated: Populated) -> Purging:
    app, account, clock = populated.app, MemoryAccount(), StillClock()
    settings = replace(app.context.settings, retention_days=31)
    for setting, name in _TABLES.items():
        table = account.of(getattr(settings, setting))
        for partition, part in app.account.of(name).partitions.items():
            for key, row in part.rows.items():
                table.partitions[partition].put(key, Row(dict(row.values), row.etag, row.longs))
    # ETags of new rows must not be those of old ones
    account._etags = app.account._etags
    texts, archive = MemoryTexts(), MemoryTexts()
    clock.time = app.now() + timedelta(days=40)
    stores = stores_over(account, texts, archive, settings, clock.now)
    assert app.context.events is not None
    named = {each: getattr(stores, each) for each in ("ledger", "index", "admissions", "allocations", "bulks")}
    named |= {each: getattr(stores, each) for each in ("incidents", "rejected", "archive", "usage", "answers")}
    events: Events = replace(app.context.events, feed=stores.feed, hooks=stores.hooks)
    context = replace(
        app.context,
        settings=settings,
        **named,
        sweep_marks=stores.sweep_marks,
        minutes=stores.minutes,
        events=events,
        process=Process(),
        clock=clock,
        sleep=_no_sleep,
    )
    orchestrations = Engine()
    purging = Purging(account, texts, archive, context, orchestrations, clock)
    for _ in range(3):
        await sweep(context, orchestrations)
        clock.advance(60)
    for tenant in (VICTIM, OTHER):
        await _leave(purging, tenant)
    clock.advance(2 * 3600)
    return purging


async def _no_sleep(seconds: float) -> None:
    return None


async def _leave(purging: Purging, tenant: str) -> None:
    context = purging.context
    body = envelope(tenant_id=tenant, doc_id="late", request_type="OCR", payload={}, source="scanner")
    created = await create_job(context, purging.orchestrations, body, correlation_id=None)
    job_id = created.stored.record.job.job_id
    await control_job(context, purging.orchestrations, job_id, ControlKind.CANCEL, by("stop"))
    id_ = rejection_id(purging.clock.now(), lane=0, message_id=f"m-{tenant}", sequence_number=1)
    place = {"lane": 0, "message_id": f"m-{tenant}", "sequence_number": 1, "delivery_count": 1}
    message = RejectedMessage(
        id=id_, received_at=purging.clock.now(), reason="NOT_JSON", detail="", tenant=tenant, body=_LONG, **place
    )
    await context.rejected.quarantine(message)


#: what may be left of a purged tenant
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
    # a list of all tenants, which is read once, however long the feed is
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
    await _leave(purging, VICTIM)


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
    """For the same reason, however far it is; for another one it is a conflict while it runs."""
    bulk = await purging.started()
    for number in range(3000):
        await purging.archive.put(f"{VICTIM}/202601/job_{number}.json", "{}")
    await purging.worked_steps(bulk, steps)
    assert (await purging.started()).bulk_id == bulk.bulk_id
    with pytest.raises(BulkKeyConflict):
        await purging.started("another reason")
    assert (await purging.worked(bulk)).state is BulkState.DONE
    assert (await purging.started("another reason")).bulk_id != bulk.bulk_id


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
    """A fifth of all writes fail; what is called again goes on, and the end is the same."""
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
    incident, entry = opened(IncidentKind.BREAKER, "another", at=purging.clock.now(), **about)
    assert await purging.context.incidents.open(incident, entry)
    await purging.worked(await purging.started())
    assert await purging.context.incidents.find_open(incident.kind, "another") is None
    assert not [key for *_, key, _ in purging.account.rows() if incident.id in key]
