"""Counts usage of tenants in memory, so that not every job causes a write (R68).

Counts of refused requests are written once a minute, a source once an hour, and a peak when it rises. A process that
dies loses unwritten counts, so the numbers of refused requests are approximate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta

from shared import telemetry
from shared.core.jobs.job import Job
from shared.core.jobs.routing import normalise
from shared.core.usage import Group, group_in, highest, hour_of
from shared.errors import LuciusError
from shared.ports.usage import SeenSource, Usage

#: minimum time between two writes of refused requests
_WRITTEN_EVERY = timedelta(minutes=1)
#: maximum remembered sources, and maximum tenants with peaks; above a maximum, all of its kind are dropped
_MAX_KEPT = 10_000


class UsageBuffer:
    """The counts of one process. A method that writes logs a fault and raises no error of LUCIUS."""

    def __init__(self) -> None:
        self._refused: dict[tuple[str, datetime], Counter[Group]] = {}
        self._written_at: datetime | None = None
        #: hour of the write by (tenant, source); source None if the tenant has no room for other sources
        self._seen: dict[tuple[str, str | None], datetime] = {}
        #: last written peaks by tenant
        self._peaks: dict[str, tuple[datetime, dict[tuple[str, str], int]]] = {}

    def refuse(self, job: Job, now: datetime) -> None:
        """Counts the creation of a job that a limit refused."""
        counts = self._refused.setdefault((job.tenant, hour_of(now)), Counter())
        counts[group_in(counts, (job.request_type, normalise(job.source or "")))] += 1

    async def write_refused(self, usage: Usage, now: datetime) -> None:
        """Writes the counts of refused requests, once a minute, in the next request or sweep."""
        last = self._written_at
        if not self._refused or (last is not None and now - last < _WRITTEN_EVERY):
            return
        refused, self._refused, self._written_at = self._refused, {}, now
        for (tenant, hour), counts in refused.items():
            try:
                await usage.add_refused(tenant, hour, counts)
            except LuciusError as fault:
                _log(fault, tenant)
                # after a lost response the counts are dropped, since an approximate count should be too low rather than
                # too high

    async def see(self, usage: Usage, job: Job, now: datetime) -> None:
        """Writes the source of a new job, at most once in each hour for each source."""
        source, hour = normalise(job.source or ""), hour_of(now)
        known = (self._seen.get((job.tenant, source)), self._seen.get((job.tenant, None)))
        if not source or hour in known:
            return
        if len(self._seen) >= _MAX_KEPT:
            self._seen.clear()
        # set first, so that concurrent jobs do not repeat the write
        self._seen[job.tenant, source] = hour
        seen = SeenSource(name=source, first_job=job.job_id, first_at=job.created_at, last_job=job.job_id, last_at=hour)
        try:
            if not await usage.see_source(job.tenant, seen):
                self._seen[job.tenant, None] = hour
        except LuciusError as fault:
            self._seen.pop((job.tenant, source), None)
            _log(fault, job.tenant)

    async def raise_peaks(
        self, usage: Usage, tenant: str, inside: Mapping[tuple[str, str], int], now: datetime
    ) -> None:
        """Writes the numbers in `inside` that are the highest of this hour.

        `inside`: active jobs in total, by job type and by source (`shared.core.usage.inside_by`).
        """
        hour = hour_of(now)
        known_hour, known = self._peaks.get(tenant, (hour, {}))
        if known_hour != hour:
            known = {}
        if all(count <= known.get(key, 0) for key, count in inside.items()):
            return
        try:
            if not known:
                # another process may have started the hour
                known = dict(next((each.peaks for each in await usage.hours(tenant, hour, now + _HOUR)), {}))
            peaks = highest(known, inside)
            if peaks != known:
                await usage.put_peaks(tenant, hour, peaks)
            if len(self._peaks) >= _MAX_KEPT:
                # the peaks of this hour are read again
                self._peaks.clear()
            self._peaks[tenant] = (hour, peaks)
        except LuciusError as fault:
            _log(fault, tenant)


_HOUR = timedelta(hours=1)


def _log(fault: LuciusError, tenant: str) -> None:
    telemetry.record_fault(fault, "USAGE_UNWRITTEN", tenant_id=tenant)
