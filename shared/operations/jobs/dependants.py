"""Notifies the dependants of an ended job (R53).

A dependant counts its dependencies down in its ACTIVE row, in the transaction that deletes the DEP row. So each ended
dependency is counted once, even if several processes report it repeatedly.
"""

from __future__ import annotations

from shared import telemetry
from shared.core.gates.places import count_dependency
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.errors import AlreadyExists, BusUnavailable, Conflict
from shared.operations.process.context import Context
from shared.ports.index import FIRST_CHECK

#: maximum jobs that one call notifies; the next call notifies the others
AT_ONCE = 20


async def notify_dependants(context: Context, job: Job) -> bool:
    """Counts `job` as ended at the next `AT_ONCE` (20) dependants, and requests the next action of each that can
    continue. Returns `True` if all dependants are notified.

    Raises Contended, LedgerUnavailable.
    """
    waiting = await context.index.list_dependants(job.tenant, job.job_id, limit=AT_ONCE + 1)
    for dependant in waiting[:AT_ONCE]:
        await count_dependency_end(
            context, job.tenant, job.job_id, dependant, succeeded=job.status is JobStatus.SUCCEEDED
        )
    return len(waiting) <= AT_ONCE


async def count_dependency_end(context: Context, tenant: str, job_id: str, dependant: str, *, succeeded: bool) -> None:
    """Records once at `dependant` that its dependency `job_id` has ended. Raises Contended, LedgerUnavailable."""

    async def count() -> None:
        active = await context.index.read_active(tenant, dependant)
        if active is None or active.place is None or active.place.initial_status is not JobStatus.WAITING_FOR_JOBS:
            # the dependant has ended, or was never created
            await context.index.drop_dependant(tenant, job_id, dependant, succeeded=succeeded)
            return
        place = count_dependency(active.place, job_id, succeeded=succeeded)
        may_go_on = not place.dependencies_left or place.failed_dependency is not None
        # if the called process dies, the sweeper checks then
        check_at = context.clock.now() + FIRST_CHECK if may_go_on else active.check_at
        try:
            await context.index.move_place(active, place, check_at, settled=job_id, succeeded=succeeded)
        except (AlreadyExists, Conflict):
            if await context.index.is_dependant(tenant, job_id, dependant):
                raise
            return
        if may_go_on:
            await request_action(context, tenant, dependant)

    await context.retry_on_conflict(count, f"job {dependant}, which waits for other jobs,")


async def request_action(context: Context, tenant: str, job_id: str) -> None:
    """Requests the job's next action. If the bus is unavailable, the sweeper does the action at its next check of the
    job.
    """
    with telemetry.tolerate(BusUnavailable):
        await context.bus.admission_calls.call(tenant, job_id)
