"""Notifies the jobs that depend on a job of its end (R53).

A dependant counts its dependencies down in its ACTIVE row, in the transaction that deletes the DEP row. So each end
counts once, however often and by whichever process it is reported.
"""

from __future__ import annotations

from shared import telemetry
from shared.core.gates.places import count_dependency
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.errors import AlreadyExists, BusUnavailable, Conflict
from shared.operations.context import Context
from shared.ports.index import FIRST_CHECK

#: told by one call; a call that follows tells the next ones
AT_ONCE = 20


async def notify_dependants(context: Context, job: Job) -> bool:
    """Counts the end of `job` at those that wait for it, and calls each that may go on; whether none is left.

    Raises Contended, LedgerUnavailable.
    """
    waiting = await context.index.dependants(job.tenant, job.job_id, limit=AT_ONCE + 1)
    for dependant in waiting[:AT_ONCE]:
        await count_end(context, job.tenant, job.job_id, dependant, succeeded=job.status is JobStatus.SUCCEEDED)
    return len(waiting) <= AT_ONCE


async def count_end(context: Context, tenant: str, job_id: str, dependant: str, *, succeeded: bool) -> None:
    """Counts down one dependency of `dependant`, once. Raises Contended, LedgerUnavailable."""

    async def count() -> None:
        active = await context.index.read_active(tenant, dependant)
        if active is None or active.place is None or active.place.initial_status is not JobStatus.WAITING_FOR_JOBS:
            # it has ended, or never came to be
            await context.index.drop_dependant(tenant, job_id, dependant, succeeded=succeeded)
            return
        place = count_dependency(active.place, job_id, succeeded=succeeded)
        may_go_on = not place.dependencies_left or place.failed_dependency is not None
        # the called process may die: the sweeper checks then
        check_at = context.clock.now() + FIRST_CHECK if may_go_on else active.check_at
        try:
            await context.index.move_place(active, place, check_at, settled=job_id, succeeded=succeeded)
        except (AlreadyExists, Conflict):
            if await context.index.is_dependant(tenant, job_id, dependant):
                raise
            return
        if may_go_on:
            await call(context, tenant, dependant)

    await context.retry_on_conflict(count, f"job {dependant}, which waits for others,")


async def call(context: Context, tenant: str, job_id: str) -> None:
    """Asks for what is owed to the job; without the bus the sweeper does it, a minute later."""
    with telemetry.tolerate(BusUnavailable):
        await context.bus.admission_calls.call(tenant, job_id)
