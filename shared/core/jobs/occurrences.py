"""Occurrences: the inputs of `shared.core.jobs.decide.apply` after the creation of a job."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from shared.contracts.messages import Reply


@dataclass(frozen=True)
class RecordAttempt:
    """`dispatch` records the next attempt of a step under a new lease, before `dispatch` sends the directive."""

    step_id: str
    #: 128 random bits in hex
    lease_id: str = field(repr=False)


@dataclass(frozen=True)
class RenewLease:
    """`dispatch` sends an attempt whose lease is too old (`shared.core.jobs.next_attempt.is_late`), or whose directive
    the bus did not accept before.
    """

    step_id: str
    attempt_no: int


@dataclass(frozen=True)
class PublishFailed:
    """The bus did not accept the directive, after the retries of the SDK."""

    step_id: str
    attempt_no: int
    message: str


@dataclass(frozen=True)
class NextAttempt:
    """The first attempt of the next step. A RESULT may record the attempt, which `dispatch` then only sends."""

    step_id: str
    #: 128 random bits in hex
    lease_id: str = field(repr=False)
    #: salt of its EVENT row, as `Provenance.salt`
    salt: str = field(repr=False)


@dataclass(frozen=True)
class ReplyArrived:
    """A platform service sent a reply."""

    reply: Reply
    #: minimum seconds between the step's last write and a heartbeat that is written for its `progress`; None:
    #: heartbeats are written for the lease only
    progress_s: float | None = None
    #: attempt to record for the next step; None if `dispatch` records it
    next_attempt: NextAttempt | None = None


@dataclass(frozen=True)
class DeadlinePassed:
    """A timer of the orchestration fired, or the sweeper checked the attempt. The lease may have expired."""

    step_id: str
    attempt_no: int


@dataclass(frozen=True)
class TimePassed:
    """The sweeper found a step whose total time, or whose job's total time, is over. No other process ended the
    step.
    """

    step_id: str


@dataclass(frozen=True)
class LaneBacklog:
    """A lease is over, but messages on the lane or an unreachable bus can explain the silence of the service."""

    step_id: str
    attempt_no: int
    #: reason in words
    what: str


@dataclass(frozen=True)
class Gated:
    """`dispatch` cannot send the next attempt of a step now: a dispatch limit of its service or lane is reached."""

    step_id: str
    #: name of the dispatch limit for people, such as `service:ocr`
    guard: str
    #: reason in words
    why: str


@dataclass(frozen=True)
class OrchestrationEnded:
    """The sweeper found a job whose orchestration ended or is silent. A new orchestration continues the job, until the
    maximum of restarts is reached.
    """

    instance_id: str
    #: `True` if the orchestration had not ended but ignored its wake-up: a fault of the engine, which never ends the
    #: job
    silent: bool = False


@dataclass(frozen=True)
class Repaired:
    """The sweeper made a repair that did not change the job's state."""

    what: str
    #: state outside the job's rows before and after the repair, in words
    before: str | None = None
    after: str | None = None


class ControlKind(StrEnum):
    """The controls that a caller can request."""

    CANCEL = "CANCEL"
    PAUSE = "PAUSE"
    RESUME = "RESUME"


@dataclass(frozen=True)
class Control:
    """A caller requested a control."""

    kind: ControlKind


@dataclass(frozen=True)
class Admitted:
    """The quotas of a job, or an operator, admitted the job."""

    #: the job's quotas at its admission: `{"gate", "name", "active", "max_active"}` each
    gates: tuple[dict[str, Any], ...] = ()
    #: number of the job's pauses when its slot was checked
    park_no: int = 0


@dataclass(frozen=True)
class Awaited:
    """Another job waits until this job ends."""


@dataclass(frozen=True)
class DependenciesSettled:
    """All dependencies ended with the results that the job requires."""


@dataclass(frozen=True)
class DependencyFailed:
    """A job that this job depends on did not succeed."""

    job_id: str


@dataclass(frozen=True)
class Expired:
    """The job did not begin by its `expires_at`."""


@dataclass(frozen=True)
class PriorityChanged:
    """A caller changed the priority of a waiting job."""

    priority: str


@dataclass(frozen=True)
class Redriven:
    """Another job redrives this job from the first step that did not succeed."""

    job_id: str


@dataclass(frozen=True)
class Replayed:
    """Another job replays this job."""

    job_id: str
    #: a `shared.core.jobs.replay.ReplayMode`
    mode: str


Occurrence = (
    RecordAttempt
    | RenewLease
    | PublishFailed
    | ReplyArrived
    | DeadlinePassed
    | TimePassed
    | LaneBacklog
    | Gated
    | OrchestrationEnded
    | Repaired
    | Control
    | Admitted
    | Awaited
    | DependenciesSettled
    | DependencyFailed
    | Expired
    | PriorityChanged
    | Redriven
    | Replayed
)
