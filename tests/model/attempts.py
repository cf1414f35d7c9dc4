"""A job and the attempts of its steps in plain values: dispatch, timeouts, replies, and the effect of an end.

The half of the model (`tests.model.reference`) that follows the attempts. Times are seconds since the job began.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Self

from tests.model.steps import ModelStep, Rules

LIVE = ("WAITING_FOR_JOBS", "THROTTLED", "QUEUED", "IN_PROGRESS", "PAUSING", "PAUSED", "CANCELLING")
RUNS = ("QUEUED", "IN_PROGRESS")
IN_FLIGHT = ("INITIATED", "PROCESSING")
SETTLED = ("SUCCEEDED", "FAILED_FINAL", "CANCELLED")

MOVED = "MOVED"
IGNORED, REFUSED = "IGNORED", "REFUSED"
#: IGNORED without an EVENT row: it changes nothing that is worth a record
UNHEARD = "UNHEARD"
#: moved, without an EVENT row
WAITED = "WAITED"
#: moved twice: a RESULT, and the attempt of the next step
WENT_ON = "WENT_ON"

RECORDED_REPLIES = 20


@dataclass
class Attempts:
    """One job. Every method is one occurrence for an attempt, at `now`, and returns its outcome."""

    rules: tuple[Rules, ...]
    #: a wait's factor, at least 1, for (step, attempt)
    stretch: Callable[[int, int], float]
    #: the end of the job's total time
    deadline: float | None = None
    #: the gates have not admitted the job: its total time starts at admission
    staged: bool = False
    priority: str = "normal"
    #: jobs that it depends on may not have ended
    dependent: bool = False
    #: when it is of no use any more if it has not begun
    expires: float | None = None
    #: another job waits for its end
    awaited: bool = False
    total: float | None = None
    steps: list[ModelStep] = field(default_factory=list)
    status: str = "QUEUED"
    acked: bool = False
    park_no: int = 0
    paused_since: float | None = None
    error: str | None = None
    ignored: int = 0

    def __post_init__(self) -> None:
        if not self.steps:
            self.steps = [ModelStep() for _ in self.rules]
            if self.staged:
                self.status = "WAITING_FOR_JOBS" if self.dependent else "THROTTLED"
            else:
                self.deadline = self.total

    def copy(self) -> Self:
        return replace(self, steps=list(self.steps))

    @property
    def over(self) -> bool:
        return self.status not in LIVE

    @property
    def draining(self) -> bool:
        return any(step.status in IN_FLIGHT for step in self.steps)

    def group_of(self, at: int) -> list[int]:
        """The steps that may run at the same time."""
        group = self.rules[at].group
        return [at] if group is None else [index for index, rules in enumerate(self.rules) if rules.group == group]

    # --- Dispatch

    def _may_begin(self, at: int, now: float) -> bool:
        step = self.steps[at]
        ready = step.status == "PENDING" or (step.status == "FAILED_RETRY" and (step.wait_ends or 0) <= now)
        earlier_done = all(one.status == "SUCCEEDED" for one in self.steps[: self.group_of(at)[0]])
        return self.status in RUNS and ready and earlier_done

    def gated(self, at: int, now: float) -> str:
        """A guard keeps the next attempt back: half a minute, then twice as long each time, to five minutes."""
        step = self.steps[at]
        if not self._may_begin(at, now):
            return REFUSED
        if self.time_over(at, now):
            return self._failed_for_good(at, now, "TIME_EXCEEDED")
        since = now if step.gated_since is None else step.gated_since
        wait_s = min(30 + now - since, 300) * self.stretch(at, step.attempt + 1)
        self.steps[at] = replace(step, gated_since=since, gated_ends=self._capped(at, now + wait_s))
        return MOVED if step.gated_since is None else WAITED

    def attempt_recorded(self, at: int, now: float) -> str:
        step = self.steps[at]
        if not self._may_begin(at, now):
            return REFUSED
        total = self.rules[at].total
        if step.deadline is None and total is not None:
            step = self.steps[at] = replace(step, deadline=now + total)
        if self.time_over(at, now):
            return self._failed_for_good(at, now, "TIME_EXCEEDED")
        self.steps[at] = replace(
            step,
            status="INITIATED",
            attempt=step.attempt + 1,
            begun=now,
            attempt_ends=None,
            lease_ends=self._capped(at, now + self.rules[at].ack_timeout),
            backlog_since=None,
            backlog_ends=None,
            gated_since=None,
            gated_ends=None,
            wait_ends=None,
            failed_by=None,
            publish_failures=0,
        )
        return MOVED

    def lease_renewed(self, at: int, attempt: int, now: float) -> str:
        step = self.steps[at]
        if self.over or (step.status, step.attempt) != ("INITIATED", attempt):
            return UNHEARD
        if self.time_over(at, now):
            return self._failed_for_good(at, now, "TIME_EXCEEDED")
        lease_ends = self._capped(at, now + self.rules[at].ack_timeout)
        self.steps[at] = replace(step, lease_ends=lease_ends, backlog_since=None, backlog_ends=None, wait_ends=None)
        return MOVED

    def publish_failed(self, at: int, attempt: int, now: float) -> str:
        step, rules = self.steps[at], self.rules[at]
        if self.over or (step.status, step.attempt) != ("INITIATED", attempt):
            return UNHEARD
        if step.publish_failures == len(rules.dispatch_waits):
            return self._failed_for_good(at, now, "DISPATCH_FAILED")
        wait_s = rules.dispatch_waits[step.publish_failures] * self.stretch(at, attempt)
        if self.time_over(at, now + wait_s):
            return self._failed_for_good(at, now, "TIME_EXCEEDED")
        self.steps[at] = replace(
            step,
            publish_failures=step.publish_failures + 1,
            wait_ends=_micro(now + wait_s),
            lease_ends=self._capped(at, now + wait_s + rules.ack_timeout),
        )
        return MOVED

    # --- time-outs

    def deadline_passed(self, at: int, attempt: int, now: float) -> str:
        step, rules = self.steps[at], self.rules[at]
        if self.over or step.status not in IN_FLIGHT or step.attempt != attempt or step.silent_until > now:
            return UNHEARD
        if step.status == "INITIATED":
            step = replace(step, ack_failures=step.ack_failures + 1, failed_by="ACK_TIMEOUT")
            wait_s = _entry(rules.ack_waits, step.ack_failures)
        else:
            step = replace(step, execution_failures=step.execution_failures + 1, failed_by="LEASE_EXPIRED")
            wait_s = _entry(rules.execution_waits, step.execution_failures)
        self.steps[at] = step
        if self.time_over(at, now):
            return self._failed_for_good(at, now, "TIME_EXCEEDED")
        if step.attempt == rules.max_attempts:
            return self._failed_for_good(at, now, "ATTEMPTS_EXHAUSTED")
        return self._failed_for_now(at, now, wait_s)

    def time_passed(self, at: int, now: float) -> str:
        """Ends the job after its total time, in any state of the step; that of a paused job does not run."""
        if self.over or self.steps[at].status in SETTLED or self.status == "PAUSED" or not self.time_over(at, now):
            return UNHEARD
        return self._failed_for_good(at, now, "TIME_EXCEEDED")

    def lane_backlog(self, at: int, attempt: int, now: float) -> str:
        """LUCIUS's own backlog is no failure: one ACK timeout more, then twice as long each time, up to 5 minutes."""
        step, rules = self.steps[at], self.rules[at]
        if self.over or step.status not in IN_FLIGHT or step.attempt != attempt or step.silent_until > now:
            return UNHEARD
        if self.time_over(at, now) or self.status == "CANCELLING":
            return UNHEARD
        since = now if step.backlog_since is None else step.backlog_since
        ends = self._capped(at, now + min(rules.ack_timeout + now - since, 300))
        self.steps[at] = replace(step, backlog_since=since, backlog_ends=ends)
        return MOVED if step.backlog_since is None else WAITED

    # --- total times: no lease outlives them, and a wait that would is not begun

    def time_over(self, at: int, instant: float) -> bool:
        instant = _micro(instant)
        return any(cap is not None and instant >= cap for cap in (self.steps[at].deadline, self.deadline))

    def _capped(self, at: int, instant: float) -> float:
        caps = [cap for cap in (self.steps[at].deadline, self.deadline) if cap is not None]
        return _micro(min([instant, *caps]))

    def _running(self, at: int, now: float) -> float:
        """The end of a lease that begins now: no lease outlives the attempt's longest time either."""
        lease_ends, over = self._capped(at, now + self.rules[at].running_lease), self.steps[at].attempt_ends
        return lease_ends if over is None else min(lease_ends, over)

    def _attempt_over(self, step: ModelStep, now: float) -> bool:
        return step.attempt_ends is not None and now >= step.attempt_ends

    # --- replies

    def replied(
        self, at: int | None, kind: str, now: float, *, mine: bool, result: str | None = None, goes_on: bool = False
    ) -> str:
        """`mine`: of the step's current attempt and lease; `at` None: of another tenant, or no such step.

        `goes_on`: a step that follows alone begins with the success of the one before.
        """
        if at is None:
            return REFUSED
        if not mine or self.over:
            return self._late()
        step = self.steps[at]
        if step.status in ("PENDING", *SETTLED):
            return self._late()
        revived = step.status == "FAILED_RETRY"
        if revived:
            # only finished work is still taken while the job is PAUSED, or when the attempt's longest time is over
            finished_only = self.status == "PAUSED" or self._attempt_over(step, now)
            if step.failed_by == "RESULT" or (finished_only and kind != "RESULT"):
                return self._late()
            # it had not failed after all, and no next attempt waits for a guard
            step = replace(step, gated_since=None, gated_ends=None)
            if step.failed_by == "ACK_TIMEOUT":
                step = replace(step, ack_failures=step.ack_failures - 1)
            else:
                step = replace(step, execution_failures=step.execution_failures - 1)
        if kind == "RESULT":
            self.steps[at] = step
            self._picked_up()
            outcome = self._result(at, now, result)
            return WENT_ON if goes_on and self._goes_on(at, now) else outcome
        if step.status == "PROCESSING":
            if kind == "ACK" or self.status == "CANCELLING":
                return self._late()
            begun = (step.lease_ends or 0) - self.rules[at].running_lease
            no_longer = self._running(at, now) == step.lease_ends or self._attempt_over(step, now)
            if no_longer or _micro(now - begun) < self.rules[at].heartbeat_every:
                return UNHEARD
        else:
            self._picked_up()
            if step.attempt_ends is None:
                # its first sign of life; no later one moves it
                step = self.steps[at] = replace(step, attempt_ends=later(self.rules[at].attempt_max, now))
        self.steps[at] = replace(
            step,
            status="PROCESSING",
            lease_ends=self._running(at, now),
            backlog_since=None,
            backlog_ends=None,
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
        self.steps[at] = replace(step, status="SUCCEEDED", lease_ends=None, wait_ends=None, failed_by=None)
        if self.status != "CANCELLING" and all(one.status == "SUCCEEDED" for one in self.steps):
            self._ended("SUCCEEDED")
        else:
            self._attempt_is_over(now)
        return MOVED

    def _goes_on(self, at: int, now: float) -> bool:
        """Returns whether the next step began: it runs alone, the job has no stop request, and there is time left.

        Not if the step has its own total time.
        """
        following = self.group_of(at)[-1] + 1
        if following == len(self.steps) or self.rules[following].group is not None:
            return False
        if self.rules[following].total is not None:
            return False
        if not self._may_begin(following, now) or self.time_over(following, now):
            return False
        return self.attempt_recorded(following, now) == MOVED

    def _picked_up(self) -> None:
        self.acked = True
        if self.status == "QUEUED":
            self.status = "IN_PROGRESS"

    def _late(self) -> str:
        self.ignored += 1
        return IGNORED if self.ignored <= RECORDED_REPLIES else UNHEARD

    # --- the effect of an attempt's end

    def _attempt_is_over(self, now: float) -> None:
        """Ends an attempt.

        A job with a stop request stops with the last attempt in flight; drained means no sibling either.
        """
        if self.draining:
            return
        if self.status == "CANCELLING":
            self._cancelled()
        elif self.status == "PAUSING":
            self._parked(now)

    def _failed_for_now(self, at: int, now: float, wait_s: float) -> str:
        # the total time of a paused job does not run
        wait_ends = (now if self.paused_since is None else self.paused_since) + wait_s * self.stretch(
            at, self.steps[at].attempt
        )
        if self.time_over(at, wait_ends):
            return self._failed_for_good(at, now, "TIME_EXCEEDED")
        self.steps[at] = replace(self.steps[at], status="FAILED_RETRY", wait_ends=_micro(wait_ends), lease_ends=None)
        self._attempt_is_over(now)
        return MOVED

    def _failed_for_good(self, at: int, now: float, error: str) -> str:
        self.steps[at] = replace(self.steps[at], status="FAILED_FINAL", wait_ends=None, lease_ends=None, failed_by=None)
        if self.status == "CANCELLING":
            self._attempt_is_over(now)
        else:
            self.error = error
            self._abandoned()
            self._ended("FAILED_FINAL")
        return MOVED

    def _abandoned(self) -> None:
        """Siblings on their way end with the job; later steps stay PENDING."""
        on_their_way = (*IN_FLIGHT, "FAILED_RETRY")
        self.steps = [replace(one, status="CANCELLED") if one.status in on_their_way else one for one in self.steps]

    def _parked(self, now: float) -> None:
        self.status, self.paused_since = "PAUSED", now
        self.park_no += 1

    def _cancelled(self) -> None:
        self.steps = [step if step.status in SETTLED else replace(step, status="CANCELLED") for step in self.steps]
        self._ended("CANCELLED")

    def _ended(self, status: str) -> None:
        self.status, self.paused_since = status, None


def _entry(waits: tuple[float, ...], failures: int) -> float:
    """Entry k, the last one repeating."""
    return waits[min(failures, len(waits)) - 1]


def later(instant: float | None, by: float) -> float | None:
    return None if instant is None else _micro(instant + by)


def _micro(seconds: float) -> float:
    """The ledger keeps no finer instants."""
    return round(seconds, 6)
