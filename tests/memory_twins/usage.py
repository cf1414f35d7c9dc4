"""`Usage` in this process: for tests and for a stack without Azurite."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import replace
from datetime import datetime

from shared.adapters.tables.keys import fold_again_row, source_row
from shared.core.usage import Counted, Group, HourUsage, group_in, hour_of
from shared.ports.usage import MAX_SOURCES, Folding, FoldPosition, SeenSource


class MemoryUsage:
    """See `shared.ports.usage.Usage`."""

    def __init__(self) -> None:
        self._hours: dict[tuple[str, datetime], HourUsage] = {}
        self._folding: dict[tuple[str, datetime], Folding] = {}
        self._again: dict[str, tuple[datetime, str]] = {}
        self._positions: dict[int, FoldPosition] = {}
        self._sources: dict[str, dict[str, SeenSource]] = {}

    async def hours(self, tenant: str, first: datetime, end: datetime) -> list[HourUsage]:
        found = (each for (owner, _), each in self._hours.items() if owner == tenant)
        within = (each for each in found if hour_of(first) <= each.hour < hour_of(end))
        return sorted(within, key=lambda each: each.hour)

    async def put_jobs(self, tenant: str, hour: datetime, jobs: Mapping[Group, Counted]) -> None:
        self._hours[tenant, hour] = replace(self._hour(tenant, hour), jobs=deepcopy(dict(jobs)), folded=True)

    async def put_peaks(self, tenant: str, hour: datetime, peaks: Mapping[tuple[str, str], int]) -> None:
        self._hours[tenant, hour] = replace(self._hour(tenant, hour), peaks=dict(peaks))

    async def add_refused(self, tenant: str, hour: datetime, refused: Mapping[Group, int]) -> None:
        known = dict(self._hour(tenant, hour).refused)
        for group, count in refused.items():
            key = group_in(known, group)
            known[key] = known.get(key, 0) + count
        self._hours[tenant, hour] = replace(self._hour(tenant, hour), refused=known)

    async def read_folding(self, tenant: str, hour: datetime) -> Folding:
        return deepcopy(self._folding.get((tenant, hour), Folding()))

    async def write_folding(self, tenant: str, hour: datetime, folding: Folding | None) -> None:
        self._folding.pop((tenant, hour), None)
        if folding is not None:
            self._folding[tenant, hour] = deepcopy(folding)

    async def remove_before(self, tenant: str, hour: datetime, *, limit: int) -> None:
        old = sorted(key for key in self._hours if key[0] == tenant and key[1] < hour)
        for key in old[:limit]:
            del self._hours[key]

    async def fold_again(self, tenant: str, hour: datetime) -> None:
        self._again[fold_again_row(hour, tenant)] = (hour, tenant)

    async def to_fold_again(self, before: datetime, *, after: str, limit: int) -> list[tuple[datetime, str, str]]:
        end = fold_again_row(before, "")
        return [(*each, row) for row, each in sorted(self._again.items()) if after < row < end][:limit]

    async def folded_again(self, tenant: str, hour: datetime) -> None:
        self._again.pop(fold_again_row(hour, tenant), None)

    async def read_position(self, share: int) -> FoldPosition:
        return self._positions.get(share, FoldPosition())

    async def write_position(self, share: int, position: FoldPosition) -> None:
        self._positions[share] = position

    async def see_source(self, tenant: str, source: SeenSource) -> bool:
        known, key = self._sources.setdefault(tenant, {}), source_row(source.name)
        if key in known:
            known[key] = replace(known[key], last_job=source.last_job, last_at=source.last_at)
            return True
        if len(known) >= MAX_SOURCES:
            oldest = min(known, key=lambda row: (known[row].last_at, row))
            if known[oldest].last_at >= source.last_at:
                return False
            del known[oldest]
        known[key] = replace(source, cursor=key)
        return True

    async def sources(self, tenant: str, *, after: str, limit: int) -> list[SeenSource]:
        return [each for row, each in sorted(self._sources.get(tenant, {}).items()) if row > after][:limit]

    def _hour(self, tenant: str, hour: datetime) -> HourUsage:
        return self._hours.get((tenant, hour)) or HourUsage(hour)
