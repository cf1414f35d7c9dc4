"""Reads an admission state's waiting jobs, in order (R49). Writes nothing, so a missing count is made for the reader
only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from shared.core.gates.admission import AdmissionRound, QueuedJob
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.places import PlaceState, apply_count
from shared.core.gates.queue_position import MAX_POSITION, QueuePosition, find_position, find_queues, list_positions
from shared.core.gates.rules import Directory, Gate
from shared.core.gates.tight_quotas import TightQuota
from shared.core.gates.type_breaker import sync_breakers
from shared.core.jobs.job import Job
from shared.operations.gates import admission_counts, admission_turns
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context


async def read_admission(
    context: Context, tenant: str, *, also: Gate | None = None
) -> tuple[AdmissionState, Directory]:
    """Returns the admission state and the directory. Missing counts are made for the reader only.

    `also`: a quota whose jobs are counted in any case. Raises LedgerUnavailable.
    """
    directory, stored, now = (
        await admission_turns.read_directory(context),
        await context.admissions.read(tenant),
        context.clock.now(),
    )
    admission = stored.admission if stored is not None else AdmissionState(tenant=tenant, counted_at=now)
    opened = directory.counts_needed_since(tenant)
    counted = stored is not None and opened is not None and admission.counted_at >= opened
    if counted and (also is None or also.id in admission.gates):
        return sync_breakers(admission, directory), directory
    if also is not None:
        admission = admission.with_state(admission.state(also))
    return sync_breakers(
        apply_count(admission, await admission_counts.list_places(context, tenant), now), directory
    ), directory


async def list_waiting(
    context: Context, admission: AdmissionState, gate: Gate, directory: Directory
) -> list[QueuePosition]:
    """Returns the first 1,000 jobs that wait for the quota, in order. Raises LedgerUnavailable."""
    rows = {
        number: await context.admissions.first_waiting(admission.tenant, number, MAX_POSITION)
        for number in find_queues(admission, gate)
    }
    return list(list_positions(admission, directory, gate, rows, context.clock.now()))


async def read_oldest(context: Context, admission: AdmissionState, gate: Gate) -> QueuedJob | None:
    """Returns the first job of the quota's queues, or None if no job waits. Raises LedgerUnavailable."""
    queues = find_queues(admission, gate, only=True)
    first = min(queues, key=lambda number: (not queues[number].emergency, queues[number].head), default=None)
    rows = await context.admissions.first_waiting(admission.tenant, first, 1) if first is not None else []
    return rows[0] if rows else None


async def add_ages(
    context: Context, admissions: Mapping[str, AdmissionState], quotas: Sequence[TightQuota]
) -> list[TightQuota]:
    """Adds to each tenant's quota the creation time of its first waiting job. Costs one read for each of these quotas
    at which jobs wait.

    Raises LedgerUnavailable.
    """

    async def add_age(quota: TightQuota) -> TightQuota:
        admission = admissions.get(quota.gate.tenant)
        first = await read_oldest(context, admission, quota.gate) if admission is not None and quota.waiting else None
        return replace(quota, oldest_at=first.created_at if first is not None else None)

    return await run_concurrently(quotas, add_age)


async def read_position(context: Context, job: Job) -> QueuePosition | None:
    """Returns the position of a waiting job in its queue, or None if the job is in no queue. Raises
    LedgerUnavailable.
    """
    active = await context.index.read_active(job.tenant, job.job_id)
    place = active.place if active is not None else None
    if active is None or place is None or place.state is not PlaceState.WAITING or place.queue is None:
        return None
    admission, directory = await read_admission(context, job.tenant)
    rows = await context.admissions.first_waiting(job.tenant, place.queue, MAX_POSITION)
    before = [row.candidate.job_id for row in rows]
    position = before.index(job.job_id) + 1 if job.job_id in before else None
    waiting = QueuedJob(place.candidate, place.queue, active.claim, active.created_at)
    return find_position(admission, directory, waiting, position, context.clock.now())


async def count_admissible(context: Context, admission: AdmissionState, directory: Directory) -> int:
    """Returns the number of waiting jobs that the admission state can admit now, up to 1,000. Raises
    LedgerUnavailable.
    """
    admissions = AdmissionRound(admission, directory, context.clock.now(), room=MAX_POSITION)
    while (queue := admissions.next_queue()) is not None:
        admissions.add_rows(queue, await context.admissions.first_waiting(admission.tenant, queue, admissions.room + 1))
    return len(admissions.result.admitted)
