"""The survey: updates the rows of living jobs and counts them, page by page.

A transition is one transaction in the ledger. LIST and ACTIVE rows of a job are in another partition, and get its state
when the job is created and when it ends. The survey compares these rows with the ledger.

When the survey's time is over, the next sweep continues the survey, also within a tenant. So lists and gauges can be as
old as one whole survey.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared import telemetry
from shared.core.gates.places import Owed, PlaceState, find_owed
from shared.core.jobs.job import Record
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.records.canonical import encode_key
from shared.core.usage import HOUR, hour_of, inside_by
from shared.errors import Transient, Undecodable
from shared.operations.events.feed_comparison import hint_behind
from shared.operations.incidents.row_incidents import POSTPONED_FOR
from shared.operations.incidents.silent_services import Untaken, longer_out, untaken
from shared.operations.jobs.read_history import read_for_list
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.sweeper.turns import AT_ONCE
from shared.ports.index import ActiveRow
from shared.ports.sweeps import Backlog, Survey, TenantCounts, WorkCounts, earlier, version_name

#: maximum rows of a query, and jobs between two checks of the time
_PAGE, _ROUND = 1000, 256
#: maximum transient faults of one sweep; one more ends this part of the survey
_MAX_UNANSWERED = 16
#: states before a service has acknowledged the job
_UNBEGUN = (JobStatus.QUEUED, JobStatus.THROTTLED, JobStatus.WAITING_FOR_JOBS)


@dataclass(frozen=True)
class Surveyed:
    """A tenant whose living jobs' rows were all read."""

    tenant: str
    counts: TenantCounts
    #: `True` if this sweep read all of the rows
    at_one_time: bool
    #: active jobs by type and source (`shared.core.usage.inside_by`), of the rows that this sweep read
    inside_by: Counter[tuple[str, str]]


@dataclass
class Found:
    """The results of one sweep in its part of the survey."""

    #: position of the survey: `after` is None at its end, when `counts` cover all jobs
    survey: Survey
    #: number of LIST rows that were behind their job
    behind: int = 0
    #: tenants of ended jobs whose end was not in the index when the row was listed
    ended: set[str] = field(default_factory=set)
    #: jobs that wait or were set aside and do not match their place, since the process that moved them died
    astray: list[ActiveRow] = field(default_factory=list)
    #: tenants of jobs whose lost row in the waiting queue was written again
    restored: set[str] = field(default_factory=set)
    #: by service: the attempt without an ACK that waits longest, of the jobs that were read
    untaken: dict[str, Untaken] = field(default_factory=dict)
    tenants: list[Surveyed] = field(default_factory=list)
    #: skipped rows, each as tenant, key and fault; key None: all rows of the tenant from a position on
    unread: list[tuple[str, str | None, Exception]] = field(default_factory=list)
    #: set after too many transient faults, which ended this part of the survey early
    fault: Transient | None = None


def begin_survey(survey: Survey, now: datetime) -> Survey:
    """Returns the survey to continue, or a new survey if the last survey has ended. The first survey of each hour also
    compares waiting jobs with the ledger.
    """
    if survey.after is not None:
        of_tenant = replace(survey.of_tenant, queued=Counter(survey.of_tenant.queued))
        return replace(survey, counts=survey.counts + WorkCounts(), of_tenant=of_tenant)
    is_whole = survey.whole_at is None or hour_of(now) >= hour_of(survey.whole_at) + HOUR
    return Survey(is_whole=is_whole, whole_at=now if is_whole else survey.whole_at)


async def continue_survey(
    context: Context, tenants: Sequence[str], before: Survey, is_over: Callable[[], bool], *, due_at: datetime
) -> Found:
    """Continues the survey of the tenants until the time is over. Reads at least one tenant, or 256 of its jobs.

    A job that has ended in the ledger but not in the index is due at `due_at`. A tenant or a job that cannot be read is
    skipped and does not stop the survey. Race relist: the survey is safe during normal work and another sweep. Raises
    nothing.
    """
    found = Found(begin_survey(before, context.clock.now()))
    await _Part(context, found, is_over, due_at).read(tenants)
    return found


class _Part:
    """The part of a survey in one sweep."""

    def __init__(self, context: Context, found: Found, is_over: Callable[[], bool], due_at: datetime) -> None:
        self._context = context
        self._found = found
        self._time_is_over = is_over
        self._due_at = due_at
        self._unanswered = 0

    def _is_over(self) -> bool:
        return self._found.fault is not None or self._time_is_over()

    async def read(self, tenants: Sequence[str]) -> None:
        first, job_id = self._found.survey.after or ("", "")
        waiting = sorted(tenant for tenant in tenants if tenant >= first)
        if waiting[:1] != [first]:
            # that tenant sleeps by now
            self._move_to(waiting[:1])
            job_id = ""
        while waiting:
            # after the end of the time, only one tenant is read
            size = 1 if self._is_over() else AT_ONCE
            turn, waiting = waiting[:size], waiting[size:]
            starts = [job_id, *[""] * (len(turn) - 1)]
            pages = await asyncio.gather(*map(self._page, turn, starts))
            for number, (tenant, start, page) in enumerate(zip(turn, starts, pages, strict=True), 1):
                if not await self._read_tenant(tenant, start, page):
                    return
                following = [*turn[number:], *waiting[:1]][:1]
                self._move_to(following)
                if following and self._is_over():
                    return
            job_id = ""

    def _move_to(self, following: Sequence[str]) -> None:
        after = (following[0], "") if following else None
        self._found.survey = replace(self._found.survey, after=after, of_tenant=TenantCounts())

    async def _page(self, tenant: str, after: str) -> list[ActiveRow] | None:
        """Returns a page of the tenant's rows, or None if they cannot be read."""
        unread: list[str] = []
        try:
            page = await self._context.index.list_active(tenant, after=after or None, limit=_PAGE, unread=unread)
        except Exception as fault:
            self._leave_out(tenant, None, fault)
            return None
        for row in unread:
            self._leave_out(tenant, row, Undecodable(row, "left out"))
        return page

    async def _read_tenant(self, tenant: str, start: str, page: list[ActiveRow] | None) -> bool:
        """Reads the tenant. Returns `True` if all of its rows were read, or if the tenant was skipped."""
        found, inside = self._found, Counter[tuple[str, str]]()
        while page is not None:
            for first in range(0, len(page), _ROUND):
                part = page[first : first + _ROUND]
                counted = await self._compare(part)
                for row in counted:
                    _count_row(found.survey, row)
                for row in part:
                    _count_place(found.survey.of_tenant, row)
                inside += inside_by((row.request_type, row.source) for row in part if _is_inside(row))
                found.survey = replace(found.survey, after=(tenant, part[-1].job_id))
                is_last = len(page) < _PAGE and first + _ROUND >= len(page)
                if not is_last and self._is_over():
                    return False
            if len(page) < _PAGE:
                counts = found.survey.of_tenant
                found.tenants.append(Surveyed(tenant, counts, at_one_time=not start, inside_by=inside))
                return True
            page = await self._page(tenant, page[-1].job_id)
        return True

    async def _compare(self, rows: Sequence[ActiveRow]) -> list[ActiveRow]:
        """Compares rows with their jobs. Returns the rows to count, as changed."""
        counted: list[ActiveRow] = []

        async def one(row: ActiveRow) -> None:
            try:
                after = await self._compare_row(row)
            except Exception as fault:
                self._leave_out(row.tenant, f"{encode_key(row.tenant)} ACTIVE:{row.job_id}", fault)
                self._count_unread(row)
                after = row
            if after is not None:
                counted.append(after)

        await run_concurrently(rows, one)
        return counted

    async def _compare_row(self, row: ActiveRow) -> ActiveRow | None:
        """Compares one row with its job. Returns the row as changed, or None if its job has ended. Raises
        LedgerUnavailable.
        """
        context, found = self._context, self._found
        state = row.place.state if row.place is not None else PlaceState.ADMITTED
        if state is PlaceState.WAITING and not found.survey.is_whole:
            # only its admission state moves it
            return row
        stored = await read_for_list(context.ledger, row.job_id)
        if (record := stored.record if stored is not None else None) is None:
            self._count_unread(row)
            return row
        if not record.job.status.terminal:
            out = list(untaken(record))
            longer_out(found.untaken, out)
            _count_steps(found.survey.counts, record, out)
        # a job that waits or was set aside has no due check
        asleep = state in (PlaceState.WAITING, PlaceState.OFF)
        owed = find_owed(record.job, row.place) if asleep and row.place else Owed.NOTHING
        # the due check marks the dependencies; it may be postponed, since one of them cannot be read
        is_due_soon = owed is Owed.MARK and row.check_at <= self._due_at + POSTPONED_FOR
        if owed is not Owed.NOTHING and not is_due_soon:
            found.astray.append(row)
            return row
        if state is PlaceState.WAITING and await context.index.restore_waiting(row):
            found.restored.add(row.tenant)
            key = f"{encode_key(row.tenant)} WAIT of {row.job_id}"
            telemetry.warn("WAITING_RESTORED", jobId=row.job_id, tenant_id=row.tenant, row=key)
        if record.job.event_seq == row.listed_seq:
            return row
        found.behind += 1
        if record.job.status.terminal:
            # due immediately; if its end came between the two reads, nothing happens
            await context.index.reschedule_check(row, self._due_at)
            found.ended.add(row.tenant)
            return None
        if not await hint_behind(context, record.job):
            # the next survey finds it behind again
            return row
        unacked, since = _count_unacked(record)
        await context.index.refresh_listing(row, record.job, unacked=unacked, unacked_since=since)
        return replace(row, status=record.job.status.value, unacked=unacked, unacked_since=since)

    def _count_unread(self, row: ActiveRow) -> None:
        """Counts the age of a QUEUED job from its creation, since its admission was not read."""
        if row.status == JobStatus.QUEUED:
            counts = self._found.survey.counts
            counts.queued_since = earlier(counts.queued_since, row.created_at)

    def _leave_out(self, tenant: str, row: str | None, fault: Exception) -> None:
        self._found.unread.append((tenant, row, fault))
        self._unanswered += isinstance(fault, Transient)
        if isinstance(fault, Transient) and self._unanswered > _MAX_UNANSWERED:
            self._found.fault = fault


def _count_row(survey: Survey, row: ActiveRow) -> None:
    """Adds a row, as changed by the comparison, to the counts of the survey."""
    counts = survey.counts
    if row.status in _UNBEGUN:
        survey.of_tenant.queued[row.request_type] += 1
    counts.active[row.status] += 1
    counts.modes[row.mode] += 1
    counts.versions[version_name(row.request_type, row.protocol_version)] += 1
    if row.status == JobStatus.THROTTLED:
        counts.waiting_since = earlier(counts.waiting_since, row.created_at)
    counts.unacked += row.unacked
    counts.unacked_since = earlier(counts.unacked_since, row.unacked_since)


def _count_steps(counts: WorkCounts, record: Record, out: Sequence[Untaken]) -> None:
    """Counts unacknowledged attempts and attempts in progress, by service. A QUEUED job counts from its admission."""
    if record.job.status is JobStatus.QUEUED:
        counts.queued_since = earlier(counts.queued_since, record.job.admitted_at or record.job.created_at)
    for each in out:
        key = (each.service, each.lane)
        counts.backlogs[key] = counts.backlogs.get(key, Backlog()) + Backlog(1, each.sent_at)
    counts.processing.update(step.service for step in record.open_steps if step.status is StepStatus.PROCESSING)


def _count_place(counts: TenantCounts, row: ActiveRow) -> None:
    """Counts a row as the tenant's admission state counts it."""
    place = row.place
    counts.rows += 1
    counts.inside += _is_inside(row)
    counts.staged += place is not None and place.is_staged and not place.uncounted
    counts.waiting += place is not None and place.state is PlaceState.WAITING


def _is_inside(row: ActiveRow) -> bool:
    return row.place is None or row.place.state is PlaceState.ADMITTED


def _count_unacked(record: Record) -> tuple[int, datetime | None]:
    """Returns the number of INITIATED attempts without an ACK, and the start of the oldest."""
    since = [step.initiated_at for step in record.steps if step.status is StepStatus.INITIATED and step.initiated_at]
    return len(since), min(since, default=None)
