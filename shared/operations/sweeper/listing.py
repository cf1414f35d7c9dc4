"""The sweeper's part in lists and counts: brings the rows of living jobs up to date, and counts them.

A transition is one transaction in the ledger. What LIST and ACTIVE say of a job is in another partition and is written
when the job is created and when it ends. This pass compares the two, so lists and counts are never behind for longer
than a sweep, while the comparison comes to its end in the pass; with more jobs, for as many sweeps as it takes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.core.gates.places import Owed, PlaceState, owed
from shared.core.job import Record
from shared.core.states import StepStatus
from shared.core.usage import inside_by
from shared.operations.context import Context
from shared.operations.feed_comparison import hint_behind
from shared.operations.read_history import read_for_list
from shared.operations.silence import Untaken, longer_out, untaken
from shared.operations.sweeper.turns import AT_ONCE, at_once
from shared.ports.index import ActiveRow
from shared.ports.sweeps import WorkCounts

#: rows of one query, and jobs between two looks at the time
_PAGE, _ROUND = 1000, 256


@dataclass
class Surveyed:
    """What a look at every living job's row found."""

    #: as the rows stand after the comparison
    counts: WorkCounts = field(default_factory=WorkCounts)
    #: LIST rows that were behind their job
    behind: int = 0
    #: tenants of jobs that have ended, and whose end is not in the index, or was not when its row was listed
    ended: set[str] = field(default_factory=set)
    #: jobs that wait in line, by tenant
    waiting: Counter[str] = field(default_factory=Counter)
    #: jobs that wait or were set aside, and whose place does not follow them: whoever moved them died
    astray: list[ActiveRow] = field(default_factory=list)
    #: jobs inside, by tenant
    inside: Counter[str] = field(default_factory=Counter)
    #: accepted jobs that are not, and are counted, by tenant
    staged: Counter[str] = field(default_factory=Counter)
    #: the same by type and source (`shared.core.usage.inside_by`)
    inside_by: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    #: by service, of the jobs that were read: the attempt that nobody has taken up for the longest time
    untaken: dict[str, Untaken] = field(default_factory=dict)
    #: tenants without a living job
    idle: list[str] = field(default_factory=list)
    #: tenant and id of the last job that was compared when the time was over; None: the comparison came to its end
    stopped_at: tuple[str, str] | None = None


async def survey(
    context: Context,
    tenants: Sequence[str],
    start: tuple[str, str] | None,
    is_over: Callable[[], bool],
    *,
    due_at: datetime,
    waiting_too: bool = False,
) -> Surveyed:
    """Counts every living job of the tenants; compares them with their jobs past `start`, until the time is over.

    A job that has ended, and not in the index, is due at `due_at`. Jobs that wait in line are compared where
    `waiting_too`. Race relist: safe during normal work and another pass. Raises LedgerUnavailable.
    """
    found = Surveyed()
    ordered = sorted(tenants)
    for first in range(0, len(ordered), AT_ONCE):
        turn = ordered[first : first + AT_ONCE]
        unread: dict[str, list[str]] = {tenant: [] for tenant in turn}
        pages = await asyncio.gather(
            *(context.index.list_active(tenant, after=None, limit=_PAGE, unread=unread[tenant]) for tenant in turn)
        )
        for tenant, rows in zip(turn, pages, strict=True):
            if not rows and not unread[tenant]:
                found.idle.append(tenant)
            page = rows
            while page:
                await _take(context, tenant, page, start, is_over, due_at, found, waiting_too=waiting_too)
                last = page[-1].job_id
                is_last = len(page) < _PAGE
                page = [] if is_last else await context.index.list_active(tenant, after=last, limit=_PAGE, unread=[])
    return found


async def _take(
    context: Context,
    tenant: str,
    rows: Sequence[ActiveRow],
    start: tuple[str, str] | None,
    is_over: Callable[[], bool],
    due_at: datetime,
    found: Surveyed,
    *,
    waiting_too: bool,
) -> None:
    async def compare(row: ActiveRow) -> None:
        state = row.place.state if row.place is not None else PlaceState.ADMITTED
        if state is PlaceState.WAITING and not waiting_too:
            # nothing moves it but its desk
            found.counts.add(row)
            return
        stored = await read_for_list(context.ledger, row.job_id)
        record = stored.record if stored is not None else None
        if record is not None and not record.job.status.terminal:
            longer_out(found.untaken, untaken(record))
        # of one that waits or was set aside no look is due
        asleep = record is not None and state in (PlaceState.WAITING, PlaceState.OFF)
        if asleep and row.place and record and owed(record.job, row.place) is not Owed.NOTHING:
            found.astray.append(row)
            found.counts.add(row)
            return
        if record is None or record.job.event_seq == row.listed_seq:
            found.counts.add(row)
            return
        found.behind += 1
        if record.job.status.terminal:
            # due at once: nothing happens where its end came between the two reads
            await context.index.reschedule_check(row, due_at)
            found.ended.add(tenant)
            return
        if not await hint_behind(context, record.job):
            # the next pass finds it behind again
            found.counts.add(row)
            return
        unacked, since = _unacked(record)
        await context.index.refresh_listing(row, record.job, unacked=unacked, unacked_since=since)
        found.counts.add(replace(row, status=record.job.status.value, unacked=unacked, unacked_since=since))

    inside = [row for row in rows if row.place is None or row.place.state is PlaceState.ADMITTED]
    found.inside[tenant] += len(inside)
    found.staged[tenant] += sum(
        row.place is not None and row.place.is_staged and not row.place.uncounted for row in rows
    )
    found.inside_by.setdefault(tenant, Counter()).update(inside_by((row.request_type, row.source) for row in inside))
    for row in rows:
        if row.place is None:
            continue
        if row.place.state is PlaceState.WAITING:
            found.waiting[tenant] += 1
    for first in range(0, len(rows), _ROUND):
        part = rows[first : first + _ROUND]
        if (start is not None and (tenant, part[-1].job_id) <= start) or found.stopped_at is not None:
            for row in part:
                found.counts.add(row)
            continue
        await at_once(part, compare)
        if is_over():
            found.stopped_at = (tenant, part[-1].job_id)


def _unacked(record: Record) -> tuple[int, datetime | None]:
    """Attempts INITIATED and not ACKed, and since when the oldest of them is."""
    since = [step.initiated_at for step in record.steps if step.status is StepStatus.INITIATED and step.initiated_at]
    return len(since), min(since, default=None)
