"""Jobs at their tenant's desk: in, into line, out, and at each of these the next one in (R48, R49).

Every change is one transaction of the tenant's partition, under the desk's ETag. Within a process the writers of a desk
take turns; between processes the one that lost looks again (Race desk).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from shared import telemetry
from shared.core.gates import divided, places
from shared.core.gates.desk import Candidate, Desk, Shut, epoch_of, step_away, words_to
from shared.core.gates.ends import MAX_SETTLED, Judged, judged
from shared.core.gates.letting import MAX_LET_IN
from shared.core.gates.places import (
    Decision,
    LineFull,
    Owed,
    Place,
    PlaceState,
    Rejects,
    arrive,
    give_back,
    line_up,
    set_apart,
    set_aside,
)
from shared.core.gates.rules import Directory, Gate, GateKind, GateState
from shared.core.job import Job
from shared.errors import AlreadyExists, Conflict, Contended
from shared.operations import desk_counts
from shared.operations.context import Context
from shared.operations.desk_turns import (
    Entered,
    ask_divisions,
    at_desk,
    call_again,
    desk_calls,
    desk_write,
    directory,
    entered_by,
    letting,
)
from shared.ports.desks import DeskWrite, StoredDesk
from shared.ports.index import FIRST_CHECK, ActiveRow, Claim, Clearing
from shared.refusals import LimitReached

#: a process with an older directory may have begun and ended jobs so long after the first rule of a tenant
_SECOND_COUNT = timedelta(minutes=1)
#: where nothing says when a gate opens: jobs end all the time
RETRY_AFTER_S = 30
_MAX_RACES = 40
#: callers wait so long for an answer
_PATIENCE = timedelta(seconds=20)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.02, 1.0
#: operations of one transaction but those of breakers' logs; of one that goes in; of what an end and a creation write
_ROOM, _EACH, _OF_AN_END, _OF_A_CREATION = 100 - MAX_SETTLED - 2, 4, 11, 5

_T = TypeVar("_T")


async def is_counted(context: Context, job: Job) -> bool:
    """Whether the job's end is a matter of its tenant's desk. Raises LedgerUnavailable."""
    return job.staged_at is not None or job.dependencies is not None or (await directory(context)).concerns(job.tenant)


def _room(operations: int) -> int:
    """How many go in with a transaction of so many operations."""
    return max(0, min(MAX_LET_IN, (_ROOM - operations) // _EACH))


def _has_place(active: ActiveRow, desk: Desk) -> bool:
    """Not where a process that knew no gates created the job after the desk had counted the rows."""
    return active.place is not None or active.created_at <= desk.counted_at


@dataclass(frozen=True)
class NeedsDivision:
    """Only a gate over all tenants stops the job: a division may have a place for it."""

    gate: Gate
    #: else the request is refused
    rejects: bool


async def reserve_at_desk(
    context: Context, job: Job, *, replacing: Claim | None, after_division_of: Collection[Gate] = ()
) -> tuple[Decision, Entered] | NeedsDivision | None:
    """The job's claim and its place, after those in line whose gates have opened by time (R49: else whoever comes by
    takes what opened, and they wait for ever); None: the claim is another's by now, look again.

    `after_division_of`: gates that need not be divided for it again. Raises LimitReached, Contended, LedgerUnavailable.
    """

    async def act(stored: StoredDesk, known: Directory) -> tuple[Decision, Entered] | NeedsDivision | None:
        needed = _needed_division(context, stored.desk, known, job) if not job.dependencies else None
        if needed is not None and needed.gate not in after_division_of:
            return needed
        let = await letting(context, stored.desk, known, _room(_OF_A_CREATION + len(job.dependencies or ())))
        decision = decided(context, let.desk, known, job)
        staged_at = job.created_at if decision.place.is_staged else None
        initial_status = replace(job, status=decision.place.initial_status, staged_at=staged_at)
        write = await desk_write(context, stored, known, replace(let, desk=decision.desk))
        try:
            await context.index.reserve(initial_status, replacing=replacing, place=decision.place, desk=write)
        except (Conflict, AlreadyExists):
            held = await context.index.read_claim(job.tenant, job.idempotency_hash)
            if held is not None and held.job_id == job.job_id:
                # an earlier try of this very write went through
                active = await context.index.read_active(job.tenant, job.job_id)
                return (_as_written(decision, active), Entered()) if active is not None else None
            if (held and held.etag) != (replacing and replacing.etag):
                return None
            raise
        await desk_calls(context, write, known)
        return decision, entered_by(let)

    return await at_desk(context, job.tenant, act)


def _needed_division(context: Context, desk: Desk, known: Directory, job: Job) -> NeedsDivision | None:
    candidate = Candidate.of(job)
    found = words_to(desk, known, candidate, context.clock.now())
    gate = divided.stopping_division(found)
    if gate is None or divided.is_stopped(desk, known, gate, context.clock.now()):
        # those in line have asked
        return None
    rejects = any(word.shut is not None and word.rule is not None and word.rule.rejects for word in found)
    return NeedsDivision(gate, rejects or context.settings.staging == "off")


def _as_written(decision: Decision, active: ActiveRow) -> Decision:
    """What the earlier try had decided, as far as its row says."""
    place = active.place or decision.place
    return (
        replace(decision, place=place)
        if place.is_staged
        else replace(decision, place=place, stopped_by=None, position=None)
    )


def decided(context: Context, desk: Desk, known: Directory, job: Job) -> Decision:
    """Raises LimitReached."""
    now, candidate, may_stage = context.clock.now(), Candidate.of(job), context.settings.staging == "on"
    try:
        if job.dependencies:
            return set_apart(desk, known, candidate, len(job.dependencies), now, may_stage=may_stage)
        return arrive(desk, known, candidate, now, may_stage=may_stage)
    except Rejects as refused:
        rule, gate = refused.word.rule, refused.word.gate
        limit = rule.setting if rule is not None and rule.setting is not None else gate.kind.value
        detail = f"{gate.words}: {desk.inside_of(gate)} jobs are active"
        if refused.word.shut is Shut.BREAKER:
            detail = f"{gate.words}: its breaker is not closed"
        raise LimitReached(limit, detail, _retry_after(refused.word.opens_at, now)) from None
    except LineFull as full:
        detail = f"tenant {job.tenant!r} has {desk.staged} jobs that wait, of {full.limit}"
        raise LimitReached("max_staged", detail, _retry_after(full.word.opens_at, now)) from None


async def inside(context: Context, tenant: str) -> tuple[int | None, int | None]:
    """The tenant's jobs that are inside, and how many may be; None: nobody counts, or no number is set.

    Raises Contended, LedgerUnavailable.
    """
    if not (await directory(context)).concerns(tenant):
        return None, None

    async def act(stored: StoredDesk, known: Directory) -> tuple[int | None, int | None]:
        rule = known.rule_of(stored.desk.state(Gate(GateKind.TENANT, tenant)))
        return stored.desk.active, rule.max_active if rule is not None else None

    return await at_desk(context, tenant, act)


def _retry_after(opens_at: datetime | None, now: datetime) -> int:
    return max(1, -(-(opens_at - now) // timedelta(seconds=1))) if opens_at is not None else RETRY_AFTER_S


async def end_at_desk(
    context: Context, job: Job, *, claim_expires_at: datetime, purged: Sequence[Clearing] = ()
) -> Entered:
    """The index transaction after the job's end: its place is free, and the next one has it.

    Raises Contended, LedgerUnavailable.
    """
    ended_at = job.completed_at or job.updated_at
    # a job that was never staged is inside, and of one that ended within a minute no sweeper has moved the DUE row;
    # one of release 0.2.0 may have been counted by nobody, one that others wait for may have given its place back
    is_plain = job.staged_at is None and not job.gated and not job.awaited
    is_known = is_plain and ended_at < job.created_at + FIRST_CHECK

    async def act(stored: StoredDesk, known: Directory) -> Entered | None:
        nonlocal is_known
        # a breaker that has opened once asks in which epoch the job went in, which its row alone says
        is_known = is_known and not epoch_of(stored.desk, job.request_type)
        active = None if is_known else await context.index.read_active(job.tenant, job.job_id)
        if active is None and not is_known:
            return None
        is_known = False
        place = desk_counts.place_of(active) if active is not None else Place(candidate=Candidate.of(job))
        room = _room(_OF_AN_END + 2 * len(purged))
        after = Judged(stored.desk)
        if active is None or _has_place(active, stored.desk):
            after = judged(give_back(stored.desk, place), known, job, place, context.clock.now())
        let = await letting(context, after.desk, known, room, leaving=job.job_id)
        write = await desk_write(context, stored, known, let, after.log)
        await context.index.close_at_desk(job, active, write, claim_expires_at=claim_expires_at, purged=purged)
        await desk_calls(context, write, known, seen_by=after.seen_by)
        return replace(entered_by(let), breakers_opened=after.opened)

    entered = await at_desk(context, job.tenant, act)
    if entered is None:
        # it was ended so before
        for each in purged:
            await context.index.reschedule_clearing(each.row, each.clear_at, purged=True)
        return Entered()
    on_breakers_opened(entered)
    return entered


def on_breakers_opened(entered: Entered) -> None:
    """After the transaction, also of a division: whoever has to know of an opened breaker is told here.

    Not where the process dies between, or the answer of the transaction is lost: the gate's log and its row have it.
    """
    for state in entered.breakers_opened:
        reason = f"{state.gate.words}: {'{} of {}'.format(*state.breaker.opened_by)}" if state.breaker else None
        telemetry.warn("BREAKER_OPENED", tenant_id=state.gate.tenant, gate=state.gate.id, reason=reason)


async def call_for_incidents(context: Context, opened: Iterable[GateState]) -> None:
    """Has the incident of each breaker made; where the call fails, for whatever reason, the sweeper makes it."""
    for state in opened:
        try:
            await context.desk_calls.call(state.gate.tenant, breaker_of=state.gate.id)
        except Exception as fault:  # it stops nothing of the job whose end opened the breaker
            telemetry.record_fault(fault)
            telemetry.warn("INCIDENT_LATE", gate=state.gate.id, reason=f"{type(fault).__name__}: {fault}")


async def withdraw_at_desk(context: Context, tenant: str, job_id: str) -> Entered:
    """A job that never came to be gives back what it held. Raises Contended, LedgerUnavailable."""

    async def act(stored: StoredDesk, known: Directory) -> Entered:
        active = await context.index.read_active(tenant, job_id)
        if active is None:
            return Entered()
        desk = give_back(stored.desk, desk_counts.place_of(active)) if _has_place(active, stored.desk) else stored.desk
        let = await letting(context, desk, known, MAX_LET_IN, leaving=job_id)
        write = await desk_write(context, stored, known, let)
        await context.index.withdraw(active, write)
        await desk_calls(context, write, known)
        return entered_by(let)

    return await at_desk(context, tenant, act)


async def move_job(
    context: Context,
    tenant: str,
    job_id: str,
    owed: Owed,
    due_at: datetime,
    *,
    candidate: Candidate | None = None,
    ended: Job | None = None,
) -> Entered:
    """LINE_UP, REORDER, STEP_OUT or END, where it is still owed; until `due_at` nobody looks at a job that waits.

    `candidate`: as its gates see the job by now, which it lines up with.

    With END, `ended` is the job, which counts at the breaker of its type. Raises Contended, LedgerUnavailable.
    """

    async def act(stored: StoredDesk, known: Directory) -> Entered:
        active, now = await context.index.read_active(tenant, job_id), context.clock.now()
        if active is None:
            return Entered()
        place, after = desk_counts.place_of(active), Judged(stored.desk)
        if place.state is not PlaceState.ARRIVING and owed in (Owed.STEP_OUT, Owed.LINE_UP):
            # Race place: who moved the job since may have moved its place; who moves it from now on meets this write,
            # or this write theirs (`holds_place`)
            found = await context.ledger.read(job_id)
            if found is None or places.owed(found.record.job, place) is not owed:
                return Entered()
        arrives = owed is Owed.LINE_UP and place.state in (PlaceState.ARRIVING, PlaceState.OFF)
        if arrives or (owed is Owed.REORDER and place.line is not None and candidate != place.candidate):
            desk = step_away(stored.desk, place.line) if place.line is not None else stored.desk
            # those that wait go first
            let = await letting(context, desk, known, MAX_LET_IN, leaving=job_id)
            try:
                desk, place = line_up(let.desk, known, replace(place, candidate=candidate or place.candidate), now)
            except LineFull as full:
                raise Contended(f"the tenant's jobs wait in {full.limit} lines") from None
            let = replace(let, desk=desk)
        elif owed is Owed.STEP_OUT and place.state is not PlaceState.OFF:
            desk, place = set_aside(stored.desk, place)
            let = await letting(context, desk, known, MAX_LET_IN, leaving=job_id)
        elif owed is Owed.END and place.state is not PlaceState.ENDED:
            after = Judged(give_back(stored.desk, place))
            after = judged(after.desk, known, ended, place, now) if ended is not None else after
            place = replace(place, state=PlaceState.ENDED, line=None)
            let = await letting(context, after.desk, known, MAX_LET_IN, leaving=job_id)
        else:
            return Entered()
        check_at = due_at if place.state in (PlaceState.WAITING, PlaceState.OFF) else now + FIRST_CHECK
        write = await desk_write(context, stored, known, let, after.log)
        await context.index.move_place(active, place, check_at, write)
        await desk_calls(context, write, known, seen_by=after.seen_by)
        return replace(entered_by(let), breakers_opened=after.opened)

    entered = await at_desk(context, tenant, act)
    on_breakers_opened(entered)
    return entered


async def holds_place(context: Context, tenant: str, job_id: str) -> bool:
    """Whether a job that was paused is inside now; the desk is written, unchanged.

    Race place: whoever read the job while it was paused, and takes its place away for that, meets this write. Raises
    Contended, LedgerUnavailable.
    """

    async def act(stored: StoredDesk, known: Directory) -> bool:
        active = await context.index.read_active(tenant, job_id)
        if active is None or desk_counts.place_of(active).is_staged:
            return False
        await context.index.write_desk(DeskWrite(before=stored, after=stored.desk))
        return True

    return await at_desk(context, tenant, act)


async def let_in(context: Context, tenant: str) -> Entered:
    """Those in line whose gates are open go in, at most twenty. Raises Contended, LedgerUnavailable."""

    async def act(stored: StoredDesk, known: Directory) -> Entered:
        let = await letting(context, stored.desk, known, MAX_LET_IN)
        write = await desk_write(context, stored, known, let)
        if let.desk is not stored.desk or write.after.wake_at != stored.desk.wake_at:
            await context.index.write_desk(write)
            await desk_calls(context, write, known)
        if write.after.wake_at == stored.desk.wake_at:
            await call_again(context, tenant, stored.desk.wake_at)
        if not let.more:
            # for those who stay after a hold that ended, or an ask that was lost: no division knows of them
            await ask_divisions(context, write.after, known)
        return entered_by(let)

    return await at_desk(context, tenant, act)
