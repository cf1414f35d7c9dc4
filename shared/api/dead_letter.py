"""Dead letters: failed jobs that are neither redriven nor dismissed."""

from __future__ import annotations

from shared.api.job import JobLinks, links_of
from shared.api.response import Cursor, ErrorCode, Instant, JobId, JobStatusName, Partial, Response
from shared.core.jobs.job import Record
from shared.core.jobs.states import StepStatus


class DeadLetterLinks(JobLinks):
    """Paths of the failed job."""

    redrive: str
    """Path of the redrive, which requires POST."""


class DeadLetter(Response):
    """Failed job that is neither redriven nor dismissed, with the failed step and its error."""

    jobId: JobId
    tenant_id: str
    request_type: str
    status: JobStatusName
    error_code: ErrorCode
    error_message: str | None
    failed_step_id: str
    last_error_code: str | None
    """Last error code of the failed step, of the service or of LUCIUS (for example `ACK_TIMEOUT`)."""
    attempts_total: int
    redrive_of: str | None
    redriven_by: str | None
    """Always null: a redriven job is not a dead letter."""
    labels: dict[str, str]
    created_at: Instant
    completed_at: Instant | None
    links: DeadLetterLinks


class DeadLetterPage(Response):
    """Failed jobs that are neither redriven nor dismissed, most recent first."""

    deadletters: list[DeadLetter]
    next: Cursor
    partial: Partial


def dead_letter(record: Record) -> DeadLetter:
    """Makes a dead letter: the failed step and its error."""
    job = record.job
    failed = next((step for step in record.steps if step.status is StepStatus.FAILED_FINAL), None)
    return DeadLetter.of(
        job,
        jobId=job.job_id,
        failed_step_id=failed.step_id if failed else job.current_step_id,
        last_error_code=failed.last_error_code if failed else None,
        links=DeadLetterLinks.model_validate({**links_of(job.job_id), "redrive": f"/v1/jobs/{job.job_id}:redrive"}),
    )
