"""Counts the jobs of all tenants before a quota over all tenants is allocated (R54)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.allocation import Account, AllocationRecord, reserve_rest
from shared.core.gates.rules import Directory, Gate
from shared.errors import Conflict
from shared.operations.gates import admission_counts, admission_turns
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.ports.allocations import StoredAllocationRecord

#: tenants that are counted between two writes of the allocation record
_PIECE = 100
#: maximum time of a count within one allocation; the next allocation continues it
_MAX_TIME = timedelta(seconds=15)
#: time between the new limit and the second count, in which a process possibly did not know the limit
_SECOND_COUNT = timedelta(minutes=1)
#: maximum wait of an allocation for one tenant's writers, or for a count of its jobs
DEMAND_PATIENCE = timedelta(seconds=1)


def is_counted(directory: Directory, record: AllocationRecord, gate: Gate, now: datetime) -> bool:
    """Returns `True` if the allocation record includes the jobs of all tenants, or if the quota has no
    `max_active`.
    """
    state = directory.over_all.get(gate.id)
    if state is None or state.max_active is None:
        return True
    since = directory.over_all_since.get(gate.id, now)
    if now >= since + _SECOND_COUNT:
        since += _SECOND_COUNT
    return record.opened_at is not None and record.opened_at >= since


async def count_all(
    context: Context,
    directory: Directory,
    gate: Gate,
    stored: StoredAllocationRecord | None,
    record: AllocationRecord,
    now: datetime,
) -> StoredAllocationRecord | None:
    """Counts the jobs of every awake tenant before a slot is granted. Returns the allocation record, or None if
    the count of all tenants takes longer than `_MAX_TIME` (15 s).

    A tenant that cannot be counted keeps its last count. A tenant without a last count gets the rest of the limit as a
    reserve (`AllocationRecord.uncounted`). So the other tenants keep their slots and no sum exceeds the limit.

    Each allocation tries to count such a tenant again. Raises Conflict, AlreadyExists, and LedgerUnavailable for the
    allocation record.
    """
    awake = await context.index.awake_tenants(now=now)
    tenants = sorted(tenant for each in awake if (tenant := each.tenant) > (record.opening or ""))
    until = now + _MAX_TIME
    has_counts = record.opened_at is not None and record.opened_at >= directory.over_all_since.get(gate.id, now)

    async def active(tenant: str) -> int | None:
        return await _count_active(context, gate, tenant, until)

    while tenants and context.clock.now() < until:
        piece, tenants = tenants[:_PIECE], tenants[_PIECE:]
        accounts, uncounted = dict(record.accounts), set(record.uncounted)
        for tenant, count in zip(piece, await run_concurrently(piece, active), strict=True):
            if count is None:
                # added to the allocation record, so that the next allocation reads it
                accounts.setdefault(tenant, Account())
                uncounted |= {tenant} if not has_counts else set()
                continue
            uncounted.discard(tenant)
            if count:
                account = accounts.get(tenant, Account())
                accounts[tenant] = replace(account, granted=max(account.granted, count), used=count)
        record = replace(record, accounts=accounts, uncounted=frozenset(uncounted), opening=piece[-1])
        stored = await _write(context, replace(record, unmet=True, allocated_at=now), stored)
    if tenants:
        return None
    state = directory.over_all[gate.id]
    record = reserve_rest(record, state.max_active) if state.max_active is not None else record
    return await _write(context, replace(record, opening=None, opened_at=now, unmet=True, allocated_at=now), stored)


async def _count_active(context: Context, gate: Gate, tenant: str, until: datetime) -> int | None:
    """Returns the number of the tenant's active jobs, from its admission state or ACTIVE rows. Returns None if neither
    can be read.
    """
    with telemetry.tolerate(Exception, "TENANT_UNCOUNTED", tenant_id=tenant, gate=gate.id):
        try:
            admission, _ = await admission_turns.read_counted(context, tenant, patience=DEMAND_PATIENCE)
        except admission_turns.BeingCounted:
            raise
        except Exception as fault:
            telemetry.record_fault(fault)
            # it admits no job here before an allocation grants it slots, so the number can only fall
            places = await admission_counts.list_places(context, tenant, until=until)
            active = Counter((each.candidate.job_type, each.candidate.mode) for each in places if each.is_active)
            admission = AdmissionState(tenant=tenant, active_by_kind=active, counted_at=until)
        return admission.count_active(gate)
    return None


async def _write(
    context: Context, record: AllocationRecord, before: StoredAllocationRecord | None
) -> StoredAllocationRecord:
    """Writes the allocation record and returns it as stored. Raises Conflict, AlreadyExists, LedgerUnavailable."""
    await context.allocations.write(record, before=before)
    stored = await context.allocations.read(record.gate_id)
    if stored is None or stored.record != record:
        raise Conflict
    return stored
