"""Opens and closes incidents (R63, R64).

An escalated job failure, an open breaker, a silent service, or a row that LUCIUS cannot process opens an incident. An
operator or LUCIUS closes the incident. One list over all tenants has every open incident, so operators need one query.

A job's incident enters the list after the transaction that opens the incident. If the process dies in between, the
sweeper adds the incident. The incident leaves the list after the transaction that closes it (Race incident).
`list_incidents` skips closed incidents of the list, and the sweeper deletes them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any

from shared import telemetry
from shared.core.filters import IncidentFilter, has_only
from shared.core.incidents import (
    SYSTEM,
    Incident,
    IncidentKind,
    IncidentState,
    Settlement,
    find_job_id,
    find_opening_time,
    incident_id_of,
    make_unseen_retry,
    open_incident,
)
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Job
from shared.core.jobs.routing import normalise
from shared.errors import Conflict
from shared.operations.jobs.creation import Created
from shared.operations.jobs.dead_letters import end_dead_letter, incident_of_job, leave_list
from shared.operations.jobs.list_jobs import Page, fill_from
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.process.context import Context
from shared.operations.process.log_hints import note_incident, note_settled
from shared.ports.dead_letters import LetterState
from shared.ports.durable import Orchestrations
from shared.ports.incidents import IncidentRow
from shared.refusals import IncidentNoJob, IncidentNotFound, IncidentSettled

_ONLY_OPEN = frozenset({IncidentState.OPEN})
#: function that lists rows of the store, with the keywords of `PageRange`
_List = Callable[..., Awaitable[list[IncidentRow]]]


async def list_incidents(
    context: Context, incident_filter: IncidentFilter, *, after: str | None, limit: int
) -> Page[Incident]:
    """Returns a page of incidents, the most recently opened first. Raises LedgerUnavailable."""
    every_row = has_only(incident_filter, "tenant_id", "since", "until")
    times: dict[str, Any] = {"since": incident_filter.since, "until": incident_filter.until}

    async def rows_past(source: _List, after: str | None, count: int) -> list[IncidentRow]:
        return await source(after=after, limit=count, **times)

    async def as_it_is(row: IncidentRow) -> Incident | None:
        return row.incident

    async def if_open(row: IncidentRow) -> Incident | None:
        listed = row.incident
        found = await context.incidents.read(listed.home, listed.id, listed.opened_at)
        return found if found is not None and found.is_open else None

    def may_match(row: IncidentRow) -> bool:
        return incident_filter.matches(row.incident)

    page: dict[str, Any] = {"after": after, "limit": limit}
    lists = context.incidents
    if incident_filter.tenant_id is not None:
        tenant = normalise(incident_filter.tenant_id)
        of_tenant: list[_List] = [partial(lists.list_at, tenant), partial(lists.list_of_tenant, tenant)]
        return await fill_from(of_tenant, rows_past, may_match, as_it_is, **page, every_row=every_row)
    if incident_filter.states == _ONLY_OPEN:
        every_row = has_only(incident_filter, "tenant_id", "since", "until", "states")
        return await fill_from([lists.list_open], rows_past, may_match, if_open, **page, every_row=every_row)
    sources = [partial(lists.list_at, home) for home in (None, *await context.index.tenants())]
    return await fill_from(sources, rows_past, may_match, as_it_is, **page, every_row=every_row)


async def read_incident(context: Context, incident_id: str) -> Incident:
    """Returns the incident. Raises IncidentNotFound, LedgerUnavailable."""
    incident, _ = await find_incident(context, incident_id)
    if incident is None:
        raise IncidentNotFound(incident_id)
    return incident


async def raise_incident(
    context: Context,
    kind: IncidentKind,
    subject: str,
    *,
    tenant: str | None,
    code: str,
    detail: str | None = None,
    request_type: str | None = None,
    at: datetime | None = None,
) -> Incident:
    """Opens an incident without a job. Returns the open incident of the same kind and subject instead, if there is one.

    `tenant`: normalised tenant id. None means no tenant. `at`: start of the incident, from which its id is made
    (default: now). An earlier incident with the same start stays, open or closed.

    Raises Contended, LedgerUnavailable, and ValueError for the kind of a job's incident.
    """
    if kind is IncidentKind.JOB:
        raise ValueError("only a failed job opens an incident of kind JOB")

    async def open_or_find() -> Incident:
        incident, entry = open_incident(
            kind,
            subject,
            tenant=tenant,
            request_type=request_type,
            code=code,
            detail=detail,
            at=at or context.clock.now(),
        )
        if await context.incidents.open(incident, entry, now=context.clock.now()):
            note_incident(context.events, incident, entry)
            telemetry.warn("INCIDENT_OPENED", kind=kind.value, subject=subject, tenant_id=tenant, reason=code)
            return incident
        known = await context.incidents.find_open(kind, subject)
        if known is None and at is not None:
            known = await find_incident_of(context, kind, subject, at)
        if known is None:
            # Race incident: another process is settling one of the same subject
            raise Conflict("another request closed the incident meanwhile")
        return known

    return await context.retry_on_conflict(open_or_find, f"the incident of {subject}")


async def find_incident_of(context: Context, kind: IncidentKind, subject: str, at: datetime) -> Incident | None:
    """Returns the incident of this kind and subject that was opened at `at`, open or closed. Returns None if there is
    no such incident. Raises LedgerUnavailable.
    """
    return await context.incidents.read(None, incident_id_of(kind, subject, at), at)


async def settle_incident(context: Context, kind: IncidentKind, subject: str, why: str) -> Incident | None:
    """Resolves and returns the open incident of this kind and subject, or None if no such incident is open. Raises
    Contended, LedgerUnavailable.
    """
    known = await context.incidents.find_open(kind, subject)
    if known is None:
        return None
    settlement = Settlement(state=IncidentState.RESOLVED, actor=SYSTEM, reason=why, at=context.clock.now())
    after = await context.incidents.settle(known, settlement, stays=context.events is not None)
    note_settled(context.events, known, after, settlement)
    return after


async def resolve_incident(context: Context, incident_id: str, origin: Origin) -> Incident:
    """Resolves an incident for an operator. Its job stays a dead letter. Idempotent.

    Raises IncidentNotFound, IncidentSettled, Transient.
    """
    incident, _ = await _open_or_done(context, incident_id, IncidentState.RESOLVED)
    return await _settle(context, incident, _make_settlement(context, IncidentState.RESOLVED, origin))


async def dismiss_incident(context: Context, incident_id: str, origin: Origin) -> Incident:
    """Dismisses an incident for an operator. Its job leaves the dead letters. Idempotent.

    Raises IncidentNotFound, IncidentSettled, Transient.
    """
    incident, job = await _open_or_done(context, incident_id, IncidentState.DISMISSED)
    settlement = _make_settlement(context, IncidentState.DISMISSED, origin)
    if job is not None and incident.is_open:
        # ends the dead letter and the incident together
        await end_dead_letter(context, job, LetterState.DISMISSED, settlement)
        incident = await read_incident(context, incident_id)
    return await _settle(context, incident, settlement)


async def retry_incident(
    context: Context, orchestrations: Orchestrations, incident_id: str, origin: Origin
) -> tuple[Incident, Created]:
    """Redrives the incident's job, which closes the incident. Idempotent: a repeated call returns the same new job.

    Raises IncidentNotFound, IncidentNoJob, IncidentSettled, and the errors of `redrive_job`.
    """
    incident, job = await find_incident(context, incident_id)
    if job is None and incident is None:
        raise IncidentNotFound(incident_id)
    if job is None:
        raise IncidentNoJob(incident_id)
    if incident is None and job.status.terminal:
        raise IncidentNotFound(incident_id)
    if incident is not None and incident.state not in (IncidentState.OPEN, IncidentState.RETRIED):
        raise IncidentSettled(incident_id, incident.state)
    created = await redrive_job(context, orchestrations, job.job_id, origin)
    return await read_incident(context, incident_id), created


async def find_incident(context: Context, incident_id: str) -> tuple[Incident | None, Job | None]:
    """Returns the incident with this id and its job. Each is None if it does not exist. Raises LedgerUnavailable."""
    opened_at = find_opening_time(incident_id)
    if opened_at is not None:
        return await context.incidents.read(None, incident_id, opened_at), None
    job_id = find_job_id(incident_id)
    stored = await context.ledger.read(job_id) if job_id else None
    if stored is None:
        return None, None
    return await incident_of_job(context, stored.record.job), stored.record.job


async def _open_or_done(context: Context, incident_id: str, state: IncidentState) -> tuple[Incident, Job | None]:
    """Returns an incident that is open or in `state`, and its job or None. Raises IncidentNotFound, IncidentSettled,
    Transient.
    """
    incident, job = await find_incident(context, incident_id)
    if incident is None:
        raise IncidentNotFound(incident_id)
    if job is not None and incident.is_open and job.redriven_by is not None:
        # the process that redrove the job died before it closed the incident
        await end_dead_letter(context, job, LetterState.REDRIVEN, make_unseen_retry(job))
        incident = await read_incident(context, incident_id)
    if incident.state not in (IncidentState.OPEN, state):
        raise IncidentSettled(incident_id, incident.state)
    return incident, job


async def _settle(context: Context, incident: Incident, settlement: Settlement) -> Incident:
    """Closes the incident. Raises Contended, LedgerUnavailable, and IncidentSettled if another operator closed it in
    another way in the meantime.
    """
    after = await context.incidents.settle(incident, settlement, stays=context.events is not None)
    note_settled(context.events, incident, after, settlement)
    if after.state is not settlement.state:
        raise IncidentSettled(incident.id, after.state)
    if incident.kind is IncidentKind.JOB:
        await leave_list(context, after)
    telemetry.info(
        "INCIDENT_SETTLED",
        kind=incident.kind.value,
        subject=incident.subject,
        tenant_id=incident.tenant,
        status=after.state.value,
        actor=after.settled_by,
    )
    return after


def _make_settlement(context: Context, state: IncidentState, origin: Origin) -> Settlement:
    return Settlement(state=state, actor=origin.actor, reason=origin.reason or "", at=context.clock.now())
