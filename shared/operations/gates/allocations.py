"""Allocates a quota over all tenants among the tenants (R54).

If only such a quota stops a tenant's jobs, a process makes or requests an allocation. The Service Bus queue of requests
and the sweeper ensure that an allocation follows. An interrupted allocation has granted too little, never too much.

Two concurrent allocations are safe (Race division). The allocation record is written under its ETag, and no grant of an
earlier allocation follows a reclaim of a later one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from shared import telemetry
from shared.core.gates import allocation
from shared.core.gates.admission import MAX_ADMITTED, AdmissionResult
from shared.core.gates.admission_state import Candidate
from shared.core.gates.allocation import Account, AllocationRecord
from shared.core.gates.breaker import Breaker, BreakerState, find_next_change
from shared.core.gates.demand import Demand, is_blocked, measure_demand, move_to_epoch
from shared.core.gates.rules import ALLOCATED, Directory, Gate, GateState, QuotaShare
from shared.core.gates.type_breaker import close_epoch, sync_breaker
from shared.errors import AlreadyExists, BusUnavailable, Conflict
from shared.operations.gates import admission_turns, type_breakers
from shared.operations.gates.admission_turns import AdmittedJobs
from shared.operations.gates.freed import request_incidents
from shared.operations.gates.tenant_counts import DEMAND_PATIENCE, count_all, is_counted
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.operations.process.gate_directory import DIRECTORY_LIVES
from shared.ports.admissions import StoredAdmission
from shared.ports.allocations import StoredAllocationRecord

#: start of the numbering of first allocations; a record has 32 bits for the number
_FIRST_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
#: minimum interval before an allocation that a message requests, or that a new job needs while requests are unmet
INTERVAL = timedelta(seconds=1)
#: interval while a tenant requests more, since other tenants admit jobs without a report and their slot time grows
_RETRY_INTERVAL = timedelta(seconds=10)
#: maximum wait for the other writers of one tenant's admission state; the next allocation repeats skipped writes
_PATIENCE = timedelta(seconds=5)
#: maximum time between two allocations of a record with a breaker
_MAX_AGE = timedelta(hours=1)


#: jobs that an allocation admitted, by tenant; each must be notified
Admissions = dict[str, AdmittedJobs]


async def allocate_on_call(context: Context, gate: Gate, since: datetime) -> Admissions:
    """Allocates for a request of time `since`, unless an allocation has already read that request. Raises LuciusError.

    The clock of another process gave `since`. So a request counts while its row exists, which an allocation removes
    after reading the tenant's admission state. Without a row, the request counts as read if the record requires no
    allocation, or if the last allocation is more than `2 * CLOCK_SKEW` (10 s) later.
    """
    stored, now = await context.allocations.read(gate.id), context.clock.now()
    if stored is not None and stored.record.allocated_at is not None:
        record, allocated_at = stored.record, stored.record.allocated_at
        if not await context.allocations.asks(gate.id):
            directory = await admission_turns.read_directory(context)
            if allocated_at > since + 2 * admission_turns.CLOCK_SKEW or not _is_due(context, directory, record, gate):
                return {}
            if allocated_at > since:
                # that allocation may have started earlier: do one more, unless one follows within ten seconds anyway
                if not record.unmet:
                    await context.bus.admission_calls.call_allocation(
                        gate.id, at=allocated_at + INTERVAL, since=allocated_at
                    )
                return {}
        # a clock that is ahead delays a request by at most one second
        if now < (soonest := min(allocated_at, since) + INTERVAL):
            await context.bus.admission_calls.call_allocation(gate.id, at=soonest, since=since)
            return {}
    return await allocate(context, gate)


async def allocate_if_due(context: Context, directory: Directory, gate: Gate) -> Admissions:
    """Allocates a quota whose request may be lost, for the sweeper. Raises LuciusError."""
    if gate.kind not in ALLOCATED:
        return {}
    stored = await context.allocations.read(gate.id)
    is_owed = stored is None or _is_due(context, directory, stored.record, gate)
    return await allocate(context, gate) if is_owed or await context.allocations.asks(gate.id) else {}


async def allocate_after_change(context: Context, gate: Gate) -> Admissions:
    """Allocates a quota after a change that is in effect. Logs a fault. The sweeper then allocates the quota."""
    with telemetry.tolerate(BusUnavailable):
        # until then, processes with an older directory may allocate by the earlier rule
        await context.bus.admission_calls.call_allocation(gate.id, at=context.clock.now() + DIRECTORY_LIVES + INTERVAL)
    try:
        return await allocate(context, gate)
    except Exception as fault:
        _log_unallocated(gate, fault)
        return {}


def _log_unallocated(gate: Gate, fault: Exception) -> None:
    telemetry.record_fault(fault, "GATE_UNDIVIDED", gate=gate.id)


def _is_due(context: Context, directory: Directory, record: AllocationRecord, gate: Gate) -> bool:
    """Returns `True` if the allocation record alone requires an allocation."""
    now = context.clock.now()
    # tenants leave the record when their ends are too old to count
    is_old = record.breaker is not None and bool(record.accounts) and now - (record.allocated_at or now) >= _MAX_AGE
    return record.unmet or record.is_limited or is_old or not is_counted(directory, record, gate, now)


async def allocate_for_job(
    context: Context, gate: Gate, new_job: Candidate, tenant: str, *, rejects: bool
) -> Admissions:
    """Allocates for a new job while its request waits. Does nothing if an allocation since the job's arrival left
    requests unmet.

    If an earlier allocation left requests unmet, the minimum interval applies. Within the interval, the request waits
    if the quota `rejects`. Otherwise no allocation follows then, since the job can wait in its queue.

    Raises allocation errors only for a quota that rejects. For other quotas, the job waits after a fault.
    """
    try:
        return await _allocate_for_job(context, gate, new_job, tenant, rejects=rejects)
    except Exception as fault:
        if rejects:
            raise
        _log_unallocated(gate, fault)
        return {}


async def _allocate_for_job(
    context: Context, gate: Gate, new_job: Candidate, tenant: str, *, rejects: bool
) -> Admissions:
    """Allocates now, or after the minimum interval if the quota `rejects`. Raises LuciusError."""
    arrived = context.clock.now()
    # the blank distinguishes this key from tenant names
    async with context.process.gate_directory.turn(f" {gate.id}"):
        stored = await context.allocations.read(gate.id)
        record = stored.record if stored is not None else None
        # a too early allocation grants slots to tenants that do not need them
        if record is not None and record.allocated_at is not None and record.unmet:
            now = context.clock.now()
            # a time after this clock comes from another process, from before or after the job's arrival
            if arrived < record.allocated_at <= now:
                return {}
            wait = record.allocated_at + INTERVAL - now
            if wait > timedelta():
                if not rejects:
                    return {}
                await context.sleep(min(wait, INTERVAL).total_seconds())
        return await allocate(context, gate, requesting=tenant, new_job=new_job)


@dataclass(frozen=True)
class _Inputs:
    gate: Gate
    state: GateState
    #: maximum active jobs of the quota; None if it has no such limit
    max_active: int | None
    stored: StoredAllocationRecord | None
    record: AllocationRecord
    now: datetime


async def allocate(
    context: Context, gate: Gate, *, requesting: str | None = None, new_job: Candidate | None = None
) -> Admissions:
    """Runs one allocation: reads the demand, reclaims slots, writes the record, grants slots. Stops on a concurrent
    write.

    `requesting`: a tenant that requests more slots, with its new job. Raises LuciusError.
    """
    context = context.of_all_tenants
    directory = await admission_turns.read_directory(context)
    if (state := directory.over_all.get(gate.id)) is None:
        return {}
    stored, now = await context.allocations.read(gate.id), context.clock.now()
    read = _Inputs(
        gate, state, state.max_active, stored, stored.record if stored else _make_first_record(gate, now), now
    )
    opened: list[GateState] = []
    try:
        if not is_counted(directory, read.record, gate, now):
            if (counted := await count_all(context, directory, gate, stored, read.record, now)) is None:
                # a later allocation counts the other tenants
                await _schedule(context, gate, now + INTERVAL, now)
                return {}
            read = replace(read, stored=counted, record=counted.record)
        return await _allocate(context, directory, read, requesting, new_job, opened)
    except (Conflict, AlreadyExists):
        # another allocation has written the record
        return {}
    finally:
        await request_incidents(context, opened)


def _make_first_record(gate: Gate, now: datetime) -> AllocationRecord:
    """Returns the first allocation record of a quota, or a new record if the stored record is lost.

    Its epoch is the number of seconds since 1 January 2026. Each allocation adds one, on average less than once a
    second, so this epoch is later than those of a lost record. Slots that a lost record granted to a tenant without
    jobs stay with that tenant until it requests more.
    """
    return AllocationRecord(gate_id=gate.id, epoch=int((now - _FIRST_EPOCH).total_seconds()))


async def _allocate(
    context: Context,
    directory: Directory,
    read: _Inputs,
    requesting: str | None,
    new_job: Candidate | None,
    opened: list[GateState],
) -> Admissions:
    """Runs one allocation. Adds the quota to `opened` if its breaker opens. Raises Conflict, AlreadyExists, and other
    LuciusErrors.
    """
    gate, record, epoch = read.gate, read.record, read.record.epoch + 1
    asks = await context.allocations.asks(gate.id)
    requesting_tenants = [ask.tenant for ask in asks] + ([requesting] if requesting is not None else [])
    joining = [tenant for tenant in dict.fromkeys(requesting_tenants) if tenant not in record.accounts]
    room = allocation.count_room(record, joining)

    async def read_demand(tenant: str) -> Demand | None:
        try:
            admission, directory = await admission_turns.read_counted(context, tenant, patience=DEMAND_PATIENCE)
        except Exception as fault:
            # this tenant keeps its grant, and does not delay the others
            telemetry.record_fault(fault)
            return None
        return measure_demand(admission, directory, gate, read.now, new_job if tenant == requesting else None)

    demands = [
        each for each in await run_concurrently([*record.accounts, *joining[:room]], read_demand) if each is not None
    ]
    unread = {*record.accounts} - {demand.tenant for demand in demands}
    unread_grants = allocation.count_unread_grants(record, unread)
    record = await type_breakers.record_ends(context, directory, record, read.state, demands, opened)
    breaker = record.breaker
    if breaker is not None:
        demands = [move_to_epoch(each, breaker) for each in demands]
    accounts = allocation.accrue_accounts(record, demands)
    granted = {demand.tenant: max(accounts[demand.tenant].granted, demand.active) for demand in demands}
    limit, targets = allocation.count_slots(read.max_active, breaker, demands, read.now), granted
    if limit is not None:
        targets = allocation.compute_targets(limit - unread_grants, demands, accounts)
    found = await _reclaim(context, gate, demands, targets, granted, epoch, breaker)
    if found is None:
        return {}
    reclaimed = {after.tenant: after for before, after in zip(demands, found, strict=True) if after is not before}
    granted = granted | {tenant: max(demand.share.slots, demand.active) for tenant, demand in reclaimed.items()}
    demands = found
    if limit is not None:
        # a job may start at an admission state that does not know the breaker yet
        limit = (allocation.count_slots(read.max_active, breaker, demands, read.now) or 0) - unread_grants
        granted = allocation.compute_grants(limit, targets, granted, demands, accounts)
    accounts = {tenant: replace(account, granted=granted[tenant]) for tenant, account in accounts.items()}
    record, accounts, lacks_tokens = allocation.grant_tokens(
        record, read.state, demands, accounts, read.now, limited=limit is not None
    )
    lacks_slots = limit is not None and any(
        demand.requested and granted[demand.tenant] < demand.needed for demand in demands
    )
    is_cut = len(joining) > room or bool(unread)
    unmet = lacks_slots or lacks_tokens or is_cut
    used = {demand.tenant: allocation.count_used(demand, granted[demand.tenant]) for demand in demands}
    kept = allocation.select_kept(demands, granted, read.now, has_breaker=breaker is not None)
    after = replace(
        record,
        epoch=epoch,
        accounts={tenant: record.accounts[tenant] for tenant in unread}
        | {
            tenant: replace(account, is_waiting=account.is_waiting and unmet, used=used[tenant])
            for tenant, account in accounts.items()
            if tenant in kept
        },
        allocated_at=read.now,
        unmet=unmet,
        uncounted=record.uncounted & unread,
    )
    await context.allocations.write(after, before=read.stored)
    await context.allocations.answer(gate.id, [ask for ask in asks if ask.tenant in accounts])
    admissions = await _grant(context, gate, after, targets, demands)
    if after.unmet:
        at = allocation.find_next_token(after, read.state, context.clock.now()) if lacks_tokens else None
        later = read.now + _RETRY_INTERVAL
        soonest = at if at is not None and not (lacks_slots or is_cut) else min(at or later, later)
        if breaker is not None and (change := find_next_change(breaker, read.now)) is not None:
            # before that time, an open breaker grants nothing
            soonest = change if breaker.state is BreakerState.OPEN else min(soonest, change)
        await _schedule(context, gate, max(soonest, read.now + INTERVAL), read.now)
    return admissions


async def _reclaim(
    context: Context,
    gate: Gate,
    demands: Iterable[Demand],
    targets: Mapping[str, int],
    granted: Mapping[str, int],
    epoch: int,
    breaker: Breaker | None,
) -> list[Demand] | None:
    """Reclaims slots above the targets, and gives each admission state the state of the breaker. Returns the demands
    after the reclaim.

    Returns None if a later allocation has reclaimed slots from a tenant, or has a later state of the breaker.
    """

    async def one(demand: Demand) -> Demand | None:
        if targets[demand.tenant] >= granted[demand.tenant] and not demand.is_behind:
            return demand

        async def act(stored: StoredAdmission, directory: Directory) -> Demand | None:
            admission = sync_breaker(stored.admission, gate, breaker) if breaker is not None else stored.admission
            share = allocation.reclaim(admission.share(gate), targets[demand.tenant], epoch)
            if share is None or (breaker is not None and share.breaker.epoch > breaker.epoch):
                return None
            admission = admission.with_share(share)
            write = await admission_turns.prepare_write(context, stored, directory, AdmissionResult(admission))
            # no wake-up is needed, since the next allocation opens the quota that this reclaim closes
            write = replace(write, after=replace(write.after, wake_at=stored.admission.wake_at))
            await context.index.write_admission(write)
            counted = admission.count_used(gate)
            return replace(demand, share=share, active=counted, earlier=admission.count_active(gate) - counted)

        # whether or not the write succeeds, the tenant has no more slots than that
        with telemetry.tolerate(Exception):
            return await admission_turns.act_on_admission(
                context, demand.tenant, act, patience=_PATIENCE, counts_patience=DEMAND_PATIENCE
            )
        return demand

    found = [demand for demand in await run_concurrently(demands, one) if demand is not None]
    return found if len(found) == len(targets) else None


async def _grant(
    context: Context, gate: Gate, record: AllocationRecord, targets: Mapping[str, int], demands: Iterable[Demand]
) -> Admissions:
    """Writes the grant of each tenant, which then admits jobs. The next allocation repairs a failed write."""

    found: Admissions = {}

    async def one(demand: Demand) -> None:
        account = record.accounts.get(demand.tenant)
        if account is None:
            return
        slots = min(account.granted, targets[demand.tenant])
        if _apply_grant(demand.share, record, account, slots) == demand.share:
            return
        with telemetry.tolerate(Exception):
            act = _make_grant(context, gate, record, account, slots)
            found[demand.tenant] = await admission_turns.act_on_admission(
                context, demand.tenant, act, patience=_PATIENCE, counts_patience=DEMAND_PATIENCE
            )

    await run_concurrently(demands, one)
    return found


def _make_grant(
    context: Context, gate: Gate, record: AllocationRecord, account: Account, slots: int
) -> Callable[[StoredAdmission, Directory], Awaitable[AdmittedJobs]]:
    async def act(stored: StoredAdmission, directory: Directory) -> AdmittedJobs:
        before = stored.admission.share(gate)
        share = _apply_grant(before, record, account, slots)
        # an equal share needs a write too if the admission state took the breaker's state from the directory
        admission = stored.admission.with_share(share) if share != before else stored.admission
        selected = await admission_turns.select_admissions(context, admission, directory, MAX_ADMITTED)
        if selected.admission is stored.admission:
            return AdmittedJobs()
        write = await admission_turns.prepare_write(context, stored, directory, selected)
        await context.index.write_admission(write)
        await admission_turns.send_follow_ups(context, write, directory)
        if not record.unmet and is_blocked(write.after, directory, gate, context.clock.now()):
            # it started to request after the demand was read, so no allocation counts it
            await admission_turns.request_allocation(context, gate, stored.admission.tenant)
        return admission_turns.get_admitted(selected)

    return act


def _apply_grant(share: QuotaShare, record: AllocationRecord, account: Account, slots: int) -> QuotaShare:
    """Returns the share with its grant, unless the share has another epoch of the breaker."""
    if record.breaker is None:
        return allocation.grant(share, account, slots, record.epoch)
    if share.breaker.epoch != record.breaker.epoch:
        return share
    return close_epoch(allocation.grant(share, account, slots, record.epoch), record.breaker)


async def _schedule(context: Context, gate: Gate, at: datetime, since: datetime) -> None:
    """Requests an allocation at `at`, which has no effect if another allocation starts after `since`. The sweeper
    repeats a lost request.
    """
    with telemetry.tolerate(BusUnavailable):
        await context.bus.admission_calls.call_allocation(gate.id, at=at, since=since)
