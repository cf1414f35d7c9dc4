"""Who is inside and who waits, counted by the rows (R48): at the opening of a desk, and a minute later."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

from shared.core.gates.desk import Candidate, Desk
from shared.core.gates.places import Place, recounted
from shared.errors import Conflict
from shared.operations.context import Context
from shared.ports.desks import DeskWrite, StoredDesk
from shared.ports.index import ActiveRow

#: others wait so long for one that counts
_COUNTING = timedelta(seconds=5)
_PAGE = 1000


async def recount(context: Context, tenant: str, stored: StoredDesk | None) -> StoredDesk:
    """Counts who is inside and who waits, by the tenant's ACTIVE rows; meanwhile nobody else changes the desk.

    Raises Conflict, AlreadyExists, LedgerUnavailable.
    """
    began = context.clock.now()
    desk = stored.desk if stored is not None else Desk(tenant=tenant, counted_at=began)
    counting = await _written(context, stored, replace(desk, counting_until=began + _COUNTING))
    places: list[Place] = []
    async for page in _pages(context, tenant):
        if places and (now := context.clock.now()) > (counting.desk.counting_until or now) - _COUNTING / 2:
            # else another begins while this one is at it, and of two none would come to its end
            counting = await _written(context, counting, replace(counting.desk, counting_until=now + _COUNTING))
        places += page
    return await _written(context, counting, recounted(counting.desk, places, began))


async def _written(context: Context, before: StoredDesk | None, after: Desk) -> StoredDesk:
    """The desk as it stands after the write. Raises Conflict, AlreadyExists, LedgerUnavailable."""
    await context.index.write_desk(DeskWrite(before=before, after=after))
    found = await context.desks.read(after.tenant)
    if found is None or found.desk.counting_until != after.counting_until:
        raise Conflict
    return found


async def places_of(context: Context, tenant: str) -> list[Place]:
    """The places of all the tenant's living jobs. Raises LedgerUnavailable."""
    return [place async for page in _pages(context, tenant) for place in page]


async def _pages(context: Context, tenant: str) -> AsyncIterator[list[Place]]:
    """The same, as many at once as one query gives; none of them empty."""
    rows = await context.index.list_active(tenant, after=None, limit=_PAGE)
    while rows:
        yield [place_of(row) for row in rows]
        rows = await context.index.list_active(tenant, after=rows[-1].job_id, limit=_PAGE) if len(rows) == _PAGE else []


def place_of(row: ActiveRow) -> Place:
    """A job that no gate concerned when it was created is inside."""
    if row.place is not None:
        return row.place
    candidate = Candidate(
        job_id=row.job_id, job_type=row.request_type, mode=row.mode, source=row.source, priority=row.priority, rank=0
    )
    return Place(candidate=candidate)
