"""Creates, reads and stops bulk operations (R65). `shared.operations.bulks.work_bulk` runs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared import telemetry
from shared.api.job import JobLine
from shared.core.bulks import MAX_RUNNING, Bulk, BulkAction, BulkItem, BulkState, ItemState, Work
from shared.core.filters import JobFilter, parse_filter
from shared.core.jobs.redrive import not_redrivable
from shared.core.records.canonical import canonical_json, digest
from shared.errors import BusUnavailable
from shared.operations.jobs.list_jobs import Page, list_jobs
from shared.operations.jobs.read_archived import not_in_ledger
from shared.operations.process.context import Context
from shared.ports.bulks import BulkKey, BulkSlot, BulkWrite, DueBulk, StoredBulk
from shared.refusals import BulkEnded, BulkKeyConflict, BulkLimit, BulkNotFound, NotRedrivable

#: maximum jobs that a dry run counts, and maximum ids that it shows
MAX_COUNTED, MAX_SHOWN = 1000, 20
#: maximum pages of a dry run; each reads at most 200 rows more than it counts
_MAX_PAGES = 20
#: maximum items that a page of one outcome reads in addition to those that it shows
_MAX_READ_MORE = 200
_FAR_FUTURE_MS = 9_999_999_999_999
#: maximum length of a chain of redrives
_MAX_CHAIN = 50


def make_filter(words: Mapping[str, Any], tenant: str, created_at: datetime) -> JobFilter:
    """Makes the filter for the parameters in `words`, limited to the tenant and to jobs older than the bulk operation.
    Raises FilterInvalid.
    """
    asked = parse_filter(JobFilter, words)
    until = min(asked.until, created_at) if asked.until is not None else created_at
    return replace(asked, tenant_id=tenant, until=until)


async def start_bulk(
    context: Context,
    *,
    tenant: str,
    action: BulkAction,
    words: Mapping[str, Any],
    reason: str,
    actor: str,
    key: str | None = None,
) -> tuple[Bulk, bool]:
    """Creates a bulk operation, or returns the earlier one with the same idempotency key. The flag is `True` for the
    earlier one.

    Raises FilterInvalid, BulkLimit, BulkKeyConflict, Contended, LedgerUnavailable.
    """
    make_filter(words, tenant, context.clock.now())
    bulk = new_bulk(context, tenant=tenant, action=action, filter=dict(words), reason=reason, actor=actor)
    return await create_bulk(context, bulk, key)


async def redrive_tree(
    context: Context, job_id: str, *, reason: str | None, actor: str, key: str | None = None
) -> tuple[Bulk, bool]:
    """Starts a bulk operation that redrives the job, and then every job that failed because of it or of a job that it
    redrives (R66). With a known idempotency key, returns the earlier bulk operation and `True`.

    Raises JobNotFound, JobArchived, NotRedrivable, BulkLimit, BulkKeyConflict, Contended, LedgerUnavailable.
    """
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise await not_in_ledger(context, job_id)
    job = stored.record.job
    if (why := not_redrivable(stored.record)) is not None:
        raise NotRedrivable(why, f"cannot redrive job {job_id}: the job is {job.status}, not FAILED_FINAL or CANCELLED")
    bulk = new_bulk(context, tenant=job.tenant, action=BulkAction.REDRIVE, root=job_id, reason=reason, actor=actor)
    # jobs that failed because of an earlier job in the chain of redrives, and were not redriven, also depend on this
    # one. An archived job has no DEPFAILED rows any more, and neither have those that ended before it
    named, earlier = [job_id], job.redrive_of
    while earlier is not None and len(named) <= _MAX_CHAIN:
        named.append(earlier)
        before = await context.ledger.read(earlier)
        earlier = before.record.job.redrive_of if before is not None else None
    work = [Work(no=1, job_id=job_id)]
    work += [Work(no=no, job_id=each, dependants_after="") for no, each in enumerate(named[1:], start=2)]
    bulk = replace(bulk, matched=1, last_no=len(work), listed=True)
    return await create_bulk(context, bulk, key, work=work, items=[BulkItem(job_id=job_id)])


async def preview_bulk(context: Context, *, tenant: str, words: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Returns the ids of the jobs that match now, at most `MAX_COUNTED` (1,000), and `True` if there may be more.

    Raises FilterInvalid, LedgerUnavailable.
    """
    job_filter = make_filter(words, tenant, context.clock.now())
    found: list[str] = []
    page: Page[JobLine] = Page([], None)
    for _ in range(_MAX_PAGES):
        page = await list_jobs(context, job_filter, after=page.after, limit=MAX_COUNTED - len(found))
        found += [line.jobId for line in page.lines]
        if page.after is None or len(found) == MAX_COUNTED:
            break
    return found, page.after is not None


async def read_bulk(context: Context, tenant: str, bulk_id: str) -> Bulk:
    """Returns the bulk operation. Raises BulkNotFound, LedgerUnavailable."""
    return (await _read(context, tenant, bulk_id)).bulk


async def cancel_bulk(context: Context, tenant: str, bulk_id: str) -> Bulk:
    """Stops a bulk operation. Only the running step, of at most 20 items or 100 rows, is still completed. Idempotent.
    Raises BulkNotFound, BulkEnded, Contended, LedgerUnavailable.
    """

    async def cancel() -> Bulk:
        stored = await _read(context, tenant, bulk_id)
        match stored.bulk.state:
            case BulkState.CANCELLED:
                return stored.bulk
            case BulkState.DONE:
                raise BulkEnded(bulk_id)
        cancelled = replace(stored.bulk, state=BulkState.CANCELLED, ended_at=context.clock.now())
        # a purge has the same key each time
        is_purge = stored.bulk.action is BulkAction.PURGE
        return (await context.bulks.write(BulkWrite(before=stored, after=cancelled, releases_key=is_purge))).bulk

    return await context.retry_on_conflict(cancel, "the bulk operation")


async def bulk_items(
    context: Context, bulk: Bulk, outcome: ItemState | None, *, after: str | None, limit: int
) -> Page[BulkItem]:
    """Returns a page of items in the order of their ids. `outcome`: only items with this state. Raises
    LedgerUnavailable.
    """
    batch = limit if outcome is None else limit + _MAX_READ_MORE
    found = await context.bulks.items(bulk.tenant, bulk.bulk_id, after=after, limit=batch + 1)
    kept: list[BulkItem] = []
    for number, item in enumerate(found[:batch], start=1):
        if outcome is None or item.state is outcome:
            kept.append(item)
        if len(kept) == limit:
            return Page(kept, item.job_id if number < len(found) else None)
    return Page(kept, found[batch - 1].job_id, partial=True) if len(found) > batch else Page(kept, None)


async def request_work(context: Context, bulk: Bulk, at: datetime | None = None) -> None:
    """Requests work on the bulk operation, at the time `at` or now. If the bus is unavailable, the sweeper does the
    work at least 30 s after the operation's `look_at`.
    """
    with telemetry.tolerate(BusUnavailable):
        await context.bus.admission_calls.call(bulk.tenant, bulk_id=bulk.bulk_id, at=at)


def due_while_running(bulk: Bulk) -> DueBulk:
    """Returns the entry of the sweeper's list that makes every sweep check a running bulk operation."""
    return DueBulk(tenant=bulk.tenant, bulk_id=bulk.bulk_id, due_at=bulk.created_at)


def new_bulk(context: Context, **members: Any) -> Bulk:
    """Returns a new bulk operation, which is not stored yet."""
    now = context.clock.now()
    # ids sort the newest first
    inverted = _FAR_FUTURE_MS - int(now.timestamp() * 1000)
    bulk_id = f"bulk_{inverted:013d}{digest(context.new_job_id())[:16]}"
    return Bulk(bulk_id=bulk_id, created_at=now, look_at=now, **members)


async def create_bulk(
    context: Context, bulk: Bulk, key: str | None, *, work: Sequence[Work] = (), items: Sequence[BulkItem] = ()
) -> tuple[Bulk, bool]:
    """Stores the bulk operation, or returns the earlier one with the same key. The flag is `True` for the earlier one.

    Raises BulkLimit, BulkKeyConflict, Contended, LedgerUnavailable.
    """
    body = canonical_json([bulk.action, dict(bulk.filter), bulk.root, bulk.reason])
    known = BulkKey(key=digest(f"bulk:{key}"), bulk_id=bulk.bulk_id, body_hash=digest(body)) if key else None
    bulk = replace(bulk, key=known.key if known is not None else None)

    async def create() -> Bulk | None:
        """Writes the new bulk operation and returns None, or returns the earlier one with the same key."""
        if known is not None and (earlier := await _of_key(context, bulk.tenant, known)) is not None:
            return earlier
        slot = await _free_slot(context, bulk.tenant)
        # written first, so that no bulk operation lacks it; the sweeper deletes a row without a bulk operation
        await context.bulks.put_due(due_while_running(bulk))
        await context.bulks.create(bulk, slot=slot, key=known, work=work, items=items)
        return None

    if (earlier := await context.retry_on_conflict(create, "a slot of the tenant's bulk operations")) is not None:
        return earlier, True
    telemetry.info("BULK_STARTED", bulk_id=bulk.bulk_id, tenant_id=bulk.tenant, action=bulk.action.value)
    await request_work(context, bulk)
    return bulk, False


async def _free_slot(context: Context, tenant: str) -> BulkSlot:
    """Returns a slot that no running bulk operation has. Raises BulkLimit, LedgerUnavailable."""
    slots = await context.bulks.slots(tenant)
    if unused := sorted(set(range(MAX_RUNNING)) - {slot.number for slot in slots}):
        # a random one, since concurrent callers would all take the first
        return BulkSlot(number=unused[int(context.random() * len(unused)) % len(unused)], bulk_id="")
    for slot in slots:
        stored = await context.bulks.read(tenant, slot.bulk_id)
        if stored is None or stored.bulk.state is not BulkState.RUNNING:
            return slot
    raise BulkLimit(MAX_RUNNING)


async def _of_key(context: Context, tenant: str, asked: BulkKey) -> Bulk | None:
    """Returns the bulk operation with this idempotency key, or None if the key is new. Raises BulkKeyConflict."""
    known = await context.bulks.find_key(tenant, asked.key)
    if known is None:
        return None
    if known.body_hash != asked.body_hash:
        raise BulkKeyConflict(known.bulk_id)
    return (await _read(context, tenant, known.bulk_id)).bulk


async def _read(context: Context, tenant: str, bulk_id: str) -> StoredBulk:
    stored = await context.bulks.read(tenant, bulk_id)
    if stored is None:
        raise BulkNotFound(bulk_id)
    return stored
