"""The response models of a job, made from its rows; a column is in the response because its model declares it."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from shared.access.references import Retention
from shared.core.incidents import escalates, job_incident_id
from shared.core.jobs.job import Event as EventRow
from shared.core.jobs.job import Record
from shared.core.jobs.job import Step as StepRow
from shared.core.jobs.states import JobStatus, StepStatus
from shared.ports.index import ListRow
from shared.responses.history import Event
from shared.responses.job import CallbackOutcome, DeadLetter, DeadLetterLinks, Job, JobLine, JobLinks, Step


def job_links(job_id: str) -> JobLinks:
    return JobLinks.model_validate(_links(job_id))


def _links(job_id: str) -> dict[str, str]:
    path = f"/v1/jobs/{job_id}"
    return {"self": path, "steps": f"{path}/steps", "events": f"{path}/events", "cancel": f"{path}:cancel"}


def job_response(record: Record, retention: Retention, as_of: EventRow | None = None) -> Job:
    """The job with its steps; `as_of` is the event after which it was like this, where that was asked for."""
    past: dict[str, Any] = {} if as_of is None else {"as_of": event_response(as_of)}
    return Job.of(
        record.job,
        jobId=record.job.job_id,
        priority=record.job.current_priority,
        steps=[step_response(step) for step in record.steps],
        links=job_links(record.job.job_id),
        final_output_expires_at=_output_end(record, retention),
        incident=job_incident_id(record.job.job_id) if escalates(record.job) else None,
        **past,
    )


def _output_end(record: Record, retention: Retention) -> datetime | None:
    """Of a job's output in the workspace, where its step made it."""
    output = record.job.final_output
    made_at = record.last[0].completed_at if output is not None else None
    return retention.end(output["uri"], made_at) if output is not None and made_at is not None else None


def step_response(step: StepRow) -> Step:
    return Step.of(step, stepId=step.step_id, max_attempts=step.timings.max_attempts)


def event_response(event: EventRow) -> Event:
    return Event.of(event, eventId=f"{event.job_id}:{event.seq}", jobId=event.job_id, stepId=event.step_id)


def job_line(row: ListRow, *, status: JobStatus, current_step_id: str | None, seq: int) -> JobLine:
    """A line of a list, from a LIST row; `seq` is the event that status and step are as of."""
    return JobLine.of(
        row,
        jobId=row.job_id,
        status=status,
        current_step_id=None if status.terminal else current_step_id,
        seq=seq,
        links=job_links(row.job_id),
    )


def dead_letter(record: Record) -> DeadLetter:
    """A job that failed for good: where and why."""
    job = record.job
    failed = next((step for step in record.steps if step.status is StepStatus.FAILED_FINAL), None)
    return DeadLetter.of(
        job,
        jobId=job.job_id,
        failed_step_id=failed.step_id if failed else job.current_step_id,
        last_error_code=failed.last_error_code if failed else None,
        links=DeadLetterLinks.model_validate({**_links(job.job_id), "redrive": f"/v1/jobs/{job.job_id}:redrive"}),
    )


def callback_outcome(
    record: Record,
    *,
    applied: bool,
    reason_code: str | None,
    token: str | None = None,
    token_end: datetime | None = None,
) -> CallbackOutcome:
    """What came of a service's callback; the token is a fresh one, as long as the attempt goes on."""
    fresh: dict[str, Any] = {} if token is None else {"token": token, "token_expires_at": token_end}
    outcome: Literal["APPLIED", "IGNORED"] = "APPLIED" if applied else "IGNORED"
    return CallbackOutcome(outcome=outcome, why=reason_code, job_status=record.job.status, **fresh)
