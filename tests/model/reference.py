"""The rules of docs/contributing/rules.md in plain values: the model that the core is compared with.

It is written from the text, not from the code: it has no tables, rows or events, and imports nothing of the product.
Times are seconds since the job began. `stretch` gives the jitter of a wait, by step and attempt.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.model.attempts import MOVED, REFUSED, RUNS, SETTLED, UNHEARD, Attempts, later

RESTARTS = 5


@dataclass
class Model(Attempts):
    """One job, with the effects of operators, its quotas, other jobs and the sweeper."""

    restarts: int = 0
    #: number of instances that ended before the job did
    failures: int = 0
    redriven_by: str | None = None

    # --- controls

    def cancel(self, now: float) -> str:
        if self.status in ("CANCELLING", "CANCELLED"):
            return UNHEARD
        if self.over:
            return REFUSED
        # no service has a directive that the bus did not accept
        sent = any(
            one.status == "PROCESSING" or (one.status == "INITIATED" and one.wait_ends is None) for one in self.steps
        )
        if sent:
            self.status = "CANCELLING"
        else:
            self._cancelled()
        return MOVED

    def pause(self, now: float) -> str:
        if self.status in ("PAUSING", "PAUSED"):
            return UNHEARD
        if self.status not in (*RUNS, "THROTTLED", "WAITING_FOR_JOBS"):
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
        if self.staged:
            self.status = "WAITING_FOR_JOBS" if self.dependent else "THROTTLED"
        else:
            self.status = "IN_PROGRESS" if self.acked else "QUEUED"
        if self.paused_since is not None:
            stood_still = now - self.paused_since
            self.deadline = later(self.deadline, stood_still)
            self.steps = [
                step
                if step.status in SETTLED
                else replace(
                    step, wait_ends=later(step.wait_ends, stood_still), deadline=later(step.deadline, stood_still)
                )
                for step in self.steps
            ]
            self.paused_since = None
        return MOVED

    def admitted(self, now: float, park_no: int) -> str:
        """Its quotas admit it; a job that does not wait, or was paused since, ignores this."""
        if self.status != "THROTTLED" or self.park_no != park_no:
            return UNHEARD
        self.status, self.staged = "QUEUED", False
        self.deadline = later(self.total, now)
        return MOVED

    def awaits(self) -> str:
        """Another job waits for its end, and is notified once it has ended."""
        if self.over or self.awaited:
            return UNHEARD
        self.awaited = True
        return MOVED

    def dependencies_settled(self) -> str:
        """Moves the job to its quotas."""
        if self.status != "WAITING_FOR_JOBS":
            return UNHEARD
        self.status, self.dependent = "THROTTLED", False
        return MOVED

    def dependency_failed(self) -> str:
        if self.status != "WAITING_FOR_JOBS":
            return UNHEARD
        self.error = "DEPENDENCY_FAILED"
        self._ended("FAILED_FINAL")
        return MOVED

    def priority_changed(self, priority: str) -> str:
        """Moves the job in its queue; a job that does not wait refuses it."""
        if self.over or not self.staged:
            return REFUSED
        if self.priority == priority:
            return UNHEARD
        self.priority = priority
        return MOVED

    def expired(self, now: float) -> str:
        """It had not begun in time."""
        if self.over:
            return UNHEARD
        if not self.staged or self.expires is None or now < self.expires:
            return REFUSED
        self.error = "TIME_EXCEEDED"
        self._ended("FAILED_FINAL")
        return MOVED

    # --- the sweeper

    def orchestration_ended(self, restarts: int, *, silent: bool) -> str:
        """Handles the end of the instance that was started `restarts` times; `silent`: it receives no events."""
        if restarts != self.restarts:
            return UNHEARD
        if self.over or self.staged:
            # a job that was never admitted has none
            return REFUSED
        if silent or self.failures < RESTARTS:
            self.restarts += 1
            self.failures += not silent
        elif self.status == "CANCELLING":
            self._cancelled()
        else:
            self.error = "ORCHESTRATION_FAILED"
            self._abandoned()
            self._ended("FAILED_FINAL")
        return MOVED

    def redriven(self, by: str) -> str:
        """An ended job learns once which job took its place; one that succeeded needs none."""
        if not self.over or self.status == "SUCCEEDED" or self.redriven_by not in (None, by):
            return REFUSED
        if self.redriven_by == by:
            return UNHEARD
        self.redriven_by = by
        return MOVED

    def repaired(self) -> str:
        return MOVED
