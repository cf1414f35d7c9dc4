"""Admits waiting jobs whose quota opened because time passed, and repeats lost requests for allocations, in each sweep
(R49, R54).

The cost does not depend on the number of living jobs: a tenant's admission state has its waiting queues and counts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.rules import Directory
from shared.core.records.canonical import encode_key
from shared.operations.gates.admission_turns import COUNTS_PATIENCE, Uncounted, act_on_admission, read_directory
from shared.operations.gates.allocations import allocate_if_due
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.sweeper.state import IsOver, Pass
from shared.operations.sweeper.turns import AT_ONCE, from_anywhere, from_on
from shared.ports.admissions import AdmissionWrite, StoredAdmission
from shared.ports.sweeps import TenantCounts

#: minimum time between two counts of a tenant whose counts differ from its rows
_COUNTED_AGAIN = timedelta(minutes=10)
#: number of a tenant's living jobs from which the function of the queue `lucius-admission` counts them, not the sweep
MAX_COUNTED = 1000
#: divisor of the tolerated difference: rows of such a tenant change during the read, so up to a tenth is tolerated
_DIFFERENCE = 10


async def admit_waiting(one: Pass, is_over: IsOver) -> None:
    """Takes turns of tenants with waiting jobs or FREED rows, until no more jobs can start or the time is over."""
    known = await read_directory(one.context)
    tenants = [tenant for tenant in from_on([*one.awake], one.position.admit) if known.concerns(tenant)]
    stopped_at = await take_turns(one, tenants, is_over, _is_owed)
    one.position = replace(one.position, admit=stopped_at)
    one.has_all_gates = stopped_at is None
    one.report.more = one.report.more or stopped_at is not None


async def take_turns(
    one: Pass, tenants: Iterable[str], is_over: IsOver, is_owed: Callable[[Pass, str], Awaitable[bool]] | None = None
) -> str | None:
    """Takes turns of tenants, and repeats a tenant's turns while they admit jobs. Skips tenants for which `is_owed`
    returns `False`.

    If the time is over first, returns the next tenant, else None.
    """
    waiting, seen = deque(tenants), set[str]()

    async def turn(tenant: str) -> None:
        try:
            if tenant in seen or is_owed is None or await is_owed(one, tenant):
                seen.add(tenant)
                entered = await take_turn(one.context, tenant, counts=False)
                await notify(one.context, one.orchestrations, tenant, entered)
                if entered.job_ids or entered.more:
                    waiting.append(tenant)
            one.note_success(_row(tenant))
        except Exception as fault:
            await one.report_fault("DESK_UNSEEN", fault, row=_row(tenant), tenant_id=tenant)

    while waiting:
        await run_concurrently([waiting.popleft() for _ in range(min(AT_ONCE, len(waiting)))], turn)
        if waiting and is_over():
            return waiting[0]
    return None


async def _is_owed(one: Pass, tenant: str) -> bool:
    """Returns `True` if the tenant needs a turn. Raises LedgerUnavailable."""
    stored = await one.context.admissions.read(tenant)
    if stored is None:
        return False
    one.admissions[tenant] = admission = stored.admission
    one.gates += admission.gates.values()
    if admission.queues or admission.counting_until is not None:
        return True
    # a job without a row in a waiting queue may have ended in a process that died before its turn
    return bool(admission.active or admission.staged) and bool(
        await one.context.admissions.list_freed(tenant, limit=1, unread=[])
    )


async def allocate_due(one: Pass, is_over: IsOver) -> None:
    """Allocates each quota over all tenants with a due allocation, and starts the admitted jobs."""
    known = await read_directory(one.context)
    one.gates += known.over_all.values()
    quotas = [state.gate for state in known.over_all.values()]
    for gate in from_anywhere(quotas, one.context.random):
        row = f"books BOOK:{gate.id}"
        try:
            for tenant, entered in (await allocate_if_due(one.context, known, gate)).items():
                await notify(one.context, one.orchestrations, tenant, entered)
            one.note_success(row)
        except Exception as fault:
            await one.report_fault("GATE_UNDIVIDED", fault, row=row, gate=gate.id)
        if is_over():
            return


async def check_counts(one: Pass, tenant: str, found: TenantCounts, *, at_one_time: bool) -> bool:
    """Compares a tenant's counts with its rows, and counts its jobs again if they differ, at most every ten minutes.

    A lasting difference comes from a process that did not know the tenant's quotas. `at_one_time`: this sweep read all
    of the rows. Returns `True` if the tenant needs a turn. Raises Contended, BusUnavailable, LedgerUnavailable.
    """
    context, now = one.context, one.context.clock.now()
    if not (await read_directory(context)).concerns(tenant):
        # no quota concerns the waiting jobs any more
        return bool(found.waiting)
    rows, before = (found.inside, found.staged, found.waiting), one.admissions.get(tenant)
    if not at_one_time or (before is not None and not _may_differ(before, rows, now)):
        return False
    if (seen := await context.admissions.read(tenant)) is None:
        # the admission state was deleted: the turn counts
        return bool(found.waiting)
    counted, is_small = _counts_of(seen.admission), found.rows < MAX_COUNTED
    differ = is_small or any(_are_far(*each) for each in zip(counted, rows, strict=True))
    if not differ or not _may_differ(seen.admission, rows, now):
        return False

    async def act(stored: StoredAdmission, known: Directory) -> AdmissionState:
        if stored.admission.counted_at != seen.admission.counted_at:
            return stored.admission
        if is_small:
            raise Uncounted(stored)
        # the next turn counts first
        await context.index.write_admission(
            AdmissionWrite(before=stored, after=replace(stored.admission, counting_until=now))
        )
        await context.bus.admission_calls.call(tenant)
        return stored.admission

    after = await act_on_admission(context, tenant, act, counts_patience=COUNTS_PATIENCE)
    if not is_small or _counts_of(after) != counted:
        telemetry.warn("DESK_COUNTED_ANEW", tenant_id=tenant, counted=counted, found=rows)
    return is_small


async def settle_before_sleep(context: Context, tenant: str) -> bool:
    """Returns `True` if a tenant without living jobs can sleep. If an ended job is still counted, takes a turn and
    returns `False`.

    Raises Contended, LedgerUnavailable.
    """
    if not (await read_directory(context)).concerns(tenant) or not await context.admissions.list_freed(
        tenant, limit=1, unread=[]
    ):
        return True
    await take_turn(context, tenant, counts=False)
    return False


def _may_differ(admission: AdmissionState, rows: tuple[int, int, int], now: datetime) -> bool:
    return _counts_of(admission) != rows and now >= admission.counted_at + _COUNTED_AGAIN


def _counts_of(admission: AdmissionState) -> tuple[int, int, int]:
    return admission.active, admission.staged, admission.waiting


def _are_far(one: int, other: int) -> bool:
    return abs(one - other) * _DIFFERENCE > max(one, other)


def _row(tenant: str) -> str:
    return f"{encode_key(tenant)} GATES"
