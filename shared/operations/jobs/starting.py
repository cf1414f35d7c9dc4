"""Starts a job's orchestration."""

from __future__ import annotations

from shared.core.jobs.job import Record
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus
from shared.errors import CreationWithdrawn
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored


def check_not_withdrawn(stored: Stored) -> None:
    """Raises CreationWithdrawn if the sweeper has withdrawn the job's creation (R14)."""
    if stored.record.job.error_code == Reason.WITHDRAWN:
        raise CreationWithdrawn


async def start_once(orchestrations: Orchestrations, stored: Stored) -> Stored:
    """Starts the orchestration of a job if it may never have been started. A running instance is not changed.

    Raises CreationWithdrawn and OrchestrationUnavailable.
    """
    check_not_withdrawn(stored)
    job = stored.record.job
    if job.status is JobStatus.QUEUED and job.attempts_total == 0:
        await orchestrations.start(job.instance_id, orchestration_input(stored.record))
    return stored


def orchestration_input(record: Record) -> dict[str, object]:
    """Returns the input of a job's orchestration: `{"job_id", "steps"}`, with a parallel group as a nested list."""
    stages: list[str | list[str]] = []
    for step in record.steps:
        group = record.group_of(step)
        if len(group) == 1:
            stages.append(step.step_id)
        elif group[0] is step:
            stages.append([sibling.step_id for sibling in group])
    return {"job_id": record.job.job_id, "steps": stages}
