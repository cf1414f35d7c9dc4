"""INCIDENT rows over the memory and the real tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.adapters.tables import incidents as tables_incidents
from shared.adapters.tables.table import upsert_row
from shared.adapters.tables.table_rows import TableRows, between
from shared.core.events.public_log_events import incident_events
from shared.core.incidents import (
    Incident,
    IncidentKind,
    IncidentState,
    Settlement,
    find_opening_time,
    incident_of,
    job_incident_id,
    open_incident,
)
from shared.core.incidents import apply_settlement as core_settled
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.core.records.chained_log import entry_hash
from shared.errors import Contended
from shared.ports.dead_letters import LetterState
from tests.adapters.conftest import Storage
from tests.jobs import START, planned

TENANT = "tenant_a"
RESOLVED = Settlement(state=IncidentState.RESOLVED, actor="jane", reason="repaired", at=START + timedelta(hours=1))
RETRIED = replace(RESOLVED, state=IncidentState.RETRIED, retried_by="job_9")


async def ended(storage: Storage, number: int = 1, **changes: Any) -> Job:
    """Returns a job that failed this number of minutes after the start."""
    created = planned(f"job_{number}", doc_id=f"doc-{number}").job
    await storage.index.reserve(created, replacing=None)
    job = replace(
        created,
        **{
            "status": JobStatus.FAILED_FINAL,
            "error_code": "ATTEMPTS_EXHAUSTED",
            "error_message": "no ACK — három próba",
            "event_seq": 9,
            "completed_at": START + timedelta(minutes=number, microseconds=123_456),
            **changes,
        },
    )
    await storage.index.close(job, claim_expires_at=START + timedelta(days=30))
    return job


async def found(storage: Storage, job: Job) -> Incident | None:
    at = job.completed_at or START
    return await storage.incidents.read(job.tenant, job_incident_id(job.job_id), at)


async def checked_log(storage: Storage, incident: Incident) -> list[str]:
    log = await storage.incidents.log(incident, after=0, limit=10)
    assert [entry.hash for entry in log] == [entry_hash(vars(entry)) for entry in log]
    assert [entry.prev_hash for entry in log] == ["", *(entry.hash for entry in log[:-1])]
    assert await storage.incidents.log(incident, after=1, limit=1) == log[1:2]
    return [entry.type for entry in log]


async def ids(storage: Storage, **options: Any) -> list[str]:
    rows = await storage.incidents.list_at(TENANT, **{"after": None, "limit": 10, **options})
    return [row.incident.id for row in rows]


def of_no_job(subject: str = "ocr", minutes: int = 0, tenant: str | None = None) -> Any:
    return open_incident(
        IncidentKind.SERVICE,
        subject,
        tenant=tenant,
        request_type=None,
        code="SERVICE_SILENT",
        detail=None,
        at=START + timedelta(minutes=minutes, microseconds=29_001),
    )


async def test_a_jobs_end_writes_its_incident(storage: Storage) -> None:
    """In the same transaction as all of its end, every column as the core made it; other ends write none."""
    job = await ended(storage)
    made = incident_of(job)
    assert made is not None
    assert await found(storage, job) == made[0]
    assert await storage.incidents.log(made[0], after=0, limit=10) == [made[1]]
    for number, changes in enumerate(
        ({"error_code": "PDF_ENCRYPTED"}, {"status": JobStatus.SUCCEEDED}, {"redriven_by": "job_9"}, {"escalate": []}),
        2,
    ):
        assert await found(storage, await ended(storage, number, **changes)) is None
    assert await ids(storage) == [made[0].id]


async def test_an_end_that_counts_writes_its_incident(storage: Storage) -> None:
    """With the row that it leaves for its tenant's counts."""
    created = planned("job_1").job
    await storage.index.reserve(created, replacing=None)
    failed: dict[str, Any] = {
        "status": JobStatus.FAILED_FINAL,
        "error_code": "ATTEMPTS_EXHAUSTED",
        "completed_at": START,
    }
    job = replace(created, **failed)
    assert await storage.index.close(job, claim_expires_at=START, counted=True)
    incident = await found(storage, job)
    assert incident is not None
    assert await checked_log(storage, incident) == ["OPENED"]


async def test_lists_are_newest_first(storage: Storage) -> None:
    """Paged by the cursor of the last row, bounded to the millisecond, as fine as Azurite compares."""
    jobs = {number: await ended(storage, number) for number in (2, 4, 1, 3)}
    order = [job_incident_id(f"job_{number}") for number in (4, 3, 2, 1)]
    assert await ids(storage) == order
    first = await storage.incidents.list_at(TENANT, after=None, limit=2)
    assert await ids(storage, after=first[-1].cursor) == order[2:]
    exact = jobs[3].completed_at
    assert exact is not None
    later = exact + timedelta(milliseconds=1)
    assert (await ids(storage, since=exact), await ids(storage, since=later)) == (order[:2], order[:1])
    assert (await ids(storage, until=exact), await ids(storage, until=later)) == (order[2:], order[1:])
    assert await storage.incidents.list_at("tenant_b", after=None, limit=10) == []
    assert await storage.incidents.list_at(None, after=None, limit=10) == []


@pytest.mark.parametrize("state", [LetterState.REDRIVEN, LetterState.DISMISSED])
async def test_a_dead_letters_end_settles_it_with_it(storage: Storage, state: LetterState) -> None:
    """Once; a settled one does not change, nor does one without a settlement."""
    job, other = await ended(storage), await ended(storage, 2)
    assert await storage.index.end_dead_letter(job, state, RETRIED) is state
    assert await storage.index.end_dead_letter(job, LetterState.DISMISSED, RESOLVED) is state
    incident = await found(storage, job)
    assert incident is not None
    assert (incident.state, incident.settled_by, incident.reason, incident.settled_at, incident.retried_by) == (
        *(IncidentState.RETRIED, "jane", "repaired", RETRIED.at),
        "job_9",
    )
    assert await checked_log(storage, incident) == ["OPENED", "RETRIED"]
    opened_one = await found(storage, other)
    assert opened_one is not None
    assert (await storage.incidents.settle(opened_one, RESOLVED)).state is IncidentState.RESOLVED
    assert await storage.index.end_dead_letter(other, state, RETRIED) is state
    assert await found(storage, other) == await storage.incidents.settle(opened_one, RETRIED)
    assert await checked_log(storage, opened_one) == ["OPENED", "RESOLVED"]


async def test_it_goes_with_its_job(storage: Storage) -> None:
    """With its log, settled or not; again is harmless."""
    jobs = [await ended(storage), await ended(storage, 2)]
    await storage.index.end_dead_letter(jobs[0], LetterState.DISMISSED, RESOLVED)
    for job in (*jobs, jobs[0]):
        kept = await found(storage, job)
        await storage.index.delete_listing(job)
        assert await found(storage, job) is None
        assert kept is None or await storage.incidents.log(kept, after=0, limit=10) == []
    assert await ids(storage) == []
    gone = incident_of(jobs[0])
    assert gone is not None
    with pytest.raises(Contended):
        await storage.incidents.settle(gone[0], RESOLVED)


async def test_the_list_of_open_ones_is_of_all(storage: Storage) -> None:
    """A job's incident is added and removed by name, unless it was added again; others are listed while open."""
    job = await ended(storage, 3)
    incident = await found(storage, job)
    assert incident is not None
    first, entry = of_no_job(minutes=1)
    assert await storage.incidents.open(first, entry)
    assert not await storage.incidents.open(*of_no_job(minutes=2))
    for minutes in (3, 4):
        await storage.incidents.enter_open(incident, START + timedelta(minutes=minutes))

    async def listed() -> list[tuple[str, datetime | None]]:
        rows = await storage.incidents.list_open(after=None, limit=10)
        return [(row.incident.id, row.entered_at) for row in rows]

    assert await listed() == [(incident.id, START + timedelta(minutes=4)), (first.id, first.opened_at)]
    [row] = await storage.incidents.list_open(after=None, limit=1)
    assert (row.incident, row.etag != "") == (incident, True)
    assert [each.incident.id for each in await storage.incidents.list_open(after=row.cursor, limit=9)] == [first.id]
    await storage.incidents.enter_open(incident, START + timedelta(minutes=5))
    await storage.incidents.leave_open(incident, etag=row.etag)
    assert len(await listed()) == 2
    for _ in range(2):
        await storage.incidents.leave_open(incident)
    assert await listed() == [(first.id, first.opened_at)]


async def test_a_settled_one_may_stay_listed(storage: Storage) -> None:
    """As it is then, so that its feed can be compared with it; its subject is free, and it leaves by name (R79)."""
    for tenant in (None, TENANT):
        first, entry = of_no_job(f"of {tenant}", tenant=tenant)
        assert await storage.incidents.open(first, entry)
        settled = await storage.incidents.settle(first, RESOLVED, stays=True)
        assert (settled.state, settled.log_seq) == (IncidentState.RESOLVED, 2)
        assert settled == await storage.incidents.settle(first, RETRIED, stays=True)
        [row] = await storage.incidents.list_open(after=None, limit=9)
        assert (row.incident, row.entered_at) == (settled, RESOLVED.at)
        assert await storage.incidents.find_open(first.kind, first.subject) is None
        # the read log has the meaning of the written one
        log = await storage.incidents.log(first, after=0, limit=9)
        made = core_settled(first, RESOLVED)
        assert made is not None
        expected = [each for one in (entry, made[1]) for each in incident_events(one, first)]
        assert [each for one in log for each in incident_events(one, settled)] == expected
        await storage.incidents.leave_open(settled, etag=row.etag)
        assert await storage.incidents.list_open(after=None, limit=9) == []


async def test_a_subject_has_one_open_incident_of_no_job(storage: Storage) -> None:
    """Found by its subject and by its id; after the settlement the subject is free, and all its rows show that."""
    first, entry = of_no_job(tenant=TENANT)
    assert await storage.incidents.open(first, entry)
    assert await storage.incidents.find_open(IncidentKind.SERVICE, "ocr") == first
    assert await storage.incidents.find_open(IncidentKind.BREAKER, "ocr") is None
    at = find_opening_time(first.id)
    assert at is not None
    assert await storage.incidents.read(None, first.id, at) == first
    settled = await storage.incidents.settle(first, RESOLVED)
    assert settled == await storage.incidents.settle(first, RETRIED)
    assert await checked_log(storage, first) == ["OPENED", "RESOLVED"]
    assert await storage.incidents.find_open(IncidentKind.SERVICE, "ocr") is None
    assert await storage.incidents.list_open(after=None, limit=10) == []
    assert not await storage.incidents.open(first, entry)
    assert await storage.incidents.open(*of_no_job(minutes=1, tenant=TENANT))
    assert await storage.incidents.open(*of_no_job("sis", minutes=2))
    own = await storage.incidents.list_of_tenant(TENANT, after=None, limit=10)
    assert [(row.incident.subject, row.incident.state.value) for row in own] == [("ocr", "OPEN"), ("ocr", "RESOLVED")]
    assert await storage.incidents.list_of_tenant("tenant_b", after=None, limit=10) == []
    assert len(await storage.incidents.list_at(None, after=None, limit=10)) == 3


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_of_two_that_settle_at_once_one_finds_it_done(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race incident: both read it open; the slower one reads again, and its words are nowhere."""
    job = await ended(storage)
    incident, (service, entry) = await found(storage, job), of_no_job()
    assert incident is not None
    await storage.incidents.open(service, entry)
    real = TableRows.transact
    meets: list[Any] = []

    async def transact(*args: Any) -> Any:
        if meets:
            await meets.pop()
        return await real(*args)

    monkeypatch.setattr(TableRows, "transact", transact)
    for each in (incident, service):
        meets.append(storage.incidents.settle(each, RESOLVED))
        assert (await storage.incidents.settle(each, RETRIED)).state is IncidentState.RESOLVED
        assert await checked_log(storage, each) == ["OPENED", "RESOLVED"]


async def test_settled_incidents_of_no_job_are_found_by_when_they_were_settled(storage: Storage) -> None:
    """Newest first, in pages; without open ones and those of jobs. A deleted one is deleted with its log."""
    made = [of_no_job(f"s{number}", number, TENANT if number == 2 else None) for number in range(6)]
    for number, (incident, entry) in enumerate(made):
        assert await storage.incidents.open(incident, entry)
        if number != 4:
            at = START + timedelta(hours=2 if number == 1 else 1)
            await storage.incidents.settle(incident, replace(RESOLVED, at=at))
    await ended(storage)
    before = START + timedelta(hours=1, minutes=1)
    first = await storage.incidents.list_settled(before, after=None, limit=2)
    rest = await storage.incidents.list_settled(before, after=first[-1].cursor, limit=9)
    assert [row.incident.subject for row in (*first, *rest)] == ["s5", "s3", "s2", "s0"]
    assert await storage.incidents.list_settled(START, after=None, limit=9) == []
    for _ in range(2):
        await storage.incidents.remove(rest[0].incident)
    left = await storage.incidents.list_settled(before, after=None, limit=9)
    assert [row.incident.subject for row in left] == ["s5", "s3", "s0"]
    assert await storage.incidents.list_of_tenant(TENANT, after=None, limit=9) == []
    assert await storage.incidents.log(rest[0].incident, after=0, limit=9) == []
    assert len(await storage.incidents.log(left[0].incident, after=0, limit=9)) == 2


async def test_an_undecodable_incident_is_left_out(storage: Storage, caplog: pytest.LogCaptureFixture) -> None:
    """As one of a kind that a later release knows."""
    incident, entry = of_no_job()
    await storage.incidents.open(incident, entry)
    await storage.incidents.settle(incident, RESOLVED)
    assert isinstance(storage.incidents, tables_incidents.TablesIncidents)
    rows, partition = storage.incidents._place(None)
    [row] = await rows.first(between(partition, "INCIDENT:", "INCIDENT;"), 1)
    await rows.write(upsert_row({**row, "kind": "DISK"}))
    assert await storage.incidents.list_settled(START + timedelta(days=9), after=None, limit=9) == []
    assert f"{partition} {row['RowKey']}" in caplog.text
