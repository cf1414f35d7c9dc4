"""The states of a job and of a step."""

from __future__ import annotations

from enum import StrEnum


class JobStatus(StrEnum):
    """A job's state. Terminal states never change."""

    #: accepted; dependencies have not ended (R53)
    WAITING_FOR_JOBS = "WAITING_FOR_JOBS"
    #: accepted; waiting for its quotas (R48)
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
        """Returns `True` if a service may be working on the step. Then either a reply arrives or the step's lease
        expires.
        """
        return self in (StepStatus.INITIATED, StepStatus.PROCESSING)


class FailureCause(StrEnum):
    """The cause of a failed attempt, which selects the list of backoffs."""

    ACK_TIMEOUT = "ACK_TIMEOUT"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    RESULT = "RESULT"
