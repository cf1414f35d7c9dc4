"""Whoever is parked goes on when the job no longer is (LIFECYCLE "The orchestrator's shape", rule 4)."""

from __future__ import annotations

from shared import telemetry
from shared.core import durable_names
from shared.core.job import Record
from shared.core.states import JobStatus
from shared.errors import InstanceEnded, InstanceNotFound
from shared.ports import Orchestrations


async def resume_parked(orchestrations: Orchestrations, record: Record) -> None:
    """Raises the resume of every parking, also for a job that ended; early and repeated ones are harmless.

    Race resume: of every one, since an orchestration may still wait at an older one whose resume was lost.
    Raises OrchestrationUnavailable.
    """
    job = record.job
    if not job.park_no or job.status is JobStatus.PAUSED:
        return
    for instance_id in sorted({record.instance_of(step) for step in record.steps}):
        try:
            for park_no in range(1, job.park_no + 1):
                await orchestrations.raise_event(instance_id, durable_names.resume(park_no), {"status": job.status})
        except (InstanceEnded, InstanceNotFound) as gone:
            telemetry.info("ORCHESTRATION_GONE", **telemetry.line_ids(job), reason=type(gone).__name__)
