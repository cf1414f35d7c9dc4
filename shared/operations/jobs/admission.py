"""Starts admitted jobs, which become QUEUED (R49)."""

from __future__ import annotations

import asyncio
from typing import Any

from shared import telemetry
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import Admitted
from shared.core.jobs.states import JobStatus
from shared.errors import LuciusError
from shared.operations.gates import admissions, freed
from shared.operations.gates.admission_turns import AdmittedJobs
from shared.operations.jobs.redrive_marks import mark_unnamed
from shared.operations.jobs.starting import start_once
from shared.operations.jobs.transition import transition
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored

#: maximum admitted jobs that start at the same time, and maximum further turns of up to twenty jobs
_NOTIFIED_AT_ONCE, _MAX_ROUNDS = 8, 5


async def notify(context: Context, orchestrations: Orchestrations, tenant: str, entered: AdmittedJobs) -> None:
    """Starts the jobs that a turn of the tenant admitted. Logs a fault. The sweeper then starts the jobs.

    If the turn had no room for all, up to `_MAX_ROUNDS` (5) more turns follow, and then a message requests the rest.
    Requests the incidents of breakers that opened. Raises no error of LUCIUS.
    """
    # a request of one tenant can cause an allocation, which admits jobs of other tenants
    context = context.of_all_tenants
    turns = asyncio.Semaphore(_NOTIFIED_AT_ONCE)

    async def one(job_id: str, gates: tuple[dict[str, Any], ...]) -> None:
        async with turns:
            with telemetry.tolerate(LuciusError, "ADMISSION_UNTOLD", jobId=job_id, tenant_id=tenant):
                await admit(context, orchestrations, job_id, gates)

    opened = [*entered.breakers_opened]
    with telemetry.tolerate(LuciusError):
        await asyncio.gather(*map(one, entered.job_ids, entered.passed))
        for _ in range(_MAX_ROUNDS):
            if not entered.more:
                break
            entered = await freed.take_turn(context, tenant)
            opened += entered.breakers_opened
            await asyncio.gather(*map(one, entered.job_ids, entered.passed))
        if entered.more:
            await context.bus.admission_calls.call(tenant)
    await freed.request_incidents(context, opened)


async def admit(
    context: Context,
    orchestrations: Orchestrations,
    job_id: str,
    gates: tuple[dict[str, Any], ...] = (),
    *,
    actor: str = "system",
    reason: str | None = None,
) -> Stored | None:
    """Makes an admitted job QUEUED and starts it. If the job is a redrive or a replay, first marks the old job with the
    job's id. Returns None if the job is not THROTTLED, or if a pause removed its slot.

    `gates`: the quotas that admitted the job. Empty for an operator, or if the admitting process died. `actor` and
    `reason`: the operator that admitted the job past its quotas, and the operator's reason. Raises CreationWithdrawn,
    Contended, LedgerUnavailable, OrchestrationUnavailable.
    """
    stored = await context.ledger.read(job_id)
    if stored is None or stored.record.job.status is not JobStatus.THROTTLED:
        return None
    if stored.record.job.park_no and not await admissions.holds_slot(context, stored.record.job.tenant, job_id):
        return None
    await mark_unnamed(context, orchestrations, stored.record)
    origin = Origin(cause_id=f"admit:{job_id}", actor=actor, source="gates", reason=reason)
    occurrence = Admitted(gates, stored.record.job.park_no)
    admitted = await transition(context, stored, occurrence, origin, orchestrations=orchestrations)
    if admitted.stored.record.job.is_staged:
        # Race place: another process paused the job, and possibly resumed it
        return None
    return await start_once(orchestrations, admitted.stored)
