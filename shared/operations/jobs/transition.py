"""Decides a transition and commits it. If another commit came first, decides again (Race conflict)."""

from __future__ import annotations

from dataclasses import dataclass

from shared import telemetry
from shared.core.jobs.decide import apply
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Event
from shared.core.jobs.occurrences import Occurrence
from shared.core.jobs.outcome import Outcome, OutcomeKind, ignore
from shared.core.jobs.reasons import IgnoreReason
from shared.errors import Conflict, Contended, JobVanished
from shared.operations.process.context import MAX_TRIES, Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored


@dataclass(frozen=True)
class Transitioned:
    """The job after the occurrence, and the outcome."""

    stored: Stored
    outcome: Outcome
    #: the EVENT row, written now or earlier (see `repeated`)
    event: Event | None = None
    #: `True` if the occurrence had been committed before, so that only the follow-up remains
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
    """Applies `occurrence` to the job and commits the result. Does the follow-up work if the job ended.

    `maybe_repeated`: the occurrence may have been committed before. Then its EVENT is read first, since a second
    delivery can look new, also in another process (Race redelivery). For example, a late heartbeat restarts a lease.

    Raises Contended after `MAX_TRIES` conflicts, JobVanished, LedgerUnavailable, and OrchestrationUnavailable.
    """
    job_id = stored.record.job.job_id
    if maybe_repeated and (known := await context.ledger.find_event(job_id, origin.cause_id)):
        return await _repeat(context, stored, ignore(stored.record, IgnoreReason.REPEATED), known, orchestrations)
    # a loop of its own, since after a conflict it looks for the EVENT of this occurrence
    for conflicts in range(MAX_TRIES):
        outcome = apply(stored.record, occurrence, origin.at(context.clock.now(), context.new_salt()))
        if outcome.record is stored.record:
            return Transitioned(stored, outcome)
        if outcome.kind is OutcomeKind.IGNORED and (known := await context.ledger.find_event(job_id, origin.cause_id)):
            return await _repeat(context, stored, outcome, known, orchestrations)
        try:
            return await _commit(context, stored, outcome, orchestrations)
        except Conflict:
            await context.wait_after_conflict(conflicts)
            if (again := await context.ledger.read(job_id)) is None:
                raise JobVanished(f"job {job_id} was deleted between two reads") from None
            stored = again
            if known := await context.ledger.find_event(job_id, origin.cause_id):
                return await _repeat(context, stored, outcome, known, orchestrations)
    raise Contended(f"concurrent writers changed job {job_id} at each of {MAX_TRIES} tries")


async def transition_recent(
    context: Context,
    recent: Stored,
    occurrence: Occurrence,
    origin: Origin,
    *,
    orchestrations: Orchestrations,
) -> Transitioned | None:
    """Applies the occurrence to `recent`, the last commit of this process (`RecentJobs.recall`). Returns None if the
    outcome is not a transition.

    After None or Conflict, the caller reads the job and calls `transition`. Raises Contended, LedgerUnavailable,
    OrchestrationUnavailable, and Conflict if `recent` is outdated (Race recent). After a Conflict, the occurrence may
    have been committed before.
    """
    outcome = apply(recent.record, occurrence, origin.at(context.clock.now(), context.new_salt()))
    return await _commit(context, recent, outcome, orchestrations) if outcome.transitioned else None


async def _commit(context: Context, before: Stored, outcome: Outcome, orchestrations: Orchestrations) -> Transitioned:
    """Commits the outcome. Raises Conflict, Contended, LedgerUnavailable, OrchestrationUnavailable."""
    # until the response arrives, the process does not know the state of the ledger
    context.process.recent_jobs.forget(before.record.job.job_id)
    stored = await context.ledger.commit(before, outcome.record, outcome.events)
    context.process.recent_jobs.note(stored, context.clock.now())
    telemetry.record_transition(before.record, outcome)
    context.process.minute_buffer.note(before.record, outcome, context.of_all_tenants.minutes)
    if outcome.transitioned and outcome.record.job.status.terminal:
        await context.follow_end(context, orchestrations, stored, outcome.events)
    elif context.events is not None:
        context.events.hinting.note(stored.record.job, outcome.events)
    return Transitioned(stored, outcome, outcome.events[0] if outcome.events else None)


async def _repeat(
    context: Context, stored: Stored, outcome: Outcome, known: Event, orchestrations: Orchestrations
) -> Transitioned:
    """Repeats the follow-up, since the first delivery may have died after its commit."""
    if stored.record.job.status.terminal:
        await context.follow_end(context, orchestrations, stored, ())
    return Transitioned(stored, outcome, known, repeated=True)
