"""One step in the reference model: its rules and its state. Times are seconds since the job began."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """A step's frozen timings in seconds."""

    ack_timeout: float
    lease: float
    cadence: float | None
    max_attempts: int
    dispatch_waits: tuple[float, ...]
    ack_waits: tuple[float, ...]
    execution_waits: tuple[float, ...]
    #: of the step, from its first attempt on; None: no cap
    total: float | None = None
    #: of an attempt, from its ACK on; None: too long to be met
    attempt_max: float | None = None
    #: number of its parallel group; None: it runs alone
    group: int | None = None

    @property
    def running_lease(self) -> float:
        return self.lease if self.cadence is None else 2 * self.cadence

    @property
    def heartbeat_every(self) -> float:
        """A heartbeat is written once a quarter of the lease, or half the cadence, has gone by."""
        return self.lease / 4 if self.cadence is None else self.cadence / 2


@dataclass(frozen=True)
class ModelStep:
    status: str = "PENDING"
    attempt: int = 0
    #: when the attempt was recorded
    begun: float = 0.0
    #: when the lease of the attempt in flight ends
    lease_ends: float | None = None
    #: the end of the attempt's longest time; None: no service has taken it up
    attempt_ends: float | None = None
    #: since when our own backlog explains the silence, and until when it does
    backlog_since: float | None = None
    backlog_ends: float | None = None
    #: the start of a guard's delay of the next attempt, and its end at the last evaluation
    gated_since: float | None = None
    gated_ends: float | None = None
    #: the end of the step's total time
    deadline: float | None = None
    #: the end of a wait that is on
    wait_ends: float | None = None
    #: of FAILED_RETRY: "ACK_TIMEOUT", "LEASE_EXPIRED" or "RESULT"
    failed_by: str | None = None
    ack_failures: int = 0
    execution_failures: int = 0
    publish_failures: int = 0

    @property
    def silent_until(self) -> float:
        return max(self.lease_ends or 0, self.backlog_ends or 0)
