"""A redrive: a new job that continues a failed or cancelled job (R39).

The redrive adds the new job's id to the old job as `redriven_by`, and an EVENT. The new job depends only on the old
rows, `created_at` of the idempotency record and the new id. So two creators of the same redrive write the same rows,
except for the salt and the provenance of the first EVENT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.core.jobs.as_of import make_creation_data
from shared.core.jobs.history import EventType, Origin, Provenance, append
from shared.core.jobs.job import Event, Job, Record, Step
from shared.core.jobs.outcome import Outcome, ignore, make_transition, refuse
from shared.core.jobs.plan import compute_total_time
from shared.core.jobs.reasons import IgnoreReason
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.records.canonical import digest

#: columns that a redrive copies: those that the request and the protocol fixed
JOB_KEPT = frozenset(
    {
        *("tenant_id", "tenant", "request_type", "schema_version", "mode", "priority", "labels"),
        *("callback_urls", "callback_digest", "callback_targets"),
        *("protocol_id", "protocol_version", "protocol_digest", "body_hash", "payload_digest", "workspace_base"),
        *("input_ref", "output_ref", "doc_id", "correlation_id", "traceparent", "requested_by", "source"),
        *("on_dependency_failure", "escalate", "replay_of", "replay_mode"),
    }
)
STEP_KEPT = frozenset(
    {
        *("step_id", "step_index", "step_type", "service", "group", "timings", "payload"),
        *("lane", "routing_key_used", "resolved_mode", "decision_source", "decision_reason"),
    }
)
#: columns that a step with a reused result copies
STEP_CARRIED = frozenset({"input_ref", "workspace_ref", "output_ref", "result_ref", "result", "completed_at"})


def claim_key_of(job_id: str) -> str:
    """Returns the idempotency key (RowKey without its prefix) that all redrives of one job share. So all these redrives
    return the same new job.
    """
    return digest(f"redrive:{job_id}")


def not_redrivable(record: Record) -> IgnoreReason | None:
    """Returns the reason why the job cannot be redriven, or None if the job can be redriven."""
    if not record.job.status.terminal:
        return IgnoreReason.JOB_LIVE
    return IgnoreReason.JOB_SUCCEEDED if record.job.status is JobStatus.SUCCEEDED else None


def plan_redrive(
    old: Record,
    *,
    job_id: str,
    created_at: datetime,
    allowed: timedelta | None,
    initial_status: JobStatus = JobStatus.QUEUED,
    dependencies: Sequence[str] = (),
    origin: Origin,
    salt: str,
) -> tuple[Record, Event]:
    """Makes the new job's rows and its first EVENT. `allowed` is the protocol's total time for a job.

    `dependencies` has the ids of jobs for which the new job waits again. The new job keeps every SUCCEEDED step. If all
    steps SUCCEEDED, because the job was cancelled when the last step ended, the last step runs again.
    """
    steps = tuple(_step(step, created_at) for step in old.steps)
    if all(step.carried for step in steps):
        steps = (*steps[:-1], fresh_step(old.steps[-1], created_at))
    first = next(step for step in steps if not step.carried)
    job = Job(
        **{name: getattr(old.job, name) for name in JOB_KEPT} | {"priority": old.job.current_priority},
        job_id=job_id,
        instance_id=job_id,
        status=initial_status,
        idempotency_hash=claim_key_of(old.job.job_id),
        requested_at=created_at,
        redrive_of=old.job.job_id,
        first_job_id=old.job.first_job_id or old.job.job_id,
        dependencies=list(dependencies) or None,
        **compute_total_time(initial_status, created_at, allowed),
        current_step_id=first.step_id,
        created_at=created_at,
        updated_at=created_at,
    )
    record = Record(job, steps)
    ahead = record.group_of(first)[0]
    record = record.with_job(current_step_id=ahead.step_id, current_step_index=ahead.step_index)
    provenance = replace(origin.at(created_at, salt), cause_id=f"create:{job_id}")
    carried = [step.step_id for step in steps if step.carried]
    data = {**make_creation_data(record), "redrive_of": old.job.job_id, "carried": carried}
    return append(None, record, EventType.JOB_CREATED, provenance, data=data)


def mark_redriven(record: Record, job_id: str, provenance: Provenance) -> Outcome:
    """Adds the EVENT of the redrive and `redriven_by` to the old job. The outcome is IGNORED if `redriven_by` already
    names the new job. The outcome is REFUSED if the old job cannot be redriven, or if another job redrives the old job.
    """
    if (why := not_redrivable(record)) is not None:
        return refuse(record, why)
    if record.job.redriven_by is not None:
        return (
            ignore(record, IgnoreReason.ALREADY)
            if record.job.redriven_by == job_id
            else refuse(record, IgnoreReason.REDRIVEN_ALREADY)
        )
    return make_transition(
        record, record.with_job(redriven_by=job_id), EventType.JOB_REDRIVEN, provenance, data={"redriven_by": job_id}
    )


def _step(old: Step, created_at: datetime) -> Step:
    step = fresh_step(old, created_at)
    if old.status is not StepStatus.SUCCEEDED:
        return step
    kept: dict[str, Any] = {name: getattr(old, name) for name in STEP_CARRIED}
    return replace(step, status=StepStatus.SUCCEEDED, carried=True, **kept)


def fresh_step(old: Step, created_at: datetime) -> Step:
    """Returns a PENDING copy of an old step, which the new job runs again."""
    return Step(
        **{name: getattr(old, name) for name in STEP_KEPT},
        status=StepStatus.PENDING,
        created_at=created_at,
        updated_at=created_at,
    )
