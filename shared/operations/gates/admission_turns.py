"""Changes a tenant's admission state: reads it with valid counts, writes it under its ETag, and sends the required
messages (R48).

Within a process, the writers of an admission state take turns. Between processes, a writer whose write fails reads the
state again (Race admission).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from shared import telemetry
from shared.core.gates import demand, type_breaker
from shared.core.gates.admission import MAX_ADMITTED, AdmissionResult, AdmissionRound, schedule_wake_up
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.ends import MAX_ADVANCED, Freed, advance_breakers
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import ALLOCATED, Directory, Gate, GateState
from shared.errors import AlreadyExists, BusUnavailable, Conflict, Contended, Interrupted, LedgerUnavailable
from shared.operations.gates import admission_counts
from shared.operations.gates.gate_logs import continue_log
from shared.operations.process.context import Context
from shared.operations.process.log_hints import note_admission_log
from shared.ports.admissions import AdmissionWrite, StoredAdmission
from shared.ports.index import FIRST_CHECK
from shared.time_limits import time_limit

#: time after a tenant's first quota in which a process with an older directory may still start and end jobs
_SECOND_COUNT = timedelta(minutes=1)
_MAX_RACES = 40
#: maximum wait of a caller
_PATIENCE = timedelta(seconds=20)
#: maximum wait of a request, a reply or a sweep for a count of the tenant's jobs
COUNTS_PATIENCE = timedelta(seconds=1)
#: maximum number of new or joining jobs in one transaction
MAX_JOBS = 18
#: maximum operations of a transaction, without the admission state's row and log entries by time
FREE_OPERATIONS = 100 - 1 - MAX_ADVANCED
#: operations for each job that a transaction admits
OPERATIONS_OF_ADMISSION = 4
#: waits between two tries; one writer wins each race, so the wait doubles only after some of them
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.01, 1.0
_RACES_OF_A_WAIT = 6
#: minimum time between two requests of a process for a tenant's turn
_BETWEEN_CALLS = timedelta(seconds=1)
#: maximum difference between the clocks of a process and the bus; two processes differ by at most twice as much
CLOCK_SKEW = timedelta(seconds=5)

_T = TypeVar("_T")


@dataclass(frozen=True)
class AdmittedJobs:
    """The jobs that a transaction admitted. The caller starts each."""

    job_ids: tuple[str, ...] = ()
    #: for each job its quotas; see `shared.core.jobs.occurrences.Admitted`
    passed: tuple[tuple[dict[str, Any], ...], ...] = ()
    #: `True` if the transaction had no room for all jobs that could start
    more: bool = False
    #: quotas whose breaker the transaction opened
    breakers_opened: tuple[GateState, ...] = ()


async def read_directory(context: Context) -> Directory:
    """Returns the quotas as this process knows them, at most ten seconds old. While the directory cannot be read, they
    are at most five minutes old. Raises LedgerUnavailable.
    """
    return await context.process.gate_directory.read(
        context.admissions, context.settings, context.clock.now(), context.random
    )


class Uncounted(Exception):
    """The admission state has no valid counts. A count starts with the admission state `stored`."""

    def __init__(self, stored: StoredAdmission | None) -> None:
        super().__init__()
        self.stored = stored


class QuotasUnknown(Contended):
    """The tenant's quotas or counts are unknown now. A new or waiting job continues later."""


class BeingCounted(QuotasUnknown):
    """A count of the tenant's jobs takes longer than the maximum wait of the caller."""


def count_admission_room(operations: int) -> int:
    """Returns the maximum number of waiting jobs that a transaction can admit next to `operations` on other rows."""
    return max(0, min((FREE_OPERATIONS - operations) // OPERATIONS_OF_ADMISSION, MAX_ADMITTED))


async def act_on_admission(
    context: Context,
    tenant: str,
    act: Callable[[StoredAdmission, Directory], Awaitable[_T]],
    *,
    patience: timedelta = _PATIENCE,
    counts_patience: timedelta = _PATIENCE,
    alongside: Callable[[], Awaitable[None]] | None = None,
) -> _T:
    """Calls `act` with the admission state, and calls it again if another write came first (Conflict, AlreadyExists).
    Counts the tenant's jobs first if necessary.

    `patience`: maximum wait for other writers, including those of this process (default: 20 s). `counts_patience`:
    maximum wait for a count (default: 20 s). Below the default, the count reads at most one page of rows. `alongside`:
    a read that each try makes in parallel.

    Raises QuotasUnknown, BeingCounted, Contended, LedgerUnavailable.
    """
    try:
        directory = await read_directory(context)
    except LedgerUnavailable as fault:
        raise QuotasUnknown("the directory of quotas cannot be read") from fault
    began = context.clock.now()
    for race in itertools.count():
        try:
            async with _hold_turn(context, tenant, patience):
                return await _in_turn(context, tenant, act, directory, began + patience, alongside)
        except Uncounted as found:
            try:
                await admission_counts.recount_jobs(
                    context, tenant, found.stored, at_most_one_page=counts_patience < _PATIENCE
                )
            except admission_counts.TooManyJobs:
                await request_turn(context, tenant)
                raise BeingCounted("the tenant's jobs are being counted") from None
            except (Conflict, AlreadyExists):
                # another process is counting the jobs
                await _wait_for_count(context, race, began + counts_patience)
        except _Counting:
            await _wait_for_count(context, race, began + counts_patience)
    raise AssertionError("not reached")


@asynccontextmanager
async def _hold_turn(context: Context, tenant: str, patience: timedelta) -> AsyncIterator[None]:
    """Holds this process's turn at the tenant. Raises Contended if other writers of this process take longer than
    `patience`.
    """
    turn = context.process.gate_directory.turn(tenant)
    try:
        async with time_limit(patience.total_seconds()):
            await turn.acquire()
    except Interrupted:
        raise Contended("other writers of this process hold the tenant's turn") from None
    try:
        yield
    finally:
        turn.release()


class _Counting(Exception):
    """Another process is counting the tenant's jobs."""


async def _wait_for_count(context: Context, race: int, until: datetime) -> None:
    if race >= _MAX_RACES or context.clock.now() >= until:
        raise BeingCounted("the tenant's jobs are being counted")
    await _wait(context, race)


async def _wait(context: Context, doublings: int) -> None:
    await context.sleep(min(_FIRST_WAIT_S * 2**doublings, _LONGEST_WAIT_S) * context.random())


async def request_turn(context: Context, tenant: str) -> None:
    """Requests a turn of the tenant. While other callers of this process use the turn, sends at most one request a
    second.

    The sweeper repeats a lost request.
    """
    turn, now = context.process.gate_directory.turn(tenant), context.clock.now()
    if turn.called_at is not None and now - turn.called_at < _BETWEEN_CALLS:
        return
    turn.called_at = now
    with telemetry.tolerate(BusUnavailable):
        await context.bus.admission_calls.call(tenant)


async def _in_turn(
    context: Context,
    tenant: str,
    act: Callable[[StoredAdmission, Directory], Awaitable[_T]],
    directory: Directory,
    until: datetime,
    alongside: Callable[[], Awaitable[None]] | None,
) -> _T:
    """Calls `act` once within this process's turn. Raises Uncounted, _Counting, Contended, LedgerUnavailable."""
    turn = context.process.gate_directory.turn(tenant)
    for race in itertools.count():
        try:
            done = await act(await _read_counted(context, tenant, directory, alongside), directory)
        except (Conflict, AlreadyExists) as lost:
            turn.is_behind = isinstance(lost, AlreadyExists)
            if race >= _MAX_RACES or context.clock.now() >= until:
                raise Contended("the tenant's admission state changed at every try") from None
            await _wait(context, race // _RACES_OF_A_WAIT)
        else:
            turn.is_behind = False
            return done
    raise AssertionError("not reached")


async def read_counted(
    context: Context, tenant: str, *, patience: timedelta = _PATIENCE
) -> tuple[AdmissionState, Directory]:
    """Returns the admission state with valid counts, and counts the jobs first if necessary.

    `patience`: maximum wait for other writers, and for a count. Raises QuotasUnknown, BeingCounted, Contended,
    LedgerUnavailable.
    """
    stored, now, directory = await context.admissions.read(tenant), context.clock.now(), await read_directory(context)
    if stored is not None and _is_counted(stored.admission, directory, now):
        return type_breaker.sync_breakers(stored.admission, directory), directory

    async def act(stored: StoredAdmission, directory: Directory) -> tuple[AdmissionState, Directory]:
        return stored.admission, directory

    return await act_on_admission(context, tenant, act, patience=patience, counts_patience=patience)


async def _read_counted(
    context: Context, tenant: str, directory: Directory, alongside: Callable[[], Awaitable[None]] | None
) -> StoredAdmission:
    """Returns the admission state with valid counts. Raises Uncounted, _Counting, LedgerUnavailable."""
    if alongside is None:
        stored = await context.admissions.read(tenant)
    else:
        stored, _ = await asyncio.gather(context.admissions.read(tenant), alongside())
    now = context.clock.now()
    counting = stored.admission.counting_until if stored is not None else None
    if counting is not None and counting > now:
        raise _Counting
    if stored is None or not _is_counted(stored.admission, directory, now):
        raise Uncounted(stored)
    return replace(stored, admission=type_breaker.sync_breakers(stored.admission, directory))


def _is_counted(admission: AdmissionState, directory: Directory, now: datetime) -> bool:
    """Returns `True` if the jobs were counted after a quota began to concern the tenant, and again a minute later."""
    opened = directory.counts_needed_since(admission.tenant)
    if opened is not None and now >= opened + _SECOND_COUNT:
        opened += _SECOND_COUNT
    return admission.counting_until is None and (opened is None or admission.counted_at >= opened)


async def select_admissions(
    context: Context, admission: AdmissionState, directory: Directory, room: int, *, leaving: str | None = None
) -> AdmissionResult:
    """Selects the waiting jobs that can start now, at most `room`.

    `leaving`: a job whose WAIT row the same transaction deletes. Raises LedgerUnavailable.
    """
    admission, log = advance_breakers(admission, directory, now := context.clock.now())
    turn = AdmissionRound(admission, directory, now, room=room)
    while (queue := turn.next_queue()) is not None:
        rows = await context.admissions.first_waiting(admission.tenant, queue, turn.room + 2)
        turn.add_rows(queue, [row for row in rows if row.candidate.job_id != leaving])
    return replace(turn.result, log=log)


async def prepare_write(
    context: Context,
    stored: StoredAdmission,
    directory: Directory,
    selected: AdmissionResult,
    log: tuple[LogEntry, ...] = (),
    freed: tuple[Freed, ...] = (),
) -> AdmissionWrite:
    """Returns the write of `selected`, with its wake-up, its log and its slot time. Raises LedgerUnavailable."""
    now = context.clock.now()
    after = (
        schedule_wake_up(selected.admission, directory, now, exhausted=selected.exhausted)
        if not selected.more
        else selected.admission
    )
    is_behind = context.process.gate_directory.turn(stored.admission.tenant).is_behind
    after, log = await continue_log(context, stored.admission, after, (*log, *selected.log), is_behind=is_behind)
    return AdmissionWrite(
        before=stored,
        after=demand.accrue_slot_time(stored.admission, after, now),
        admitted=selected.admitted,
        requeued=selected.requeued,
        check_at=now + FIRST_CHECK,
        log=log,
        freed=freed,
    )


async def send_follow_ups(
    context: Context, write: AdmissionWrite, directory: Directory, *, to_allocate: Iterable[Gate] = ()
) -> None:
    """Sends the wake-up, the requests for allocations and the hints that a written admission state needs.

    The sweeper repeats lost messages. `to_allocate`: quotas whose next allocation must read this admission state.
    """
    note_admission_log(context.events, write)
    tenant, after = write.after.tenant, write.after
    before = (
        write.before.admission
        if write.before is not None
        else AdmissionState(tenant=tenant, counted_at=after.counted_at)
    )
    with telemetry.tolerate((BusUnavailable, LedgerUnavailable)):
        if after.wake_at is not None and after.wake_at != before.wake_at:
            await context.bus.admission_calls.call(tenant, at=after.wake_at)
        for gate in to_allocate:
            await request_allocation(context, gate, tenant)
    await request_due_allocations(context, before, after, directory)


async def request_due_allocations(
    context: Context, before: AdmissionState, after: AdmissionState, directory: Directory
) -> None:
    """Requests the allocations that a change of the admission state needs. The sweeper repeats lost requests."""
    with telemetry.tolerate((BusUnavailable, LedgerUnavailable)):
        for gate, wants_more in demand.find_due_allocations(before, after, directory, context.clock.now()):
            await request_allocation(context, gate, after.tenant if wants_more else None)


async def repeat_call(context: Context, tenant: str, wake_at: datetime | None) -> None:
    """Repeats the wake-up for `wake_at` if it is early, because this process's clock is behind the clock of the bus
    (R51).

    The delay of the second wake-up includes the clock difference, so a slow clock costs one message and causes no loop.
    """
    now = context.clock.now()
    if wake_at is None or not now < wake_at <= now + CLOCK_SKEW:
        return
    with telemetry.tolerate(BusUnavailable):
        await context.bus.admission_calls.call(tenant, at=wake_at + (wake_at - now))


async def request_blocked_allocations(context: Context, admission: AdmissionState, directory: Directory) -> None:
    with telemetry.tolerate((BusUnavailable, LedgerUnavailable)):
        for state in directory.over_all.values():
            if state.gate.kind in ALLOCATED and demand.is_blocked(
                admission, directory, state.gate, context.clock.now()
            ):
                await request_allocation(context, state.gate, admission.tenant)


async def request_allocation(context: Context, gate: Gate, tenant: str | None = None) -> None:
    """Requests an allocation of the quota. `tenant`: a tenant that requests more slots. Raises BusUnavailable,
    LedgerUnavailable.
    """
    if tenant is not None:
        await context.allocations.ask(gate.id, tenant)
    now = context.clock.now()
    if (at := context.process.gate_directory.due_allocation(gate.id, now)) is not None:
        await context.bus.admission_calls.call_allocation(gate.id, at=at)


def get_admitted(selected: AdmissionResult) -> AdmittedJobs:
    return AdmittedJobs(
        tuple(waiting.candidate.job_id for waiting in selected.admitted), selected.passed, more=selected.more
    )
