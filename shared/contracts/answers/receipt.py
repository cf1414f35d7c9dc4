"""Where a job's time went."""

from __future__ import annotations

from shared.contracts.answers.answer import Answer, Instant, JobId
from shared.contracts.answers.job import JobStatusName


class Spent(Answer):
    """Seconds, by what they were spent on."""

    queue_s: float
    """Nothing stood in the way but LUCIUS's own dispatch."""
    ack_s: float
    """A directive was out and no service had taken it up."""
    service_s: float
    """A service was at work, by its own word."""
    backoff_s: float
    """LUCIUS waited on purpose, before another try."""
    paused_s: float
    """An operator had the job stand still."""


class StepReceipt(Spent):
    """What one step spent."""

    stepId: str
    attempts: int
    carried: bool


class Receipt(Answer):
    """Where a job's time went, step by step; steps of a parallel group spend the same hours each."""

    jobId: JobId
    status: JobStatusName
    until: Instant
    """The job's end, or now."""
    elapsed_s: float
    total: Spent
    attempts_total: int
    events: int
    replies_ignored: int
    """Late, stale and repeated replies."""
    steps: list[StepReceipt]
