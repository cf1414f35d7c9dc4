"""The failures of this process's work at rows, and the rows whose incidents this process wrote."""

from __future__ import annotations

from datetime import datetime, timedelta

from shared.archive_refusals import ArchiveGone, ArchiveInvalid
from shared.errors import (
    AlreadyExists,
    Conflict,
    Contended,
    InstanceEnded,
    InstanceNotFound,
    Transient,
)
from shared.refusals import Refused

#: time of repeated failures after which the next try is expected to fail too
LASTS_AFTER = timedelta(hours=1)
#: maximum time between two failures in a row
_IN_A_ROW = timedelta(minutes=10)
#: minimum time between two writes of one row's incident
_NOTED_EVERY = timedelta(minutes=30)
#: maximum rows that this process reports within `LASTS_AFTER`, so that a defect at every row opens no more incidents
MAX_REPORTED = 50
#: maximum rows whose first failure is remembered
_MAX_FAILING = 10_000
#: faults of races (another sweep archived the job) and of connections, after which the next try may succeed
_MAY_PASS = (Contended, Conflict, AlreadyExists, InstanceEnded, InstanceNotFound, Refused, OSError)
#: refusals that last until an operator restores a blob
_LASTING = (ArchiveGone, ArchiveInvalid)


class RowFaults:
    """The failing rows of one process, by key."""

    def __init__(self) -> None:
        #: first and last failure of work at a row, for faults that may pass
        self._failing: dict[str, tuple[datetime, datetime]] = {}
        #: time of the last write of a row's incident
        self._reported: dict[str, datetime] = {}

    def lasts(self, row: str, fault: Exception, now: datetime) -> bool:
        """Returns `True` for a permanent fault, and for a fault that can pass but has recurred at the row for an hour.
        Records faults that can pass.

        Returns `False` for an outage of a dependency.
        """
        if isinstance(fault, _LASTING) or not isinstance(fault, (Transient, *_MAY_PASS)):
            return True
        if not isinstance(fault, _MAY_PASS):
            return False
        return self.note_failure(row, now) >= LASTS_AFTER

    def note_failure(self, row: str, now: datetime) -> timedelta:
        """Records a failure of an operation on the row. Returns the time since the first of these failures in a row."""
        if len(self._failing) >= _MAX_FAILING:
            self._failing.clear()
        since, last = self._failing.get(row, (now, now))
        if now - last > _IN_A_ROW:
            since = now
        self._failing[row] = (since, now)
        return now - since

    def note_success(self, row: str) -> None:
        """Records that an operation on the row succeeded."""
        self._failing.pop(row, None)
        self._reported.pop(row, None)

    def may_report(self, row: str, now: datetime) -> bool:
        """Returns `True` if the caller must write the row's incident now, and records this report."""
        self._reported = {each: at for each, at in self._reported.items() if now - at < LASTS_AFTER}
        last = self._reported.get(row)
        if last is None and len(self._reported) >= MAX_REPORTED:
            return False
        if last is not None and now - last < _NOTED_EVERY:
            return False
        self._reported[row] = now
        return True

    def forget_report(self, row: str) -> None:
        """Allows the next report of the row, because the write of its incident failed."""
        self._reported.pop(row, None)
