"""Decides a transition and commits it; decides again where another commit came first (Race conflict)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from shared import telemetry
from shared.core.incidents import IncidentState, Settlement
from shared.core.jobs import durable_names
from shared.core.jobs.decide import apply
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Event, Job, Record
from shared.core.jobs.occurrences import Admitted, Occurrence, Redriven
from shared.core.jobs.outcome import Outcome, OutcomeKind, ignored
from shared.core.jobs.reasons import IgnoreReason
from shared.core.jobs.states import JobStatus
from shared.core.jobs.verdict import end_event
from shared.errors import Conflict, Contended, InstanceEnded, InstanceNotFound, LedgerUnavailable, LuciusError
from shared.operations.context import Context
from shared.operations.gates import desks, freed
from shared.operations.gates.desk_turns import Entered
from shared.operations.jobs.creation import start_once
from shared.operations.jobs.dead_letters import leave_open, list_open
from shared.operations.jobs.dependants import call, notify_dependants
from shared.operations.process.hinting import is_sent
from shared.ports.dead_letters import LetterState
from shared.ports.durable import Orchestrations
from shared.ports.index import first_clearing
from shared.ports.ledger import Stored

#: tries, with jitter between; after the last one the caller's own retry takes over
MAX_CONFLICTS = 8
#: jobs that were let in and are told at the same time; and how often the next twenty follow
_NOTIFIED_AT_ONCE, _MAX_ROUNDS = 8, 5
_FIRST_WAIT_S = 0.02
#: after its end, of a job whose last hint the queue did not take
_SOON = timedelta(minutes=1)


@dataclass(frozen=True)
class Transitioned:
    """The job as it stands after the occurrence, and what came of it."""

    stored: Stored
    outcome: Outcome
    #: what was written, now or (see `repeated`) before
    event: Event | None = None
    #: the occurrence had been committed before: this is its repetition, so only the telling is left to do
    repeated: bool = False


async def transition(
    context: Context,
    stored: Stored,
    occurrence: Occurrence,
    origin: Origin,
    *,
    orchestrations: Orchestrations,
    maybe_repeated: bool = False,
) -> Transitioned:
    """Applies `occurrence` to the job, commits, and closes the index rows of a job that ended.

    The `orchestrations` of a job that ended are told before it is closed: killed in between, ACTIVE is
    still there for the sweeper. `maybe_repeated`: this occurrence may have been committed before: then its EVENT is
    looked for first, since a second delivery can look like news (a late heartbeat restarts a lease): Race redelivery,
    also where two deliveries are in two hands at once. Raises
    LedgerUnavailable, also after too many conflicts, and OrchestrationUnavailable.
    """
    job_id = stored.record.job.job_id
    if maybe_repeated and (known := await context.ledger.find_event(job_id, origin.cause_id)):
        return await _repeated(context, stored, ignored(stored.record, IgnoreReason.REPEATED), known, orchestrations)
    for attempt in range(MAX_CONFLICTS):
        outcome = apply(stored.record, occurrence, origin.at(context.clock.now(), context.new_salt()))
        if outcome.record is stored.record:
            return Transitioned(stored, outcome)
        if outcome.kind is OutcomeKind.IGNORED and (known := await context.ledger.find_event(job_id, origin.cause_id)):
            return await _repeated(context, stored, outcome, known, orchestrations)
        try:
            return await _commit(context, stored, outcome, orchestrations)
        except Conflict:
            await context.sleep(_FIRST_WAIT_S * 2**attempt * context.random())
            stored = await _reread(context, job_id)
            if known := await context.ledger.find_event(job_id, origin.cause_id):
                return await _repeated(context, stored, outcome, known, orchestrations)
    raise Contended(f"job {job_id} was changed by others {MAX_CONFLICTS} times in a row")


async def transition_recent(
    context: Context,
    recent: Stored,
    occurrence: Occurrence,
    origin: Origin,
    *,
    orchestrations: Orchestrations,
) -> Transitioned | None:
    """The same on `recent`, what this process committed last (`RecentJobs.recall`); None: it moves nothing there.

    Then, and where it is behind, the job is read, and `transition` decides. Raises Conflict where it is behind (Race
    recent): as after any lost race, the occurrence may have been committed before. Raises LedgerUnavailable and
    OrchestrationUnavailable.
    """
    outcome = apply(recent.record, occurrence, origin.at(context.clock.now(), context.new_salt()))
    return await _commit(context, recent, outcome, orchestrations) if outcome.transitioned else None


async def _commit(context: Context, before: Stored, outcome: Outcome, orchestrations: Orchestrations) -> Transitioned:
    """Raises Conflict, LedgerUnavailable, OrchestrationUnavailable."""
    # until the answer is here nobody knows what the ledger has
    context.recent_jobs.forget(before.record.job.job_id)
    stored = await context.ledger.commit(before, outcome.record, outcome.events)
    context.recent_jobs.note(stored, context.clock.now())
    telemetry.record_transition(before.record, outcome)
    if outcome.transitioned and outcome.record.job.status.terminal:
        await end(context, stored, orchestrations, outcome.events)
    elif context.hinting is not None:
        context.hinting.note(stored.record.job, outcome.events)
    return Transitioned(stored, outcome, outcome.events[0] if outcome.events else None)


async def _repeated(
    context: Context, stored: Stored, outcome: Outcome, known: Event, orchestrations: Orchestrations
) -> Transitioned:
    """What died between the commit and the end of its first delivery is done again."""
    if stored.record.job.status.terminal:
        await end(context, stored, orchestrations)
    return Transitioned(stored, outcome, known, repeated=True)


async def end(context: Context, stored: Stored, orchestrations: Orchestrations, rows: Sequence[Event] = ()) -> None:
    """All that follows from the end of a job, `rows` if they were committed now; again is harmless.

    Its own rows and the next jobs come first. What fails of the rest is logged, and the sweeper does it. Raises
    LedgerUnavailable, OrchestrationUnavailable.
    """
    job = stored.record.job
    if not job.is_staged:
        await resume_parked(orchestrations, stored.record)
        await raise_end(orchestrations, stored.record)
    # begun before ACTIVE goes: from then on no sweep compares the job with the feed until it is cleared (R71)
    hinted = context.hinting.begin(job, rows) if context.hinting is not None else None
    if job.awaited and not (informed := await _notify_dependants(context, job)):
        # its slot is free at once; a call notifies the others and closes it, or the sweeper within a minute
        if await freed.give_back_slot(context, job):
            await notify(context, orchestrations, job.tenant, await freed.take_turn(context, job.tenant, job.job_id))
        if informed is not None:
            # after a fault a call would meet the same fault at once
            await call(context, job.tenant, job.job_id)
        return
    if await close(context, stored):
        await notify(context, orchestrations, job.tenant, await freed.take_turn(context, job.tenant, job.job_id))
    is_listed = await list_open(context, job)
    if not is_listed or (hinted is not None and not await is_sent(hinted)):
        await _clear_soon(context, job)
    else:
        await context.recent_ends.clear_and_note(
            orchestrations,
            stored.record,
            claim_ends=_claim_ends(context, stored),
            now=context.clock.now(),
            # a caller may move the job without seeing its tenant's feed
            feed=context.of_all_tenants.feed,
        )


async def _notify_dependants(context: Context, job: Job) -> bool | None:
    """Whether each job that waits for this one knows of its end; None: not now, because of a fault."""
    try:
        return await notify_dependants(context, job)
    except LuciusError as fault:
        telemetry.record_fault(fault)
        telemetry.warn("DEPENDANTS_UNTOLD", **telemetry.line_ids(job), reason=str(fault))
        return None


async def _reread(context: Context, job_id: str) -> Stored:
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise LedgerUnavailable(f"job {job_id} vanished between two reads")
    return stored


async def close(context: Context, stored: Stored) -> bool:
    """The index transaction after a job's end; whether it leaves a slot for a turn of its tenant.

    Raises LedgerUnavailable.
    """
    job = stored.record.job
    return await context.index.close(
        job,
        claim_expires_at=_claim_ends(context, stored),
        purged=context.recent_ends.take_purged(job.tenant),
        counted=await freed.may_be_counted(context, job),
    )


async def notify(context: Context, orchestrations: Orchestrations, tenant: str, entered: Entered) -> None:
    """Starts the jobs that a desk let in; a fault is logged, and the sweeper starts them later (R49).

    Where there was no room for all, the next ones go in, as often as `_MAX_ROUNDS`; the rest by a call to the desk.
    Then it calls for the incidents of breakers that opened. Raises nothing of LUCIUS's.
    """
    # a request of one tenant may cause a division, which lets in jobs of other tenants
    context = context.of_all_tenants
    turns = asyncio.Semaphore(_NOTIFIED_AT_ONCE)

    async def one(job_id: str, gates: tuple[dict[str, Any], ...]) -> None:
        async with turns:
            try:
                await admit(context, orchestrations, job_id, gates)
            except LuciusError as fault:
                telemetry.record_fault(fault)
                telemetry.warn("ADMISSION_UNTOLD", jobId=job_id, tenant_id=tenant, reason=str(fault))

    opened = [*entered.breakers_opened]
    try:
        await asyncio.gather(*map(one, entered.job_ids, entered.passed))
        for _ in range(_MAX_ROUNDS):
            if not entered.more:
                break
            entered = await freed.let_in(context, tenant)
            opened += entered.breakers_opened
            await asyncio.gather(*map(one, entered.job_ids, entered.passed))
        if entered.more:
            await context.desk_calls.call(tenant)
    except LuciusError as fault:
        telemetry.record_fault(fault)
    await freed.call_for_incidents(context, opened)


async def admit(
    context: Context, orchestrations: Orchestrations, job_id: str, gates: tuple[dict[str, Any], ...] = ()
) -> Stored | None:
    """A job that is inside learns it: the job that it redrives names it, it becomes QUEUED, and it starts.

    `gates`: those that it passed; none where whoever let it in is gone. None: it does not wait any more. Raises
    LedgerUnavailable, OrchestrationUnavailable.
    """
    stored = await context.ledger.read(job_id)
    if stored is None or stored.record.job.status is not JobStatus.THROTTLED:
        return None
    if stored.record.job.park_no and not await desks.holds_place(context, stored.record.job.tenant, job_id):
        return None
    await mark_unnamed(context, orchestrations, stored.record)
    origin = Origin(cause_id=f"admit:{job_id}", actor="system", source="gates")
    admitted = await transition(context, stored, Admitted(gates), origin, orchestrations=orchestrations)
    return await start_once(orchestrations, admitted.stored)


async def mark_unnamed(context: Context, orchestrations: Orchestrations, record: Record) -> None:
    """Where a redrive died before the old job named the new one. Raises LedgerUnavailable."""
    old = await context.ledger.read(record.job.redrive_of) if record.job.redrive_of is not None else None
    if old is not None:
        origin = Origin(cause_id="", actor="system", source="sweeper")
        await mark_redriven(context, orchestrations, old, record.job.job_id, origin)


async def mark_redriven(
    context: Context, orchestrations: Orchestrations, old: Stored, new_id: str, origin: Origin
) -> None:
    """The old job names the job that took it up again. Raises LedgerUnavailable."""
    mark = Origin(cause_id=f"redrive:{new_id}", actor=origin.actor, source=origin.source, reason=origin.reason)
    await transition(context, old, Redriven(new_id), mark, orchestrations=orchestrations)
    await end_letter(context, old.record.job, new_id, origin)


async def end_letter(context: Context, job: Job, new_id: str, origin: Origin) -> None:
    """A redriven job is no dead letter any more, and its incident is settled; one that was cancelled never was any.

    Raises LedgerUnavailable.
    """
    if job.status is not JobStatus.FAILED_FINAL:
        return
    settlement = Settlement(
        state=IncidentState.RETRIED,
        actor=origin.actor,
        reason=origin.reason or "",
        at=context.clock.now(),
        retried_by=new_id,
    )
    if await context.index.end_dead_letter(job, LetterState.REDRIVEN, settlement) is not None:
        await leave_open(context, job)


def _claim_ends(context: Context, stored: Stored) -> datetime:
    ended_at = stored.record.job.completed_at
    if ended_at is None:
        raise ValueError("only a job that ended is closed")
    return ended_at + timedelta(days=context.settings.idempotency_ttl_days)


async def resume_parked(orchestrations: Orchestrations, record: Record) -> None:
    """Raises the resume of the newest parking, also for a job that ended; early and repeated ones are harmless.

    Race resume: an orchestration that still waits at an older one, whose resume was lost, hears the sweeper's look.
    Raises OrchestrationUnavailable.
    """
    job = record.job
    if not job.park_no or job.status is JobStatus.PAUSED or job.is_staged:
        return
    for instance_id in sorted({record.instance_of(step) for step in record.steps}):
        try:
            await orchestrations.raise_event(instance_id, durable_names.resume(job.park_no), {"status": job.status})
        except (InstanceEnded, InstanceNotFound) as gone:
            telemetry.info("ORCHESTRATION_GONE", **telemetry.line_ids(job), reason=type(gone).__name__)


async def raise_end(orchestrations: Orchestrations, record: Record) -> None:
    """Raises the end of a failed or cancelled job in the orchestration of each step that did not succeed (R12).

    Else they would wait for the leases and backoffs of steps that are over. Of a job that SUCCEEDED each has had its
    RESULT. Repeated ones are harmless. Raises OrchestrationUnavailable.
    """
    for step in record.open_steps:
        with contextlib.suppress(InstanceEnded, InstanceNotFound):  # Race heard; one that starts later asks the ledger
            await orchestrations.raise_event(record.instance_of(step), end_event(step), {"next": "END"})


async def _clear_soon(context: Context, job: Job) -> None:
    """The sweeper looks at the ended job in a minute instead of an hour; raises nothing of LUCIUS's."""
    with contextlib.suppress(LuciusError):
        await context.index.reschedule_clearing(first_clearing(job), (job.completed_at or job.updated_at) + _SOON)
