"""The action of this release that writes each type of row again, or the reason why it writes no such row again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

from shared.adapters.tables.feed import list_tenant
from shared.adapters.tables.table import upsert_row
from shared.adapters.tables.table_rows import TableRows
from shared.adapters.tables.tenants import TenantRows
from shared.core.incidents import IncidentState, Settlement
from shared.core.jobs.states import JobStatus
from shared.core.webhooks.webhooks import DeliveryState
from shared.ports.admissions import AdmissionWrite
from shared.ports.bulks import BulkWrite, DueBulk
from shared.ports.dead_letters import LetterState
from shared.ports.feed import FeedWrite, Head
from shared.ports.hooks import HookWrite
from shared.ports.usage import FoldPosition, SeenSource
from tests.adapters.later_rows import (
    BOOK,
    JOB,
    TENANT,
    Stores,
    changed,
)
from tests.jobs import START

LATER = START + timedelta(hours=1)
FOR_EVER = START + timedelta(days=365)
BULK = f"bulk_{0:013d}{'f' * 16}"
DONE = Settlement(state=IncidentState.RESOLVED, actor="a", reason="r", at=LATER)


async def admission_of(made: Stores) -> Any:
    found = await made.admissions.read(TENANT)
    assert found is not None
    return found


async def job_again(made: Stores) -> None:
    stored = await made.ledger.read(JOB)
    assert stored is not None
    event = replace((await made.ledger.events(JOB))[-1], seq=99)
    record = stored.record
    for number in (100, 101):
        # the second commit uses the rows of the first one
        for step in record.steps:
            record = record.with_step(replace(step, heartbeats=number))
        record = replace(record, job=replace(record.job, event_seq=number, labels={**record.job.labels, "n": "1"}))
        stored = await made.ledger.commit(stored, record, [replace(event, seq=number)])


async def job_of(made: Stores, status: JobStatus) -> Any:
    stored = await made.ledger.read(JOB)
    assert stored is not None
    failed: dict[str, Any] = {"completed_at": START, "error_code": "ATTEMPTS_EXHAUSTED"}
    return replace(stored.record.job, status=status, **failed)


async def ending(made: Stores) -> None:
    await made.index.write_owed(await job_of(made, JobStatus.CANCELLED), claim_expires_at=LATER)


async def failing(made: Stores) -> None:
    await made.index.write_owed(await job_of(made, JobStatus.FAILED_FINAL), claim_expires_at=LATER)


async def failing_dependency(made: Stores) -> None:
    await made.account.of("index").write(upsert_row({"PartitionKey": TENANT, "RowKey": f"DEP:{JOB}:job_2"}))
    await made.index.drop_dependant(TENANT, JOB, "job_2", succeeded=False)


async def settling(made: Stores) -> None:
    made.amend("LIST", status="FAILED_FINAL")
    job = await job_of(made, JobStatus.FAILED_FINAL)
    assert await made.index.end_dead_letter(job, LetterState.DISMISSED, DONE) is LetterState.DISMISSED


async def settling_of_no_job(made: Stores) -> None:
    made.amend("INCIDENT of no job", state="OPEN")
    [found] = await made.incidents.list_at(None, after=None, limit=9)
    await made.incidents.settle(found.incident, DONE, stays=True)


async def opening(made: Stores) -> None:
    for row in await made.incidents.list_open(after=None, limit=9):
        await made.incidents.enter_open(row.incident, LATER)


async def look(made: Stores) -> None:
    active = await made.index.read_active(TENANT, JOB)
    assert active is not None
    made.remove("DUE")
    table = made.account.of("index")
    await table.write(
        upsert_row({"PartitionKey": TENANT, "RowKey": f"DUE:{active.check_at.timestamp() * 1000:.0f}:{JOB}"})
    )
    await made.index.reschedule_check(active, LATER, looks={"ocr": (1, 1)})


async def look_at_due(made: Stores) -> None:
    for row in await made.index.due(TENANT, now=LATER, limit=9):
        await made.index.reschedule_check(row, row.check_at + timedelta(hours=1), looks={"ocr": (2, 1)})


async def clearing(made: Stores) -> None:
    for row in await made.index.due_for_clearing(TENANT, now=FOR_EVER, limit=9):
        await made.index.reschedule_clearing(row, row.clear_at + timedelta(hours=3), purged=True)


async def counting(made: Stores) -> None:
    for staged in (1, 2):
        before = await admission_of(made)
        after = replace(changed(before.admission, credit=staged, credit_at=START), staged=staged, wake_at=None)
        await made.index.write_admission(AdmissionWrite(before=before, after=after))


async def dividing(made: Stores) -> None:
    before = await made.allocations.read(BOOK)
    assert before is not None
    accounts = {tenant: replace(each, granted=7) for tenant, each in before.record.accounts.items()}
    await made.allocations.write(replace(before.record, accounts=accounts, credit=None, credit_at=None), before=before)


async def bulk_step(made: Stores) -> None:
    [bulk] = await made.bulks.list_bulks(TENANT, after=None, limit=9)
    before = await made.bulks.read(TENANT, bulk.bulk_id)
    assert before is not None
    [item] = await made.bulks.items(TENANT, bulk.bulk_id, after=None, limit=9)
    written = await made.bulks.write(BulkWrite(before=before, after=replace(bulk, done=1, cursor=None), items=[item]))
    done = BulkWrite(before=written, after=replace(bulk, done=2), items=[replace(item, code=None)])
    await made.bulks.write(done)
    assert await made.bulks.read_item(TENANT, bulk.bulk_id, item.job_id) == replace(item, code=None)


async def next_bulk(made: Stores) -> None:
    [bulk] = await made.bulks.list_bulks(TENANT, after=None, limit=9)
    [slot] = await made.bulks.slots(TENANT)
    await made.bulks.create(replace(bulk, bulk_id="bulk_2"), slot=slot, key=None, work=[], items=[])


async def feeding(made: Stores) -> None:
    head = replace(await made.feed.head(TENANT), hooks=0)
    head = await made.feed.write(FeedWrite(tenant=TENANT, head=head, events=[], seen={JOB: 7}))
    await made.feed.write(FeedWrite(tenant=TENANT, head=head, events=[], seen={JOB: 8}))


async def hooking(made: Stores) -> None:
    [before] = await made.hooks.all_of(TENANT)
    await made.hooks.write(
        HookWrite(tenant=TENANT, before=before, after=replace(before.hook, previous=None, failures=9))
    )


async def delivering(made: Stores) -> None:
    [before] = await made.hooks.pending(TENANT, None, limit=9)
    write = HookWrite(tenant=TENANT, deliveries=[(before, replace(before.delivery, tries=4, status=None))])
    await made.hooks.write(write)


async def delivering_again(made: Stores) -> None:
    made.remove("PENDING")
    [before] = await made.hooks.list_ended(TENANT, "hook_1", limit=9)
    again = replace(before.delivery, state=DeliveryState.PENDING)
    await made.hooks.write(HookWrite(tenant=TENANT, deliveries=[(before, again)]))
    [before] = await made.hooks.pending(TENANT, None, limit=9)
    again = replace(before.delivery, state=DeliveryState.DEAD)
    await made.hooks.write(HookWrite(tenant=TENANT, deliveries=[(before, again)]))


async def sleeping(made: Stores) -> None:
    await TenantRows(made.account, "tenants").wake(TENANT, START)  # type: ignore[arg-type]
    [awake] = await made.index.awake_tenants(now=LATER)
    await made.index.put_to_sleep(awake)


async def seeing(made: Stores) -> None:
    await made.usage.see_source(
        TENANT, SeenSource(name="s", first_job="x", first_at=LATER, last_job="x", last_at=LATER)
    )


async def rejecting(made: Stores) -> None:
    day = date(1970, 1, 1)
    [listed] = await made.rejected.list_days(day, day, tenant=None, after=None, limit=9)
    message = await made.rejected.read(listed.id)
    assert message is not None
    await made.rejected.mark(message, redriven_at=LATER, outcome="APPLIED")
    await made.rejected.quarantine(message)


#: by type of row: the action of this release that writes such a row again
WRITES_AGAIN: dict[str, Callable[[Stores], Awaitable[Any]]] = {
    "JOB": job_again,
    "STEP": job_again,
    "CLAIM": ending,
    "LIST": ending,
    "DEAD": failing,
    "INCIDENT": settling,
    "INCIDENT of no job": settling_of_no_job,
    "OF": settling_of_no_job,
    "OPEN": opening,
    "ACTIVE": look,
    "DUE": look_at_due,
    "ENDED": clearing,
    "GATES": counting,
    "BOOK": dividing,
    "asks": lambda made: made.allocations.ask(BOOK, TENANT),
    "BULK": bulk_step,
    "BULKITEM": bulk_step,
    "BULKSLOT": next_bulk,
    "bulks": lambda made: made.bulks.put_due(DueBulk(tenant=TENANT, bulk_id=BULK, due_at=START)),
    "DEPFAILED": failing_dependency,
    "HEAD": feeding,
    "SEEN": feeding,
    "=feeds": lambda made: list_tenant(TableRows(made.account, "feed"), TENANT, Head()),
    "=hooks": lambda made: made.hooks.note(TENANT, LATER),
    "HOOK": hooking,
    "PENDING": delivering,
    "DELIVERY": delivering_again,
    "tenants": sleeping,
    "SERVICE": lambda made: made.answers.note("ocr", LATER),
    "SOURCE": seeing,
    "USAGE REJECTED": lambda made: made.usage.add_refused(TENANT, START, {("OCR", "s"): 1}),
    "REFOLD": lambda made: made.usage.put_fold_again(TENANT, START),
    "FOLD": lambda made: made.usage.write_position(0, FoldPosition(LATER, TENANT)),
    "rejected": rejecting,
}

#: the others, and why nothing of a later release is in them when this release writes them
REPLACED = {
    **dict.fromkeys(
        (
            "EVENT",
            "E",
            "ARCHIVED",
            "GATELOG",
            "HOOKLOG",
            "INCIDENTLOG",
            "FREED",
            "DEP",
            "BULKKEY",
            "BULKWORK",
            "CORRELATION",
            "FEED",
            "PROTOCOL",
            "SUBJECT",
        ),
        "written once",
    ),
    "WAIT": "a copy of ACTIVE",
    "DAY": "a copy of the head of a history",
    "COMPLETE": "what the last check found, as a whole",
    **dict.fromkeys(
        ("USAGE JOBS", "USAGE FOLDING", "USAGE PEAK", "SWEEP", "POSITION", "MINUTE"), "counts of one writer, as a whole"
    ),
    "directory": "copies of what the admission states of `*` have, in tests/adapters/test_directory.py",
}
