"""Finds the dependencies of a new job, and marks them so that each notifies the new job when it ends (R53)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.gates.admission import ASLEEP
from shared.core.gates.places import Place
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Job
from shared.core.jobs.occurrences import Awaited
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import digest
from shared.errors import Conflict, Transient
from shared.operations.jobs.dependants import count_dependency_end
from shared.operations.jobs.read_history import find_job
from shared.operations.jobs.transition import transition
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.index import FIRST_CHECK, ActiveRow
from shared.ports.ledger import Stored
from shared.refusals import DependencyUnknown, NotRedrivable

_KEY = "key:"
#: interval of the sweeper's checks of a job that waits for others
_CHECKED_EVERY = timedelta(hours=1)
_AT_ONCE = 8


async def find_dependencies(context: Context, tenant: str, named: Sequence[str]) -> list[str]:
    """Returns the ids of the named jobs in order, each once.

    `named`: job ids, or `key:` with an idempotency key. Raises DependencyUnknown for a name without a job of the
    tenant, and the errors of `find_job`.
    """

    async def one(name: str) -> str | None:
        job_id = name
        if name.startswith(_KEY):
            claim = await context.index.read_claim(tenant, digest(name))
            if claim is None:
                return None
            job_id = claim.job_id
        job = await find_job(context, job_id)
        return job_id if job is not None and job.tenant == tenant else None

    names = list(dict.fromkeys(named))
    found = await run_concurrently(names, one, limit=_AT_ONCE)
    if unknown := [name for name, job_id in zip(names, found, strict=True) if job_id is None]:
        raise DependencyUnknown(unknown)
    return list(dict.fromkeys(job_id for job_id in found if job_id is not None))


async def again_awaited(context: Context, job: Job) -> list[str]:
    """Returns the dependencies of a job's redrive: each dependency of the old job, or the latest redrive of that
    dependency. Returns an empty list if the old job no longer waited for its dependencies.

    If one of these jobs ended without success or does not exist, raises NotRedrivable. If the old job has
    `on_dependency_failure` `run`, leaves out such a job instead. Raises the errors of `find_job`.
    """
    if not job.is_dependent:
        return []
    found: list[str] = []
    failed: list[str] = []
    for named in job.dependencies or ():
        last = await find_job(context, named)
        while last is not None and last.redriven_by is not None:
            last = await find_job(context, last.redriven_by)
        is_over = last is None or (last.status.terminal and last.status is not JobStatus.SUCCEEDED)
        (failed if is_over else found).append(last.job_id if last is not None else named)
    if failed and job.on_dependency_failure == "fail":
        detail = (
            f"cannot redrive job {job.job_id}: dependencies {', '.join(failed)} did not succeed or do not exist; "
            "redrive these dependencies first, or set ignoreDependencies"
        )
        raise NotRedrivable(Reason.DEPENDENCY_FAILED, detail)
    return found


async def mark(context: Context, orchestrations: Orchestrations, stored: Stored) -> None:
    """Marks each dependency of this job, or counts the dependency now if it has ended.

    A dependency that ends after its mark notifies this job. If a dependency cannot be read, marks the others first.
    Raises Contended, LedgerUnavailable, ArchiveGone, ArchiveInvalid.
    """
    job, faults = stored.record.job, list[Exception]()

    async def one(job_id: str) -> None:
        try:
            await _mark_one(context, orchestrations, job, job_id)
        except Exception as fault:
            faults.append(fault)

    await run_concurrently(job.dependencies or (), one, limit=_AT_ONCE)
    if faults:
        # the next try comes sooner after a fault that may pass
        raise next((each for each in faults if isinstance(each, Transient)), faults[0])

    async def mark_own() -> None:
        active = await context.index.read_active(job.tenant, job.job_id)
        if active is None or active.place is None:
            return
        place = replace(active.place, marked=True)
        may_go_on = not place.dependencies_left or place.failed_dependency is not None
        check_at = context.clock.now() + FIRST_CHECK if may_go_on else next_check(context, job)
        await context.index.move_place(active, place, check_at)

    await context.retry_on_conflict(mark_own, f"job {job.job_id}, which waits for other jobs,")


def next_check(context: Context, job: Job) -> datetime:
    """Returns the time of the sweeper's next check of a job that waits for other jobs. The check is at least hourly,
    since a DEP row may be lost.
    """
    return min(job.expires_at or ASLEEP, context.clock.now() + _CHECKED_EVERY)


async def recount_dependencies(context: Context, job: Job, active: ActiveRow, place: Place) -> bool:
    """Corrects the job's place if fewer dependencies are open than the place shows. Returns `True` after a correction.
    In this case a DEP row was lost, and an ended dependency was never counted.

    A dependency counts until its job has ended and its DEP row is deleted. Raises LedgerUnavailable, ArchiveGone,
    ArchiveInvalid.
    """

    async def one(job_id: str) -> tuple[bool, str | None]:
        if await context.index.is_dependant(job.tenant, job_id, job.job_id):
            return True, None
        awaited = await find_job(context, job_id)
        status = awaited.status if awaited is not None else JobStatus.FAILED_FINAL
        if not status.terminal:
            return True, None
        return False, None if status is JobStatus.SUCCEEDED else job_id

    found = await run_concurrently(job.dependencies or (), one, limit=_AT_ONCE)
    left = sum(is_left for is_left, _ in found)
    if left >= place.dependencies_left:
        return False
    failed = place.failed_dependency or next((job_id for _, job_id in found if job_id is not None), None)
    counted = replace(place, dependencies_left=left, failed_dependency=failed)
    try:
        await context.index.move_place(active, counted, context.clock.now() + FIRST_CHECK)
    except Conflict:
        # an end is being counted at the same time; the next check counts again
        return False
    telemetry.warn("DEPENDENCIES_COUNTED_ANEW", **telemetry.line_ids(job), left=left)
    return True


async def _mark_one(context: Context, orchestrations: Orchestrations, job: Job, job_id: str) -> None:
    while True:
        stored = await context.ledger.read(job_id)
        awaited = stored.record.job if stored is not None else await find_job(context, job_id)
        if stored is None or awaited is None or awaited.status.terminal:
            # a purged one counts as failed
            succeeded = awaited is not None and awaited.status is JobStatus.SUCCEEDED
            await count_dependency_end(context, job.tenant, job_id, job.job_id, succeeded=succeeded)
            return
        if awaited.awaited:
            return
        origin = Origin(cause_id=f"await:{job_id}:{job.job_id}", actor="system", source="gates")
        await transition(context, stored, Awaited(), origin, orchestrations=orchestrations)
