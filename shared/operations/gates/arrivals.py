"""Decides on new jobs by their tenant's quotas: active, waiting, or refused (R48).

New jobs of one tenant that wait in one process are decided in order and written in one transaction.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.gates import demand
from shared.core.gates.admission import AdmissionResult
from shared.core.gates.admission_state import AdmissionState, BlockReason, Candidate, evaluate_candidate
from shared.core.gates.places import (
    Decision,
    Place,
    PlaceState,
    QueueFull,
    QuotaRejects,
    decide_arrival,
    decide_dependent,
)
from shared.core.gates.rules import OVER_ALL, Directory, Gate
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.errors import AlreadyExists, BusUnavailable, Conflict, LedgerRefused
from shared.operations.gates.admission_turns import (
    COUNTS_PATIENCE,
    FREE_OPERATIONS,
    MAX_JOBS,
    OPERATIONS_OF_ADMISSION,
    AdmittedJobs,
    QuotasUnknown,
    act_on_admission,
    count_admission_room,
    get_admitted,
    prepare_write,
    select_admissions,
    send_follow_ups,
)
from shared.operations.gates.freed import MAX_FREED, MAX_LOG, CountedOut, log_opened_breakers, read_freed, take_freed
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.ports.admissions import StoredAdmission
from shared.ports.index import ActiveRow, Claim, Reservation
from shared.refusals import LimitReached

#: `Retry-After` for a quota without a known time of opening, since jobs end all the time
RETRY_AFTER_S = 30
#: operations of a new job, without its dependencies
_OPERATIONS_OF_CREATION = 5
#: time for which new jobs are staged without a count after a count took too long
_STAGING_TIME = timedelta(seconds=2)
#: delay until the job joins the waiting queue, unless a sweep did that before
_COUNT_TIME = timedelta(seconds=10)

#: reasons for a refusal other than a reached maximum of active jobs
_STOPPED = {BlockReason.HELD: "the quota is held", BlockReason.RATE: "the quota has reached its rate"}


@dataclass(frozen=True)
class NeedsAllocation:
    """A decision: only a quota over all tenants stops the job, and an allocation may have a slot for the job."""

    gate: Gate
    #: `True` if the quota refuses the request without a slot
    rejects: bool


@dataclass(frozen=True)
class NeedsTurn:
    """A decision: a quota refuses the job, but the tenant may have FREED rows that its counts still include."""


#: `None` if the caller must read the idempotency record again
Reserving = tuple[Decision, AdmittedJobs] | NeedsAllocation | NeedsTurn | None


@dataclass(eq=False, kw_only=True)
class Arrival:
    """A new job that waits in this process for its tenant's turn."""

    job: Job
    replacing: Claim | None
    #: quotas that were already allocated for it
    allocated: Collection[Gate] = ()
    #: `True` if its request can take another turn while FREED rows are left, before it is refused
    may_need_turn: bool = False
    is_done: bool = False
    must_stage: bool = False
    found: Reserving = None
    refused: LimitReached | None = None

    def end(self, found: Reserving = None, refused: LimitReached | None = None) -> None:
        self.is_done, self.found, self.refused = True, found, refused


async def reserve_slot(
    context: Context,
    job: Job,
    *,
    replacing: Claim | None,
    allocated: Collection[Gate] = (),
    may_need_turn: bool = False,
) -> Reserving:
    """Reserves the job's idempotency record and its slot. Before that, admits waiting jobs whose quotas now allow it
    (R49).

    Returns NeedsAllocation or NeedsTurn if the caller must do that first and then call again. Returns None if the
    caller must read the idempotency record again, since another write came first. If the quotas or counts are unknown,
    stores the job without a slot.

    `allocated`: quotas that were already allocated for the job. `may_need_turn`: the caller can take a turn of the
    tenant. Raises LimitReached, Contended, LedgerUnavailable.
    """
    turn = context.process.gate_directory.turn(job.tenant)
    arrivals = turn.arrivals
    own = Arrival(job=job, replacing=replacing, allocated=allocated, may_need_turn=may_need_turn)
    if turn.stages_until is not None and context.clock.now() < turn.stages_until:
        return await stage_uncounted(context, job, replacing=replacing)
    arrivals.append(own)

    async def act(stored: StoredAdmission, directory: Directory) -> None:
        if not own.is_done:
            # an earlier turn may have had no room for it
            waiting = [each for each in arrivals if each is not own]
            await _Together(context, stored, directory).reserve([own, *waiting])

    try:
        async with turn.creations:
            if not own.is_done and not own.must_stage:
                await act_on_admission(context, job.tenant, act, counts_patience=COUNTS_PATIENCE)
    except QuotasUnknown:
        # the others have waited as long, and later ones need not wait
        turn.stages_until = context.clock.now() + _STAGING_TIME
        for each in arrivals:
            each.must_stage = True
    finally:
        arrivals.remove(own)
    if own.must_stage and not own.is_done:
        return await stage_uncounted(context, job, replacing=replacing)
    if own.refused is not None:
        raise own.refused
    return own.found


@dataclass
class _Decisions:
    """The decisions of an admission state on several new jobs."""

    admission: AdmissionState
    made: list[tuple[Arrival, Decision]] = field(default_factory=list)
    #: new jobs for which nothing is written
    ended: list[tuple[Arrival, NeedsAllocation | LimitReached]] = field(default_factory=list)

    @property
    def is_free(self) -> bool:
        """Returns `True` if each job is active immediately."""
        return not self.ended and all(not decision.place.is_staged for _, decision in self.made)


@dataclass(frozen=True)
class _Together:
    """One turn of a tenant's new jobs."""

    context: Context
    stored: StoredAdmission
    directory: Directory

    async def reserve(self, arrivals: Sequence[Arrival]) -> None:
        """Decides on the new jobs that fit into one transaction, at least on the first.

        Raises Conflict and AlreadyExists if the admission state changed, LedgerRefused, LedgerUnavailable.
        """
        together = list(_select_fitting(arrivals))
        try:
            await self._reserve(together)
        except LedgerRefused:
            if len(together) == 1:
                raise
            # the ledger may have refused a row of another new job
            await self._reserve(together[:1])

    async def _reserve(self, arrivals: Sequence[Arrival]) -> None:
        context, directory = self.context, self.directory
        operations = sum(_count_operations(each) for each in arrivals)
        selected = await select_admissions(context, self.stored.admission, directory, count_admission_room(operations))
        operations += OPERATIONS_OF_ADMISSION * len(selected.admitted) + 3 * len(selected.requeued)
        decisions = self._decide(arrivals, selected.admission)
        taken = None
        if not decisions.is_free:
            # slots may be free that the counts do not include
            limit = max(0, min(MAX_FREED, FREE_OPERATIONS - MAX_LOG - operations))
            rows = await read_freed(context, selected.admission.tenant, limit) if limit else []
            taken = take_freed(context, selected.admission, directory, rows, limit=limit)
            if taken.freed:
                decisions = self._decide(arrivals, taken.admission)
        if decisions.made:
            await self._write(selected, decisions, taken)
        # only after the write, since a slot that another new job was to get may be free
        for arrival, found in decisions.ended:
            if isinstance(found, LimitReached) and arrival.may_need_turn and taken is not None and taken.more:
                arrival.end(NeedsTurn())
            elif isinstance(found, LimitReached):
                arrival.end(refused=found)
            else:
                arrival.end(found)

    async def _write(self, selected: AdmissionResult, decisions: _Decisions, taken: CountedOut | None) -> None:
        context, directory = self.context, self.directory
        log = taken.log if taken is not None else ()
        freed = taken.freed if taken is not None else ()
        write = await prepare_write(
            context, self.stored, directory, replace(selected, admission=decisions.admission), log, freed
        )
        reservations = [_make_reservation(each.job, each.replacing, decision) for each, decision in decisions.made]
        try:
            await context.index.reserve_together(reservations, admission=write)
        except (Conflict, AlreadyExists) as lost:
            await self._end_taken(decisions.made, is_claimed=isinstance(lost, AlreadyExists))
            raise
        entered = get_admitted(selected)
        if taken is not None:
            # waiting jobs may get the other slots that it freed
            more = entered.more or bool(taken.freed and write.after.queues)
            entered = replace(entered, more=more, breakers_opened=taken.opened)
        for arrival, decision in decisions.made:
            arrival.end((decision, entered))
            # the first new job starts the admitted jobs
            entered = AdmittedJobs()
        await send_follow_ups(context, write, directory, to_allocate=taken.to_allocate if taken is not None else ())
        if taken is not None:
            log_opened_breakers(taken.opened)

    def _decide(self, arrivals: Iterable[Arrival], admission: AdmissionState) -> _Decisions:
        found = _Decisions(admission)
        for arrival in arrivals:
            job = arrival.job
            needed = (
                _find_needed_allocation(self.context, found.admission, self.directory, job)
                if not job.dependencies
                else None
            )
            if needed is not None and needed.gate not in arrival.allocated:
                found.ended.append((arrival, needed))
                continue
            try:
                decision = decide_new_job(self.context, found.admission, self.directory, job)
            except LimitReached as refused:
                found.ended.append((arrival, refused))
                continue
            found.admission = decision.admission
            found.made.append((arrival, decision))
        return found

    async def _end_taken(self, decisions: Sequence[tuple[Arrival, Decision]], *, is_claimed: bool) -> None:
        """Completes the arrivals that this write must not reserve: an earlier try reserved them, or another job has
        their idempotency record.
        """

        async def one(item: tuple[Arrival, Decision]) -> None:
            arrival, decision = item
            job, replacing = arrival.job, arrival.replacing
            if not is_claimed and replacing is None:
                return
            held = await self.context.index.read_claim(job.tenant, job.idempotency_hash)
            if held is not None and held.job_id == job.job_id:
                active = await self.context.index.read_active(job.tenant, job.job_id)
                arrival.end((_restore_decision(decision, active), AdmittedJobs()) if active is not None else None)
            elif (held and held.etag) != (replacing and replacing.etag):
                arrival.end(None)

        await run_concurrently(decisions, one)


def _select_fitting(arrivals: Sequence[Arrival]) -> Iterable[Arrival]:
    """Selects new jobs that fit into one transaction, with at most one of each idempotency key."""
    left = FREE_OPERATIONS
    claims: set[str] = set()
    for arrival in itertools.islice((each for each in arrivals if not each.is_done), MAX_JOBS):
        left -= _count_operations(arrival)
        if left < 0 and claims:
            return
        if arrival.job.idempotency_hash not in claims:
            claims.add(arrival.job.idempotency_hash)
            yield arrival


def _count_operations(arrival: Arrival) -> int:
    return _OPERATIONS_OF_CREATION + len(arrival.job.dependencies or ())


def _make_reservation(job: Job, replacing: Claim | None, decision: Decision) -> Reservation:
    staged_at = job.created_at if decision.place.is_staged else None
    initial_status = replace(job, status=decision.place.initial_status, staged_at=staged_at)
    return Reservation(initial_status, replacing, decision.place)


async def stage_uncounted(
    context: Context, job: Job, *, replacing: Claim | None
) -> tuple[Decision, AdmittedJobs] | None:
    """Stores the job without a slot while its tenant's quotas or counts are unknown. The job is counted when it joins
    the waiting queue.

    Returns None if another write came first, and the caller must read the idempotency record again. Raises
    LedgerUnavailable.
    """
    now, candidate = context.clock.now(), Candidate.of(job)
    if job.dependencies:
        place = Place(
            state=PlaceState.OFF,
            initial_status=JobStatus.WAITING_FOR_JOBS,
            candidate=candidate,
            dependencies_left=len(job.dependencies),
            uncounted=True,
        )
    else:
        place = Place(
            state=PlaceState.ARRIVING, initial_status=JobStatus.THROTTLED, candidate=candidate, uncounted=True
        )
    decision = Decision(AdmissionState(tenant=job.tenant, counted_at=now), place, ())
    try:
        await context.index.reserve_together([_make_reservation(job, replacing, decision)])
    except (Conflict, AlreadyExists):
        return None
    with telemetry.tolerate(BusUnavailable):
        await context.bus.admission_calls.call(job.tenant, job.job_id, at=now + _COUNT_TIME)
    return decision, AdmittedJobs()


def _find_needed_allocation(
    context: Context, admission: AdmissionState, directory: Directory, job: Job
) -> NeedsAllocation | None:
    candidate = Candidate.of(job)
    found = evaluate_candidate(admission, directory, candidate, context.clock.now())
    gate = demand.find_blocking_gate(found)
    if gate is None or demand.is_blocked(admission, directory, gate, context.clock.now()):
        # the waiting jobs have already requested an allocation
        return None
    rejects = any(verdict.blocks and verdict.rule is not None and verdict.rule.rejects for verdict in found)
    return NeedsAllocation(gate, rejects)


def _restore_decision(decision: Decision, active: ActiveRow) -> Decision:
    """Returns the decision of the earlier try, with the slot of the ACTIVE row."""
    place = active.place or decision.place
    return (
        replace(decision, place=place)
        if place.is_staged
        else replace(decision, place=place, stopped_by=None, position=None)
    )


def decide_new_job(context: Context, admission: AdmissionState, directory: Directory, job: Job) -> Decision:
    """Decides on one new job. Raises LimitReached."""
    now, candidate = context.clock.now(), Candidate.of(job)
    try:
        if job.dependencies:
            return decide_dependent(admission, directory, candidate, len(job.dependencies), now)
        return decide_arrival(admission, directory, candidate, now)
    except QuotaRejects as refused:
        rule, gate = refused.verdict.rule, refused.verdict.gate
        limit = rule.setting if rule is not None and rule.setting is not None else gate.kind.value
        blocked_by = refused.verdict.blocked_by or BlockReason.FULL
        why = _STOPPED.get(blocked_by, f"the tenant has {admission.count_active(gate)} active jobs of this quota")
        detail = f"{gate.display_name}: {why}"
        is_full = refused.verdict.blocked_by is BlockReason.FULL
        if is_full and rule is not None and rule.max_active is not None:
            detail += f", maximum {rule.max_active}{' of all tenants' if gate.kind in OVER_ALL else ''}"
        raise LimitReached(limit, detail, _compute_retry_after(refused.verdict.opens_at, now)) from None
    except QueueFull as full:
        detail = f"tenant {job.tenant!r} has the maximum of {full.limit} waiting jobs or waiting queues"
        raise LimitReached("max_staged", detail, _compute_retry_after(full.verdict.opens_at, now)) from None


def _compute_retry_after(opens_at: datetime | None, now: datetime) -> int:
    return max(1, -(-(opens_at - now) // timedelta(seconds=1))) if opens_at is not None else RETRY_AFTER_S
