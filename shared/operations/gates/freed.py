"""Converts the FREED rows of jobs that left their quotas into free slots, and admits the next jobs (R48, R49).

A job that ends changes no row of its tenant's quotas. The transaction that removes its ACTIVE row, or marks that row as
ENDED, creates a FREED row.

A turn is one update of the tenant's admission state. The turn deletes up to 40 FREED rows, lowers the counts, evaluates
breakers, writes logs, and admits jobs. So a count is never too low, and many ended jobs cost one update. If the process
dies before the turn, the sweeper takes the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.ends import Freed, RecordedOutcome, is_good, record_outcome
from shared.core.gates.log import LogEntry
from shared.core.gates.places import PlaceState, release
from shared.core.gates.rules import Directory, Gate, GateState
from shared.core.jobs.job import Job
from shared.errors import Contended, Interrupted, LuciusError
from shared.operations.gates.admission_turns import (
    COUNTS_PATIENCE,
    AdmittedJobs,
    act_on_admission,
    count_admission_room,
    get_admitted,
    prepare_write,
    read_directory,
    repeat_call,
    request_blocked_allocations,
    request_turn,
    select_admissions,
    send_follow_ups,
)
from shared.operations.process.context import Context
from shared.ports.admissions import StoredAdmission
from shared.ports.index import FIRST_CHECK
from shared.time_limits import time_limit

#: maximum FREED rows that one transaction takes
MAX_FREED = 40
#: maximum log entries that the FREED rows of one transaction add
MAX_LOG = 12
#: maximum wait of an end for other writers; then another process, or the sweeper, takes the turn
_PATIENCE = timedelta(seconds=5)


async def may_be_counted(context: Context, job: Job) -> bool:
    """Returns `True` if the ended job may count in its tenant's quotas. Raises no LuciusError.

    Returns `True` if the directory cannot be read, since an unnecessary FREED row does no harm.
    """
    if job.staged_at is not None or job.dependencies is not None:
        return True
    with telemetry.tolerate(LuciusError):
        directory = await read_directory(context)
        return context.process.gate_directory.is_outdated(context.clock.now()) or directory.concerns(job.tenant)
    return True


@dataclass(frozen=True)
class CountedOut:
    """An admission state after subtracting the jobs of these FREED rows."""

    admission: AdmissionState
    freed: tuple[Freed, ...] = ()
    log: tuple[LogEntry, ...] = ()
    #: quotas whose breaker one of the ends opened
    opened: tuple[GateState, ...] = ()
    #: quotas over all tenants whose next allocation must read one of the ends
    to_allocate: frozenset[Gate] = frozenset()
    #: `True` if there may be more rows
    more: bool = False


async def read_freed(context: Context, tenant: str, limit: int) -> list[Freed]:
    """Reads the tenant's first FREED rows. A row that cannot be decoded keeps its slot. Raises LedgerUnavailable."""
    return await context.admissions.list_freed(tenant, limit=limit, unread=[])


def take_freed(
    context: Context, admission: AdmissionState, directory: Directory, rows: Sequence[Freed], *, limit: int = MAX_FREED
) -> CountedOut:
    """Returns the admission state without the jobs of `rows`, the first FREED rows of the tenant. Stops early if the
    transaction has no room for more log entries.

    `limit`: maximum number of rows of the read that returned `rows`. If `rows` has this length, more rows may exist.
    """
    counted = CountedOut(admission)
    for each in sorted(rows, key=lambda row: row.freed_at):
        # one end adds at most two entries
        if len(counted.log) > MAX_LOG - 2:
            return replace(counted, more=True)
        after = _count_out(context, counted.admission, directory, each)
        counted = CountedOut(
            after.admission,
            (*counted.freed, each),
            (*counted.log, *after.log),
            (*counted.opened, *after.opened),
            counted.to_allocate | ({after.to_allocate} if after.to_allocate is not None else frozenset()),
        )
    return replace(counted, more=len(rows) == limit)


def _count_out(context: Context, admission: AdmissionState, directory: Directory, freed: Freed) -> RecordedOutcome:
    if not freed.is_counted(admission.counted_at):
        return RecordedOutcome(admission)
    admission = release(admission, freed.place)
    # a fault of the breaker must not keep a slot
    with telemetry.tolerate(Exception):
        return record_outcome(admission, directory, freed.place, context.clock.now(), good=freed.good)
    return RecordedOutcome(admission)


def log_opened_breakers(opened: Iterable[GateState]) -> None:
    """Logs each breaker that a transaction or an allocation opened.

    If the process dies before this call, or loses the response of the transaction, only the quota's log and row have
    the opening.
    """
    for state in opened:
        reason = None
        if state.breaker is not None:
            bad, calls = state.breaker.opened_by
            reason = f"{state.gate.display_name}: {bad} of {calls} jobs failed"
        telemetry.warn("BREAKER_OPENED", tenant_id=state.gate.tenant, gate=state.gate.id, reason=reason)


async def request_incidents(context: Context, opened: Iterable[GateState]) -> None:
    """Requests the incident of each breaker. The sweeper creates it if the request fails."""
    for state in opened:
        # a fault must not stop the job whose end opened the breaker
        with telemetry.tolerate(Exception, "INCIDENT_LATE", gate=state.gate.id):
            await context.bus.admission_calls.call(state.gate.tenant, breaker_of=state.gate.id)


async def take_turn(
    context: Context, tenant: str, *, counts: bool = True, due_at: datetime | None = None
) -> AdmittedJobs:
    """Takes one turn of the tenant: subtracts the jobs of its FREED rows and admits waiting jobs, at most 20 (R49).

    Returns the admitted jobs. Also repeats a possibly lost request for an allocation. Raises Contended,
    LedgerUnavailable.

    `counts`: allows a count of all jobs of the tenant first. If `False`, only a tenant with fewer than 1,000 living
    jobs is counted. `due_at`: time for which the turn was requested.
    """

    async def act(stored: StoredAdmission, directory: Directory) -> AdmittedJobs:
        counted = take_freed(context, stored.admission, directory, await read_freed(context, tenant, MAX_FREED))
        entered, after = await _write_turn(context, stored, directory, counted)
        entered = replace(entered, more=entered.more or counted.more)
        if due_at is not None and after.wake_at == stored.admission.wake_at == due_at:
            await repeat_call(context, tenant, due_at)
        if not entered.more:
            # no allocation counts jobs that still wait after a hold ended, or whose request was lost
            await request_blocked_allocations(context, after, directory)
        return entered

    if counts:
        return await act_on_admission(context, tenant, act)
    return await act_on_admission(context, tenant, act, counts_patience=COUNTS_PATIENCE)


async def take_turn_after_end(context: Context, tenant: str, job_id: str) -> AdmittedJobs:
    """Takes the turn after `job_id` ended or was withdrawn, with an existing FREED row. Logs a fault, which the sweeper
    repairs.

    For a new job, which has no FREED row, takes the turn only if one turn may not take all FREED rows of the tenant.

    Callers of one process share a turn that starts after their calls. If another process has taken their rows, nothing
    is left to do. Each caller waits at most 5 s, and 1 s for a count, so that a slow tenant does not block its lane.
    After that, or after too many lost races, a message requests the turn.
    """
    turn = context.process.gate_directory.turn(tenant)
    turn.ended.add(job_id)
    asked: set[str] = set()
    rows: list[Freed] = []

    async def read() -> None:
        asked.update(turn.ended)
        rows[:] = await read_freed(context, tenant, MAX_FREED)

    async def act(stored: StoredAdmission, directory: Directory) -> AdmittedJobs:
        counted = take_freed(context, stored.admission, directory, rows)
        found = {each.job_id for each in counted.freed}
        if job_id not in found and not counted.more:
            # later ends get another turn
            asked.difference_update(found)
            return AdmittedJobs()
        entered, _ = await _write_turn(context, stored, directory, counted)
        if counted.more:
            # the other ends get another turn with the next rows
            asked.intersection_update({*found, job_id})
        return replace(entered, more=entered.more or (counted.more and job_id not in found))

    async def lead() -> AdmittedJobs:
        async with turn.ends:
            if job_id not in turn.ended:
                return AdmittedJobs()
            asked.update(turn.ended)
            try:
                if (
                    not (await read_directory(context)).concerns(tenant)
                    and await context.admissions.read(tenant) is None
                ):
                    # the end did not know that no quota concerns the tenant; a count that starts now finds neither its
                    # ACTIVE row nor this one
                    for each in asked:
                        await context.admissions.drop_freed(tenant, each)
                    return AdmittedJobs()
                return await act_on_admission(
                    context, tenant, act, alongside=read, patience=_PATIENCE, counts_patience=COUNTS_PATIENCE
                )
            finally:
                # also after a failed turn; otherwise each other end would wait for a failed turn of its own
                turn.ended -= asked

    try:
        async with time_limit(_PATIENCE.total_seconds()):
            return await lead()
    except Exception as fault:
        telemetry.record_fault(fault, "DESK_UNSEEN", tenant_id=tenant)
        if isinstance(fault, Interrupted | Contended):
            await request_turn(context, tenant)
        return AdmittedJobs()
    finally:
        turn.ended.discard(job_id)


async def _write_turn(
    context: Context, stored: StoredAdmission, directory: Directory, counted: CountedOut
) -> tuple[AdmittedJobs, AdmissionState]:
    """Writes the turn. Returns the admitted jobs and the written state. Raises Conflict, AlreadyExists,
    LedgerUnavailable.
    """
    selected = await select_admissions(
        context, counted.admission, directory, count_admission_room(len(counted.log) + len(counted.freed))
    )
    write = await prepare_write(context, stored, directory, selected, counted.log, counted.freed)
    if counted.freed or selected.admission is not stored.admission or write.after.wake_at != stored.admission.wake_at:
        await context.index.write_admission(write)
        await send_follow_ups(context, write, directory, to_allocate=counted.to_allocate)
        log_opened_breakers(counted.opened)
    return replace(get_admitted(selected), breakers_opened=counted.opened), write.after


async def release_slot(context: Context, job: Job) -> bool:
    """Frees the slot of an ended job. Returns `True` if the counts still included the job. The ACTIVE row stays until
    the job's dependants are notified.

    Raises Contended, LedgerUnavailable.
    """

    async def free() -> bool:
        active = await context.index.read_active(job.tenant, job.job_id)
        now = context.clock.now()
        freed = active.make_freed(now, good=is_good(job)) if active is not None else None
        if active is None or freed is None:
            return False
        place = replace(active.counted_place, state=PlaceState.ENDED, queue=None)
        await context.index.move_place(active, place, now + FIRST_CHECK, freed=freed)
        return True

    return await context.retry_on_conflict(free, f"the slot of job {job.job_id}")
