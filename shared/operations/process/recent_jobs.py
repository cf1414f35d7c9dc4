"""What this process committed last of each job: decided on again without a read, under its ETag (R1).

It may be behind, for other processes commit too. So nothing is answered from it: a transition is tried on it, and the
ledger refuses its ETag where it is behind (Race recent); whatever else comes of it is decided on a fresh read.
"""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from weakref import WeakValueDictionary

from shared.core.jobs.job import Record
from shared.operations.process.waiters import Tails
from shared.ports.ledger import Stored

#: a reply follows the ACK of its attempt within it, as a rule; later a refused write is likelier than a saved read
KEPT_FOR = timedelta(seconds=60)
#: of all that is kept, in characters: a job's payloads may have a mebibyte
MAX_CHARACTERS = 32_000_000
#: of a row without payload, result and progress, about
ROW_CHARACTERS = 2_000


class RecentJobs:
    """The jobs that one process committed within the last minute, and the callers that wait for them."""

    def __init__(self) -> None:
        #: by job id, the oldest first: what was committed, when, and its size
        self._kept: dict[str, tuple[Stored, datetime, int]] = {}
        self._characters = 0
        #: while a caller holds them
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        #: by job id, the ends of their histories (R82)
        self.tails = Tails()

    def recall(self, job_id: str, now: datetime) -> Stored | None:
        """Returns what this process last committed of the job. None: nothing within a minute."""
        kept = self._kept.get(job_id)
        return kept[0] if kept is not None and now - kept[1] < KEPT_FOR else None

    def note(self, stored: Stored, now: datetime) -> None:
        """Keeps `stored`, which was committed, unless the job has ended, and wakes the callers that wait for
        the job.
        """
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
        """Discards the job, since the kept one may be outdated."""
        if (kept := self._kept.pop(job_id, None)) is not None:
            self._characters -= kept[2]

    def alone(self, job_id: str) -> asyncio.Lock:
        """Holds the job for one decision, so that concurrent replies make no conflict within a process."""
        return self._locks.setdefault(job_id, asyncio.Lock())


def _size(record: Record) -> int:
    """Estimates the record's characters, by the columns that may be large: a `repr` of every column takes longer."""
    large = [(step.payload, step.result, step.progress) for step in record.steps]
    return ROW_CHARACTERS * (1 + len(large)) + len(repr(large))
