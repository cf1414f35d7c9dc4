"""Rows at which work of this process fails: which faults last, and which of them an incident has already."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.errors import (
    AlreadyExists,
    Conflict,
    Contended,
    InstanceEnded,
    InstanceNotFound,
    Transient,
)
from shared.refusals import Refused

#: work that fails at the same row for this long fails at it again
LASTS_AFTER = timedelta(hours=1)
#: failures with a longer time between them are apart
_IN_A_ROW = timedelta(minutes=10)
#: minimum time between two writes of one row's incident
_NOTED_EVERY = timedelta(minutes=30)
#: rows that this process reports in `LASTS_AFTER`: a defect at which every row fails opens no more incidents
MAX_REPORTED = 50
#: rows of which the first failure is remembered
_MAX_FAILING = 10_000
#: of races (another sweep archived the job) and of connections: the next try may go through
_MAY_PASS = (Contended, Conflict, AlreadyExists, InstanceEnded, InstanceNotFound, Refused, OSError)


class RowFaults:
    """The rows of one process, by key."""

    def __init__(self) -> None:
        #: of faults that may pass: since when the work at a row has failed, and when it failed last
        self._failing: dict[str, tuple[datetime, datetime]] = {}
        #: when an incident was written last
        self._reported: dict[str, datetime] = {}

    def lasts(self, row: str, fault: Exception, now: datetime) -> bool:
        """Returns whether the next try at the row fails too: by the kind of fault, or after an hour of failures.

        A dependency that does not answer says nothing about a row, however long it does not answer.
        """
        if not isinstance(fault, (Transient, *_MAY_PASS)):
            return True
        if not isinstance(fault, _MAY_PASS):
            return False
        return self.note_failure(row, now) >= LASTS_AFTER

    def note_failure(self, row: str, now: datetime) -> timedelta:
        """Returns for how long the work at the row has failed, with this failure and without a success between."""
        if len(self._failing) >= _MAX_FAILING:
            self._failing.clear()
        since, last = self._failing.get(row, (now, now))
        if now - last > _IN_A_ROW:
            since = now
        self._failing[row] = (since, now)
        return now - since

    def note_success(self, row: str) -> None:
        """Records that the work at the row succeeded."""
        self._failing.pop(row, None)
        self._reported.pop(row, None)

    def may_report(self, row: str, now: datetime) -> bool:
        """Returns whether the row's incident is to be written now; the caller then writes it."""
        self._reported = {each: at for each, at in self._reported.items() if now - at < LASTS_AFTER}
        last = self._reported.get(row)
        if last is None and len(self._reported) >= MAX_REPORTED:
            return False
        if last is not None and now - last < _NOTED_EVERY:
            return False
        self._reported[row] = now
        return True

    def forget_report(self, row: str) -> None:
        """Discards the record that the incident was written, since it was not."""
        self._reported.pop(row, None)
