"""Clears the durable histories of earlier ended jobs when a job ends (R21).

The function that ends a job cannot purge its orchestrations, since they are still running. An engine that gets the
request before the instance has ended refuses the request, or deletes a running instance. So each process remembers the
jobs that it ended. When the next job of the same tenant ends, the process clears up to two jobs that ended at least ten
seconds before.

The transaction of the following ended job moves the ENDED rows of the cleared jobs. An hour after a job ended, the
sweeper clears it if its process died or if it was one of the tenant's last ended jobs.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.jobs.job import Record
from shared.core.jobs.recovery import instances
from shared.errors import LuciusError
from shared.ports.durable import Orchestrations
from shared.ports.feed import Feed
from shared.ports.index import Clearing, EndedRow, first_clearing
from shared.time_limits import time_limit

#: age at which the orchestration of an ended job has received the end and has ended
RIPE_AFTER = timedelta(seconds=10)
#: maximum jobs that one end clears; more than one, so that few are kept
MAX_CLEARED = 2
#: rows that one transaction moves in addition to its own, out of 100 operations
MAX_RESCHEDULED = 10
#: maximum ends of one tenant in one process
_MAX_KEPT = 100
#: maximum tenants of one process; the sweeper clears the ends of the others
MAX_TENANTS = 1_000
#: maximum seconds for clearing one job, since the process that ends a job waits for it
_CLEARING_S = 3.0


@dataclass(frozen=True)
class Ended:
    """An ended job whose orchestrations must be purged, with its ENDED row."""

    row: EndedRow
    ended_at: datetime
    instances: tuple[str, ...]
    claim_ends: datetime
    #: number of its last EVENT row
    seq: int


class RecentEnds:
    """The ended jobs of this process that are not cleared yet, by tenant."""

    def __init__(self) -> None:
        self._kept: dict[str, deque[Ended]] = {}
        #: ends whose histories are purged and whose rows do not record this yet
        self._purged: defaultdict[str, list[Clearing]] = defaultdict(list)

    def take_purged(self, tenant: str) -> list[Clearing]:
        """Returns and forgets at most `MAX_RESCHEDULED` (10) purged jobs, whose ENDED rows the tenant's next index
        transaction moves.
        """
        purged = self._purged.pop(tenant, [])
        if len(purged) > MAX_RESCHEDULED:
            self._purged[tenant] = purged[MAX_RESCHEDULED:]
        return purged[:MAX_RESCHEDULED]

    async def clear_and_note(
        self,
        orchestrations: Orchestrations,
        record: Record,
        *,
        claim_ends: datetime,
        now: datetime,
        feed: Feed | None = None,
    ) -> None:
        """Clears jobs of the tenant that ended earlier, and adds the closed job of `record`. `claim_ends`: time when
        that job's idempotency record expires. Raises no error of a port.

        The sweeper clears a redrive, and a job whose last event is not in the `feed`, because the sweeper checks the
        feed (R73).
        """
        job = record.job
        for ended in self._take(job.tenant, now):
            # the sweeper clears it
            with telemetry.tolerate(LuciusError):
                async with time_limit(_CLEARING_S):
                    if feed is not None and await feed.read_seen(job.tenant, ended.row.job_id) < ended.seq:
                        continue
                    if all([await orchestrations.purge(instance_id) for instance_id in ended.instances]):
                        later = max(ended.claim_ends, ended.row.clear_at)
                        self._purged[job.tenant].append(Clearing(ended.row, later))
        if feed is not None and job.redrive_of is not None:
            return
        ended_at = job.completed_at or job.updated_at
        self._note(Ended(first_clearing(job), ended_at, tuple(instances(record)), claim_ends, job.event_seq))

    def _note(self, ended: Ended) -> None:
        tenant = ended.row.tenant
        # makes it the last tenant; the first one is dropped
        kept = self._kept.pop(tenant, None) or deque(maxlen=_MAX_KEPT)
        self._kept[tenant] = kept
        if ended not in kept:
            kept.append(ended)
        if len(self._kept) > MAX_TENANTS:
            oldest = next(iter(self._kept))
            del self._kept[oldest]
            self._purged.pop(oldest, None)

    def _take(self, tenant: str, now: datetime) -> list[Ended]:
        """Returns and forgets at most `MAX_CLEARED` (2) jobs that ended at least ten seconds ago, the oldest first."""
        kept = self._kept.get(tenant)
        taken: list[Ended] = []
        while kept and len(taken) < MAX_CLEARED and kept[0].ended_at + RIPE_AFTER <= now:
            taken.append(kept.popleft())
        return taken
