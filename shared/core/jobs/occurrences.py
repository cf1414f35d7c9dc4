"""What can happen to a job after its creation: the inputs of `shared.core.jobs.decide.apply`."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from shared.contracts.messages import Reply


@dataclass(frozen=True)
class RecordAttempt:
    """`dispatch` is about to send a directive: the next attempt of a step, under a lease of its own."""

    step_id: str
    #: 128 random bits in hex
    lease_id: str = field(repr=False)


@dataclass(frozen=True)
class RenewLease:
    """`dispatch` sends an attempt whose lease began a while ago (`shared.core.jobs.next_attempt.is_late`)."""

    step_id: str
    attempt_no: int


@dataclass(frozen=True)
class PublishFailed:
    """The bus did not take the directive, after the SDK's own retries."""

    step_id: str
    attempt_no: int
    message: str


@dataclass(frozen=True)
class NextAttempt:
    """A RESULT may record the first attempt of the step after its own; `dispatch` then only sends it."""

    step_id: str
    #: 128 random bits in hex
    lease_id: str = field(repr=False)
    #: of its EVENT row, as `Provenance.salt`
    salt: str = field(repr=False)


@dataclass(frozen=True)
class ReplyArrived:
    """A platform service spoke."""

    reply: Reply
    #: seconds after the step's last write from which on a heartbeat with new `progress` is written; None: with the
    #: lease alone
    progress_s: float | None = None
    #: None: `dispatch` records what comes next
    next_attempt: NextAttempt | None = None


@dataclass(frozen=True)
class DeadlinePassed:
    """A timer of the orchestration fired; the lease may have expired."""

    step_id: str
    attempt_no: int


@dataclass(frozen=True)
class TimePassed:
    """The sweeper found a step whose total time, or its job's, is over, while no other process ended it."""

    step_id: str


@dataclass(frozen=True)
class LaneBacklog:
    """A lease is over, and what would have renewed it may still lie on the lane."""

    step_id: str
    attempt_no: int
    what: str


@dataclass(frozen=True)
class Gated:
    """`dispatch` may not send the next attempt of a step now: a guard of its service or lane is shut."""

    step_id: str
    #: for people: `service ocr`
    guard: str
    #: why it is shut, in words
    why: str


@dataclass(frozen=True)
class OrchestrationEnded:
    """The sweeper found the job alive and its orchestration ended, or silent: a new one takes over."""

    instance_id: str
    #: it had not ended, and heard no look; that is the engine's fault and never the job's end
    silent: bool = False


@dataclass(frozen=True)
class Repaired:
    """The sweeper repaired something; the job's state does not change by it."""

    what: str
    #: how things stood outside the job's rows, in words, and how they stand now
    before: str | None = None
    after: str | None = None


class ControlKind(StrEnum):
    """What an operator can ask for."""

    CANCEL = "CANCEL"
    PAUSE = "PAUSE"
    RESUME = "RESUME"


@dataclass(frozen=True)
class Control:
    """An operator asked."""

    kind: ControlKind


@dataclass(frozen=True)
class Admitted:
    """The gates of a job let it in."""

    #: what each of them said: `{"gate", "name", "active", "max_active"}`
    gates: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Awaited:
    """Another job waits for the end of this one."""


@dataclass(frozen=True)
class DependenciesSettled:
    """All dependencies ended with the results that the job requires."""


@dataclass(frozen=True)
class DependencyFailed:
    """A job that this one depends on did not succeed."""

    job_id: str


@dataclass(frozen=True)
class Expired:
    """The job has not begun, and is of no use any more."""


@dataclass(frozen=True)
class PriorityChanged:
    """An operator moves the job in its line."""

    priority: str


@dataclass(frozen=True)
class Redriven:
    """Another job takes this one up again from the failed step on."""

    job_id: str


@dataclass(frozen=True)
class Replayed:
    """Another job runs the steps of this one again."""

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
