"""Reports the waits and stalls of instances, for the log, the page and `/admin/emulator/stalls`."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from functions_emulator.durable.clock import parse_stamp, stamp
from functions_emulator.durable.events import Instance
from functions_emulator.durable.replay import Outcome

_LOG = logging.getLogger("functions_emulator.durable")


@dataclass(frozen=True, slots=True)
class StallReport:
    """One stall. `over_at` is the time when the instance continued or ended, or `None` while the instance hangs."""

    instance_id: str
    name: str
    for_ever: bool
    reason: str
    seen_at: datetime
    over_at: datetime | None = None


class Reports:
    """The waits and the stalls of the instances of one engine."""

    def __init__(self) -> None:
        self._open: dict[str, StallReport] = {}
        self._over: list[StallReport] = []
        self._waiting: dict[str, tuple[str, ...]] = {}

    def note(self, instance_id: str) -> str:
        """Returns the facts about an instance as JSON text, for `restore` in the next process."""
        note: dict[str, object] = {"waits": self.waiting_for(instance_id)}
        stall = self._open.get(instance_id)
        if stall is not None:
            note["stall"] = {"for_ever": stall.for_ever, "reason": stall.reason, "seen_at": stamp(stall.seen_at)}
        return json.dumps(note)

    def restore(self, instance_id: str, name: str, note: str) -> None:
        """Reads the note of the previous process."""
        fields = json.loads(note)
        self._waiting[instance_id] = tuple(fields["waits"])
        if stall := fields.get("stall"):
            seen_at = parse_stamp(stall["seen_at"])
            self._open[instance_id] = StallReport(instance_id, name, stall["for_ever"], stall["reason"], seen_at)

    def update(self, instance: Instance, outcome: Outcome, now: datetime) -> StallReport | None:
        """Records the outcome of an episode. Returns its stall if the stall is new."""
        self._waiting[instance.instance_id] = outcome.waiting_for
        before = self._open.get(instance.instance_id)
        if outcome.stall is None:
            self.forget(instance.instance_id, now, keep_waiting=True)
            return None
        if before is not None and before.reason == outcome.stall.reason:
            return None
        self.forget(instance.instance_id, now, keep_waiting=True)
        report = StallReport(instance.instance_id, instance.name, outcome.stall.for_ever, outcome.stall.reason, now)
        self._open[instance.instance_id] = report
        return report

    def forget(self, instance_id: str, now: datetime, *, keep_waiting: bool = False) -> None:
        """Ends the stall of an instance. Deletes its waits, unless `keep_waiting` is `True`."""
        report = self._open.pop(instance_id, None)
        if report is not None:
            self._over.append(replace(report, over_at=now))
        if not keep_waiting:
            self._waiting.pop(instance_id, None)

    def waiting_for(self, instance_id: str) -> tuple[str, ...]:
        """Returns the waits of an instance at the end of its last episode, as texts."""
        return self._waiting.get(instance_id, ())

    @property
    def stalls(self) -> Sequence[StallReport]:
        """Returns the stalls that continue, and the stalls that ended since the start of this process. The oldest stall
        is first.
        """
        return sorted([*self._over, *self._open.values()], key=lambda report: report.seen_at)


def log_stall(report: StallReport) -> None:
    """Writes one error line."""
    _LOG.error(
        "STALL: orchestration %s (%s) %s: %s",
        report.instance_id,
        report.name,
        "never ends" if report.for_ever else "is delayed",
        report.reason,
    )
