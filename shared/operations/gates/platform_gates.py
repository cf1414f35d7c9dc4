"""Reads a quota over all tenants for callers: active and waiting jobs, and each tenant's share (R54)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from shared.core.gates import allocation
from shared.core.gates.admission_state import AdmissionState, Candidate
from shared.core.gates.places import Decision
from shared.core.gates.queue_position import MAX_POSITION, QueuePosition, TenantPart, count_waiting
from shared.core.gates.rules import ALLOCATED, EVERY, Directory, Gate, GateState
from shared.core.gates.type_breaker import sync_breakers
from shared.core.jobs.job import Job
from shared.operations.gates import admission_turns, type_breakers
from shared.operations.gates.arrivals import decide_new_job
from shared.operations.gates.gate_logs import read_state
from shared.operations.gates.waiting import list_waiting, read_oldest
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context


async def read_platform_state(context: Context, gate: Gate, *, by_operator: bool) -> GateState:
    """Returns the state of the quota. Operators get the stored state, with which LUCIUS compares changes. Other callers
    get the published state.

    `by_operator`: the caller can read or change quotas over all tenants. Raises LedgerUnavailable.
    """
    state = (await admission_turns.read_directory(context)).over_all.get(gate.id, GateState(gate=gate))
    if by_operator and (stored := await context.of_all_tenants.admissions.read(EVERY)) is not None:
        state = await read_state(context.of_all_tenants, stored.admission, gate)
    return await type_breakers.read_breaker(context, state)


async def read_parts(context: Context, gate: Gate, sees: Callable[[str], bool]) -> list[TenantPart]:
    """Returns the slots, the counts of active and waiting jobs, and the first waiting job of each tenant that the
    caller can see. The tenants are those of the allocation record and those with a request. Raises LedgerUnavailable.

    Returns an empty list for a quota that is not allocated.
    """
    if gate.kind not in ALLOCATED:
        return []

    async def part(tenant: str) -> TenantPart | None:
        stored = await context.admissions.read(tenant)
        if stored is None:
            return None
        admission = stored.admission
        first = await read_oldest(context, admission, gate)
        return TenantPart(
            tenant, admission.share(gate).slots, admission.count_active(gate), count_waiting(admission, gate), first
        )

    found = await run_concurrently(sorted(filter(sees, await _list_tenants(context, gate))), part)
    return [each for each in found if each is not None]


async def list_waiting_of_all(context: Context, gate: Gate, tenants: Iterable[str]) -> list[QueuePosition]:
    """Returns the first 1,000 jobs of `tenants` that wait for the quota, by rank. An allocation decides between
    tenants. Raises LedgerUnavailable.
    """
    found: list[QueuePosition] = []
    for tenant in tenants:
        if (stored := await context.admissions.read(tenant)) is not None:
            directory = await admission_turns.read_directory(context)
            found += await list_waiting(context, sync_breakers(stored.admission, directory), gate, directory)
    return sorted(found, key=lambda each: each.waiting.candidate.rank)[:MAX_POSITION]


async def _list_tenants(context: Context, gate: Gate) -> set[str]:
    allocations = context.of_all_tenants.allocations
    stored = await allocations.read(gate.id)
    return {
        *(stored.record.accounts if stored is not None else ()),
        *(ask.tenant for ask in await allocations.asks(gate.id)),
    }


async def preview_decision(context: Context, job: Job) -> Decision | None:
    """Returns the decision of the quotas on the job now, or None if no quota concerns it.

    For a quota over all tenants, reads one row for any number of tenants, so the decision is an estimate. Writes only a
    missing count of the tenant. Raises LimitReached, Contended, LedgerUnavailable.
    """
    if not (await admission_turns.read_directory(context)).concerns(job.tenant):
        return None
    admission, directory = await admission_turns.read_counted(context, job.tenant)
    for gate in directory.list_platform_gates(Candidate.of(job)):
        if await _has_room(context, directory, gate, admission):
            share = admission.share(gate)
            slots, tokens = max(share.slots, admission.count_used(gate) + 1), max(1, share.tokens)
            admission = admission.with_share(replace(share, slots=slots, tokens=tokens))
    return decide_new_job(context, admission, directory, job)


async def _has_room(context: Context, directory: Directory, gate: Gate, admission: AdmissionState) -> bool:
    """Returns `True` if an allocation could grant another slot to the tenant. Raises LedgerUnavailable."""
    rule, stored = directory.over_all[gate.id].rule, await context.of_all_tenants.allocations.read(gate.id)
    if rule is None or stored is None or (rule.max_active is None and not stored.record.is_limited):
        return True
    record = stored.record if rule.breaker is not None else replace(stored.record, breaker=None)
    return allocation.has_room(
        record, rule.max_active, admission.tenant, admission.count_active(gate), context.clock.now()
    )
