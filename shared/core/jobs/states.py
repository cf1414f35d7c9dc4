"""The states of a job and of a step."""

from __future__ import annotations

from enum import StrEnum


class JobStatus(StrEnum):
    """A job's state; the terminal ones are past participles and never change."""

    #: accepted, and jobs that it depends on have not ended (R53)
    WAITING_FOR_JOBS = "WAITING_FOR_JOBS"
    #: accepted, and its gates let it in later (R48)
    THROTTLED = "THROTTLED"
    QUEUED = "QUEUED"
    IN_PROGRESS = "IN_PROGRESS"
    PAUSING = "PAUSING"
    PAUSED = "PAUSED"
    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    FAILED_FINAL = "FAILED_FINAL"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in (JobStatus.SUCCEEDED, JobStatus.FAILED_FINAL, JobStatus.CANCELLED)


class StepStatus(StrEnum):
    """A step's state within its job."""

    PENDING = "PENDING"
    INITIATED = "INITIATED"
    PROCESSING = "PROCESSING"
    FAILED_RETRY = "FAILED_RETRY"
    SUCCEEDED = "SUCCEEDED"
    FAILED_FINAL = "FAILED_FINAL"
    CANCELLED = "CANCELLED"

    @property
    def terminal(self) -> bool:
        return self in (StepStatus.SUCCEEDED, StepStatus.FAILED_FINAL, StepStatus.CANCELLED)

    @property
    def in_flight(self) -> bool:
        """Returns whether a service may be working on it: a reply will arrive, or its lease expires."""
        return self in (StepStatus.INITIATED, StepStatus.PROCESSING)


class FailureCause(StrEnum):
    """Why an attempt came to nothing; each cause has a backoff list of its own."""

    ACK_TIMEOUT = "ACK_TIMEOUT"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    RESULT = "RESULT"
