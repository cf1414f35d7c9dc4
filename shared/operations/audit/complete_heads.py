"""Finds the time until which a tenant's heads are complete: each earlier event has its head (R91).

The feed and its heads are written together, so a job has every head if the feed has every row of the job. Two kinds of
jobs need a check: living jobs, and ended jobs that the sweeper still compares with the feed. The check also reads the
logs of quotas and of open incidents, and sends hints of rows that the feed lacks. The next call continues from the
stored position.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.events.hints import Hint, gate_hint, incident_hint
from shared.core.events.public_log_events import feed_of
from shared.core.gates.rules import EVERY
from shared.core.incidents import Incident
from shared.core.jobs.job import Job
from shared.core.jobs.reasons import Reason
from shared.core.jobs.routing import PLATFORM
from shared.errors import Conflict, LuciusError
from shared.operations.events.feed_comparison import is_log_behind
from shared.operations.events.feed_writer import list_log_rows
from shared.operations.jobs.dead_letters import incident_of_job
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.ports.heads import Completed

#: maximum time from an event to its commit, with the differences of clocks
SETTLED = timedelta(minutes=5)
#: time within which the sweeper clears or postpones an ended job that was not compared with the feed
_UNCOMPARED = timedelta(hours=1, minutes=5)
#: maximum rows of a query
_PAGE = 1000
#: maximum rows without a head that are read of one history; a history with more is behind
_UNSEEN = 50


async def read_completed(context: Context, tenant: str) -> Completed:
    """Returns the state of the tenant's check. Raises LedgerUnavailable.

    A check until a time in the future comes from a process whose clock was ahead, and later events can be before that
    time. So the check does not count until that time. Another check can replace it in the meantime.
    """
    known, now = await context.require_audit().heads.read_completed(tenant), context.clock.now()
    is_ahead = max(known.until or now, known.goal or now) > now
    return Completed(etag=known.etag) if is_ahead else known


async def complete_until(
    context: Context,
    tenant: str,
    until: datetime,
    is_over: Callable[[], bool],
    *,
    incidents: Iterable[Incident] | None = None,
) -> datetime | None:
    """Returns the time until which the tenant's heads are complete. If that time is before `until`, first checks the
    heads until `is_over()`. The returned time can still be before `until`. Returns None if no check was completed.

    `context` must cover all tenants. Raises LedgerUnavailable.
    """
    known = await read_completed(context, tenant)
    # a check that an earlier call began has an earlier goal
    for _ in range(2):
        if (known.until is not None and known.until >= until) or is_over():
            break
        before, known = known, await check_heads(context, tenant, is_over, known=known, incidents=incidents)
        if known.until == before.until:
            break
    return known.until


async def check_heads(
    context: Context,
    tenant: str,
    is_over: Callable[[], bool],
    *,
    known: Completed | None = None,
    incidents: Iterable[Incident] | None = None,
) -> Completed:
    """Continues the check of the tenant until the check is complete, an event lacks its head, a row cannot be read, or
    `is_over()`. Returns the state of the check.

    `known`: the stored state (default: read by this call). `incidents`: all open incidents (default: read by this
    call). `context` must cover all tenants.

    Race heads: of two concurrent checks, one writes its result. Raises LedgerUnavailable.
    """
    if known is None:
        known = await read_completed(context, tenant)
    if known.goal is None:
        known = replace(known, goal=context.clock.now() - SETTLED, after="")
    goal = known.goal
    assert goal is not None
    check = _Check(context, goal)
    while True:
        rows = await context.index.list_active(tenant, after=known.after or None, limit=_PAGE, unread=check.unread)
        await run_concurrently([row.job_id for row in rows], check.job)
        if check.behind or check.unread:
            return known
        if rows:
            known = replace(known, after=rows[-1].job_id)
        if len(rows) < _PAGE:
            break
        if is_over():
            return await _write(context, tenant, known)
    # read after the living jobs, since a job that ended in the meantime is here
    until, last = context.clock.now() + _UNCOMPARED, None
    while True:
        ended = await context.index.due_for_clearing(tenant, now=until, limit=_PAGE, after=last)
        await run_concurrently([row.job_id for row in ended], check.job)
        if len(ended) < _PAGE or check.behind or is_over():
            break
        last = ended[-1]
    if len(ended) < _PAGE:
        await check.logs(tenant, incidents if incidents is not None else await list_open_incidents(context))
    if check.behind or len(ended) == _PAGE:
        return await _write(context, tenant, known)
    return await _write(context, tenant, replace(known, until=max(known.until or goal, goal), goal=None, after=""))


async def _write(context: Context, tenant: str, known: Completed) -> Completed:
    try:
        return await context.require_audit().heads.write_completed(tenant, known)
    except Conflict:
        return await read_completed(context, tenant)


async def list_open_incidents(context: Context) -> list[Incident]:
    """Returns the open incidents of all tenants. Raises LedgerUnavailable."""
    found: list[Incident] = []
    after = None
    while True:
        rows = await context.incidents.list_open(after=after, limit=_PAGE)
        found += [row.incident for row in rows]
        if len(rows) < _PAGE:
            return found
        after = rows[-1].cursor


class _Check:
    """A check for events before the time `goal` that lack a head. Counts the jobs and logs with such events, and sends
    hints of these jobs and logs.
    """

    def __init__(self, context: Context, goal: datetime) -> None:
        self._context = context
        self._events = context.require_events()
        self._goal = goal
        self.behind = 0
        #: keys of rows that cannot be decoded
        self.unread: list[str] = []

    async def job(self, job_id: str) -> None:
        """Checks a job, its incident, and the job that `job_id` redrives. The last row of the redriven job names
        `job_id`.
        """
        try:
            stored = await self._context.ledger.read(job_id)
            # a job without rows is about to be created, or is deleted
            if stored is None or (job := stored.record.job).error_code == Reason.WITHDRAWN:
                return
            await self._history(job)
            if job.redrive_of is not None and (old := await self._context.ledger.read(job.redrive_of)) is not None:
                await self._history(old.record.job)
            if (incident := await incident_of_job(self._context, job)) is not None:
                await self._log(incident_hint(incident))
        except LuciusError as fault:
            telemetry.record_fault(fault, "HEADS_UNCHECKED", jobId=job_id)
            self.behind += 1

    async def _history(self, job: Job) -> None:
        seen = await self._events.feed.read_seen(job.tenant, job.job_id)
        if seen >= job.event_seq:
            return
        rows = await self._context.ledger.events(job.job_id, after_seq=seen, limit=_UNSEEN)
        if self._is_owed([row.at for row in rows]):
            self.behind += 1
            await self._events.hinting.send(job)

    async def logs(self, tenant: str, incidents: Iterable[Incident]) -> None:
        """Counts the logs of the tenant's quotas and open incidents that lack heads. Raises LedgerUnavailable."""
        stored = await self._context.admissions.read(EVERY if tenant == PLATFORM else tenant)
        if stored is not None:
            for state in stored.admission.gates.values():
                await self._log(gate_hint(state.gate, (), last=state.log_seq))
        for incident in incidents:
            if feed_of(incident.tenant) == tenant:
                await self._log(incident_hint(incident))

    async def _log(self, hint: Hint) -> None:
        if not await is_log_behind(self._context, hint):
            return
        seen = await self._events.feed.read_seen(hint.tenant, hint.key)
        entries = await list_log_rows(self._context, hint, seen, _UNSEEN)
        self.behind += self._is_owed([entry.at for entry, _ in entries])

    def _is_owed(self, times: Sequence[datetime]) -> bool:
        """Returns `True` if one of `times` is before the goal, or if there may be more rows than one read returns.

        `times`: times of rows without a head. They can be out of order, since a clock can jump back.
        """
        return len(times) == _UNSEEN or any(at < self._goal for at in times)
