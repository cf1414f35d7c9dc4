"""Counts a tenant's jobs from their rows, while other jobs of the tenant start and end (R48).

Only admissions wait for a count. A job that arrives in the meantime gets no slot, and its ACTIVE row says that no count
includes it. A job that ends still leaves a FREED row. The count includes a job with a FREED row if a later turn
subtracts the job.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.ends import Freed
from shared.core.gates.places import Place, apply_count
from shared.errors import Conflict
from shared.operations.process.context import Context
from shared.ports.admissions import AdmissionWrite, StoredAdmission
from shared.ports.index import ActiveRow

#: time after which a count without a write counts as dead, so that another process starts again
_COUNTING = timedelta(seconds=5)
_PAGE = 1000


class TooManyJobs(Exception):
    """The tenant has more living jobs than a caller can wait for."""


async def recount_jobs(
    context: Context, tenant: str, stored: StoredAdmission | None, *, at_most_one_page: bool = False
) -> StoredAdmission:
    """Counts the active jobs, the jobs in waiting queues, and all accepted jobs without a slot (`staged`), from the
    tenant's ACTIVE and FREED rows. Admits no job in the meantime.

    Raises Conflict, AlreadyExists, Undecodable and LedgerUnavailable. With `at_most_one_page`, raises TooManyJobs for
    1,000 or more living jobs.
    """
    first: list[ActiveRow] | None = None
    if at_most_one_page:
        first = await context.index.list_active(tenant, after=None, limit=_PAGE)
        if len(first) == _PAGE:
            raise TooManyJobs
    began = context.clock.now()
    admission = stored.admission if stored is not None else AdmissionState(tenant=tenant, counted_at=began)
    counting = await _write(context, stored, replace(admission, counting_until=began + _COUNTING))
    places: dict[str, Place] = {}
    async for page in _read_pages(context, tenant):
        if places and (now := context.clock.now()) > (counting.admission.counting_until or now) - _COUNTING / 2:
            # otherwise another process would also start a count, and neither would finish
            counting = await _write(context, counting, replace(counting.admission, counting_until=now + _COUNTING))
        # the second count includes jobs of a process that did not know of the quota
        places |= {row.job_id: row.counted_place for row in page if row.place is not None or row.created_at <= began}
    for freed in await _list_freed(context, tenant):
        if freed.is_counted(began):
            # the turn that takes this row subtracts the job; its ACTIVE row may exist without a slot
            places[freed.job_id] = freed.place
        else:
            places.pop(freed.job_id, None)
    return await _write(context, counting, apply_count(counting.admission, [*places.values()], began))


async def _write(context: Context, before: StoredAdmission | None, after: AdmissionState) -> StoredAdmission:
    """Returns the admission state as stored after the write. Raises Conflict, AlreadyExists, LedgerUnavailable."""
    await context.index.write_admission(AdmissionWrite(before=before, after=after))
    found = await context.admissions.read(after.tenant)
    if found is None or found.admission.counting_until != after.counting_until:
        raise Conflict
    return found


async def list_places(context: Context, tenant: str, *, until: datetime | None = None) -> list[Place]:
    """Returns the places of all living jobs of the tenant. Raises Undecodable, LedgerUnavailable, and TooManyJobs if
    the read is not complete at the time `until`.
    """
    found: list[Place] = []
    async for page in _read_pages(context, tenant):
        if until is not None and context.clock.now() >= until:
            raise TooManyJobs
        found += [row.counted_place for row in page]
    return found


async def _read_pages(context: Context, tenant: str) -> AsyncIterator[list[ActiveRow]]:
    """Yields the tenant's ACTIVE rows in pages, one query each. No page is empty.

    Raises Undecodable, so that no count admits another job in the slot of the undecodable job.
    """
    rows = await context.index.list_active(tenant, after=None, limit=_PAGE)
    while rows:
        yield rows
        rows = await context.index.list_active(tenant, after=rows[-1].job_id, limit=_PAGE) if len(rows) == _PAGE else []


async def _list_freed(context: Context, tenant: str) -> list[Freed]:
    found = page = await context.admissions.list_freed(tenant, limit=_PAGE)
    while len(page) == _PAGE:
        page = await context.admissions.list_freed(tenant, after=page[-1], limit=_PAGE)
        found = [*found, *page]
    return found
