"""The last commit of this process for each job. The next decision uses this commit without a read, under its ETag (R1).

That commit may be outdated, since other processes commit too. So no response uses it. A transition is tried on it, and
the ledger refuses an outdated ETag (Race recent). Every other outcome is decided on a fresh read.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from shared.core.jobs.job import Record
from shared.operations.process.waiters import Tails
from shared.ports.ledger import Stored

#: maximum age. An attempt's replies usually come within this time after its ACK; later, a refused write is more
#: likely than a saved read
KEPT_FOR = timedelta(seconds=60)
#: maximum characters of all remembered jobs; the payloads of one can have a mebibyte
MAX_CHARACTERS = 32_000_000
#: approximate characters of a row without payload, result and progress
ROW_CHARACTERS = 2_000


class RecentJobs:
    """The jobs that one process committed within the last minute, and the callers that wait for them."""

    def __init__(self) -> None:
        #: commit, time and size by job id, the oldest first
        self._kept: dict[str, tuple[Stored, datetime, int]] = {}
        self._characters = 0
        #: locks of jobs, while a caller holds them
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        #: ends of histories by job id (R82)
        self.tails = Tails()

    def recall(self, job_id: str, now: datetime) -> Stored | None:
        """Returns the last commit of this process for the job. Returns None if the process committed nothing for the
        job within a minute.
        """
        kept = self._kept.get(job_id)
        return kept[0] if kept is not None and now - kept[1] < KEPT_FOR else None

    def note(self, stored: Stored, now: datetime) -> None:
        """Remembers the committed `stored`, unless the job has ended, and wakes callers that wait for the job."""
        job = stored.record.job
        self.forget(job.job_id)
        self.tails.grew(job.job_id, job.event_seq, ended=job.status.terminal)
        if job.status.terminal:
            return
        size = _size(stored.record)
        self._kept[job.job_id] = (stored, now, size)
        self._characters += size
        while self._kept:
            oldest, (_, at, _) = next(iter(self._kept.items()))
            if self._characters <= MAX_CHARACTERS and now - at < KEPT_FOR:
                break
            self.forget(oldest)

    def forget(self, job_id: str) -> None:
        """Forgets the job, since its remembered state may be outdated."""
        if (kept := self._kept.pop(job_id, None)) is not None:
            self._characters -= kept[2]

    def alone(self, job_id: str) -> asyncio.Lock:
        """Returns a lock for one decision on the job, so that concurrent replies in a process do not conflict."""
        return self._locks.setdefault(job_id, asyncio.Lock())


def _size(record: Record) -> int:
    """Returns the approximate number of characters of the record, from the columns that may be large, since `repr` of
    every column is slower.
    """
    large = [(step.payload, step.result, step.progress) for step in record.steps]
    return ROW_CHARACTERS * (1 + len(large)) + len(repr(large))
