"""What LIFECYCLE.md says of a job, in plain words and plain values: the model that the core is held against.

Written from the prose, not from the code: no tables, no rows, no events, no product import; times are seconds since
the job began. It knows a wait without its jitter (`wait_s`); `tests.model.pair` checks the jitter and tells it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

LIVE = ("QUEUED", "IN_PROGRESS", "PAUSING", "PAUSED", "CANCELLING")
RUNS = ("QUEUED", "IN_PROGRESS")
IN_FLIGHT = ("INITIATED", "PROCESSING")
SETTLED = ("SUCCEEDED", "FAILED_FINAL", "CANCELLED")

MOVED, IGNORED, REFUSED = "MOVED", "IGNORED", "REFUSED"
#: IGNORED without an EVENT row: it changes nothing that anyone would ask about
UNHEARD = "UNHEARD"

RECORDED_REPLIES = 20
RESTARTS = 5


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
    #: a wait that is on: its length without jitter, and its end
    wait_s: float | None = None
    wait_ends: float | None = None
    #: of FAILED_RETRY: "ACK_TIMEOUT", "LEASE_EXPIRED" or "RESULT"
    failed_by: str | None = None
    ack_failures: int = 0
    execution_failures: int = 0
    publish_failures: int = 0


@dataclass
class Model:
    """One job. Every method is one thing that can happen, at `now`, and answers what it was."""

    rules: tuple[Rules, ...]
    steps: list[ModelStep] = field(default_factory=list)
    status: str = "QUEUED"
    acked: bool = False
    park_no: int = 0
    paused_since: float | None = None
    restarts: int = 0
    error: str | None = None
    ignored: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps = self.steps or [ModelStep() for _ in self.rules]

    def copy(self) -> Model:
        return replace(self, steps=list(self.steps), ignored=dict(self.ignored))

    @property
    def over(self) -> bool:
        return self.status not in LIVE

    @property
    def draining(self) -> bool:
        return any(step.status in IN_FLIGHT for step in self.steps)

    # --- Dispatch

    def attempt_recorded(self, at: int, now: float) -> str:
        step = self.steps[at]
        ready = step.status == "PENDING" or (step.status == "FAILED_RETRY" and (step.wait_ends or 0) <= now)
        earlier_done = all(one.status == "SUCCEEDED" for one in self.steps[:at])
        if self.status not in RUNS or not ready or not earlier_done:
            return REFUSED
        self.steps[at] = replace(
            step,
            status="INITIATED",
            attempt=step.attempt + 1,
            begun=now,
            lease_ends=now + self.rules[at].ack_timeout,
            wait_s=None,
            wait_ends=None,
            failed_by=None,
            publish_failures=0,
        )
        return MOVED

    def lease_renewed(self, at: int, attempt: int, now: float) -> str:
        step = self.steps[at]
        if self.over or (step.status, step.attempt) != ("INITIATED", attempt):
            return UNHEARD
        self.steps[at] = replace(step, lease_ends=now + self.rules[at].ack_timeout, wait_s=None, wait_ends=None)
        return MOVED

    def publish_failed(self, at: int, attempt: int, now: float) -> str:
        step, rules = self.steps[at], self.rules[at]
        if self.over or (step.status, step.attempt) != ("INITIATED", attempt):
            return UNHEARD
        if step.publish_failures == len(rules.dispatch_waits):
            return self._failed_for_good(at, now, "DISPATCH_FAILED")
        wait_s = rules.dispatch_waits[step.publish_failures]
        self.steps[at] = replace(
            step,
            publish_failures=step.publish_failures + 1,
            wait_s=wait_s,
            wait_ends=now + wait_s,
            lease_ends=now + wait_s + rules.ack_timeout,
        )
        return MOVED

    # --- time-outs

    def deadline_passed(self, at: int, attempt: int, now: float) -> str:
        step, rules = self.steps[at], self.rules[at]
        if self.over or step.status not in IN_FLIGHT or step.attempt != attempt or (step.lease_ends or 0) > now:
            return UNHEARD
        if step.status == "INITIATED":
            step = replace(step, ack_failures=step.ack_failures + 1, failed_by="ACK_TIMEOUT")
            wait_s = _entry(rules.ack_waits, step.ack_failures)
        else:
            step = replace(step, execution_failures=step.execution_failures + 1, failed_by="LEASE_EXPIRED")
            wait_s = _entry(rules.execution_waits, step.execution_failures)
        self.steps[at] = step
        if step.attempt == rules.max_attempts:
            return self._failed_for_good(at, now, "ATTEMPTS_EXHAUSTED")
        return self._failed_for_now(at, now, wait_s)

    def lane_backlog(self, at: int, attempt: int, now: float) -> str:
        """Our own backlog is nobody's failure: one more ACK timeout, up to the result timeout in all."""
        step, rules = self.steps[at], self.rules[at]
        if self.over or step.status not in IN_FLIGHT or step.attempt != attempt or (step.lease_ends or 0) > now:
            return UNHEARD
        in_all = rules.lease if step.status == "INITIATED" else 2 * rules.running_lease
        if now >= step.begun + in_all:
            return UNHEARD
        self.steps[at] = replace(step, lease_ends=now + rules.ack_timeout)
        return MOVED

    # --- replies

    def replied(
        self, at: int | None, kind: str, now: float, *, key: tuple[str, int], mine: bool, result: str | None = None
    ) -> str:
        """`mine`: of the step's current attempt and lease, and of this tenant; `at` None: no such step."""
        if at is None or not mine or self.over:
            return self._late(key)
        step = self.steps[at]
        if step.status in ("PENDING", *SETTLED):
            return self._late(key)
        revived = step.status == "FAILED_RETRY"
        if revived:
            drained = self.status == "PAUSED" and kind != "RESULT"
            if step.failed_by == "RESULT" or drained:
                return self._late(key)
            # it had not failed after all
            if step.failed_by == "ACK_TIMEOUT":
                step = replace(step, ack_failures=step.ack_failures - 1)
            else:
                step = replace(step, execution_failures=step.execution_failures - 1)
        if kind == "RESULT":
            self.steps[at] = step
            self._picked_up()
            return self._result(at, now, result)
        if step.status == "PROCESSING":
            if kind == "ACK" or self.status == "CANCELLING":
                return self._late(key)
            begun = (step.lease_ends or 0) - self.rules[at].running_lease
            if now - begun < self.rules[at].heartbeat_every:
                return UNHEARD
        else:
            self._picked_up()
        self.steps[at] = replace(
            step,
            status="PROCESSING",
            lease_ends=now + self.rules[at].running_lease,
            wait_s=None,
            wait_ends=None,
            failed_by=None,
        )
        return MOVED

    def _result(self, at: int, now: float, result: str | None) -> str:
        step, rules = self.steps[at], self.rules[at]
        if result == "FAILED_FINAL":
            return self._failed_for_good(at, now, "FAILED_FINAL")
        if result == "FAILED_RETRY":
            if step.attempt == rules.max_attempts:
                return self._failed_for_good(at, now, "ATTEMPTS_EXHAUSTED")
            step = replace(step, execution_failures=step.execution_failures + 1, failed_by="RESULT")
            self.steps[at] = step
            return self._failed_for_now(at, now, _entry(rules.execution_waits, step.execution_failures))
        self.steps[at] = replace(step, status="SUCCEEDED", lease_ends=None, wait_s=None, wait_ends=None, failed_by=None)
        if self.status == "CANCELLING":
            self._cancelled()
        elif all(one.status == "SUCCEEDED" for one in self.steps):
            self._ended("SUCCEEDED")
        elif self.status == "PAUSING":
            self._parked(now)
        return MOVED

    def _picked_up(self) -> None:
        self.acked = True
        if self.status == "QUEUED":
            self.status = "IN_PROGRESS"

    def _late(self, key: tuple[str, int]) -> str:
        self.ignored[key] = self.ignored.get(key, 0) + 1
        return IGNORED if self.ignored[key] <= RECORDED_REPLIES else UNHEARD

    # --- what a failure does

    def _failed_for_now(self, at: int, now: float, wait_s: float) -> str:
        self.steps[at] = replace(
            self.steps[at], status="FAILED_RETRY", wait_s=wait_s, wait_ends=now + wait_s, lease_ends=None
        )
        if self.status == "CANCELLING":
            self._cancelled()
        elif self.status == "PAUSING":
            self._parked(now)
        return MOVED

    def _failed_for_good(self, at: int, now: float, error: str) -> str:
        self.steps[at] = replace(
            self.steps[at], status="FAILED_FINAL", wait_s=None, wait_ends=None, lease_ends=None, failed_by=None
        )
        if self.status == "CANCELLING":
            self._cancelled()
        else:
            self.error = error
            self._ended("FAILED_FINAL")
        return MOVED

    # --- controls

    def cancel(self, now: float) -> str:
        if self.status in ("CANCELLING", "CANCELLED"):
            return UNHEARD
        if self.over:
            return REFUSED
        if self.draining:
            self.status = "CANCELLING"
        else:
            self._cancelled()
        return MOVED

    def pause(self, now: float) -> str:
        if self.status in ("PAUSING", "PAUSED"):
            return UNHEARD
        if self.status not in RUNS:
            return REFUSED
        if self.draining:
            self.status = "PAUSING"
        else:
            self._parked(now)
        return MOVED

    def resume(self, now: float) -> str:
        if self.over:
            return REFUSED
        if self.status not in ("PAUSING", "PAUSED"):
            return UNHEARD
        self.status = "IN_PROGRESS" if self.acked else "QUEUED"
        if self.paused_since is not None:
            stood_still = now - self.paused_since
            self.steps = [
                step if step.wait_ends is None else replace(step, wait_ends=step.wait_ends + stood_still)
                for step in self.steps
            ]
            self.paused_since = None
        return MOVED

    def _parked(self, now: float) -> None:
        self.status, self.paused_since = "PAUSED", now
        self.park_no += 1

    def _cancelled(self) -> None:
        self.steps = [step if step.status in SETTLED else replace(step, status="CANCELLED") for step in self.steps]
        self._ended("CANCELLED")

    def _ended(self, status: str) -> None:
        self.status, self.paused_since = status, None

    # --- the sweeper

    def orchestration_ended(self, restarts: int) -> str:
        """The instance that was started again `restarts` times is over."""
        if restarts != self.restarts:
            return UNHEARD
        if self.over:
            return REFUSED
        if self.restarts < RESTARTS:
            self.restarts += 1
        elif self.status == "CANCELLING":
            self._cancelled()
        else:
            self.error = "ORCHESTRATION_FAILED"
            self._ended("FAILED_FINAL")
        return MOVED

    def told_again(self) -> str:
        return UNHEARD if self.over else MOVED


def _entry(waits: tuple[float, ...], failures: int) -> float:
    """Entry k, the last one repeating."""
    return waits[min(failures, len(waits)) - 1]
