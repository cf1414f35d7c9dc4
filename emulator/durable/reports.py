"""Stalls seen so far, for the log, the admin query and the tests that fail on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from .events import Instance
from .replay import Outcome


@dataclass(frozen=True, slots=True)
class StallReport:
    """`over_at`: the instance has gone on since; `None`: it still hangs."""

    instance_id: str
    name: str
    for_ever: bool
    reason: str
    seen_at: datetime
    over_at: datetime | None = None


class Reports:
    def __init__(self) -> None:
        self._open: dict[str, StallReport] = {}
        self._over: list[StallReport] = []
        self._waiting: dict[str, tuple[str, ...]] = {}

    def update(self, instance: Instance, outcome: Outcome, now: datetime) -> bool:
        """Takes note of an episode; true if it shows a stall that was not known."""
        self._waiting[instance.instance_id] = outcome.waiting_for
        before = self._open.get(instance.instance_id)
        if outcome.stall is None:
            self.forget(instance.instance_id, now, keep_waiting=True)
            return False
        if before is not None and before.reason == outcome.stall.reason:
            return False
        self.forget(instance.instance_id, now, keep_waiting=True)
        self._open[instance.instance_id] = StallReport(
            instance.instance_id, instance.name, outcome.stall.for_ever, outcome.stall.reason, now
        )
        return True

    def forget(self, instance_id: str, now: datetime, *, keep_waiting: bool = False) -> None:
        """The instance has gone on, or is no more."""
        report = self._open.pop(instance_id, None)
        if report is not None:
            self._over.append(replace(report, over_at=now))
        if not keep_waiting:
            self._waiting.pop(instance_id, None)

    def waiting_for(self, instance_id: str) -> tuple[str, ...]:
        """What an instance waited for at the end of its last episode in this process."""
        return self._waiting.get(instance_id, ())

    @property
    def stalls(self) -> Sequence[StallReport]:
        """All since the start, oldest first; those that are over too."""
        return sorted([*self._over, *self._open.values()], key=lambda report: report.seen_at)
