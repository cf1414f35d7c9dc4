"""The use of tenants' gates as one caller reaches it (R24): see `shared.adapters.scoped.stores`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from shared.access.caller import Caller
from shared.core.usage import Counted, Group, HourUsage
from shared.ports.usage import Folding, FoldPosition, SeenSource, Usage
from shared.refusals import TenantForbidden


class TenantUsage:
    """See `shared.ports.usage.Usage`. What only the sweeper does is refused, since a sweep is of every tenant."""

    def __init__(self, usage: Usage, caller: Caller, *, moving: bool = False) -> None:
        self._usage = usage
        self._caller = caller
        self._moving = moving

    async def hours(self, tenant: str, first: datetime, end: datetime) -> list[HourUsage]:
        return await self._seen(tenant).hours(tenant, first, end)

    async def sources(self, tenant: str, *, after: str, limit: int) -> list[SeenSource]:
        return await self._seen(tenant).sources(tenant, after=after, limit=limit)

    async def add_refused(self, tenant: str, hour: datetime, refused: Mapping[Group, int]) -> None:
        # counts of this process, of other callers' tenants too
        await self._usage.add_refused(tenant, hour, refused)

    async def see_source(self, tenant: str, source: SeenSource) -> bool:
        if not self._caller.may_move(tenant):
            raise TenantForbidden
        return await self._usage.see_source(tenant, source)

    async def put_jobs(self, tenant: str, hour: datetime, jobs: Mapping[Group, Counted]) -> None:
        raise _sweeper_only()

    async def put_peaks(self, tenant: str, hour: datetime, peaks: Mapping[tuple[str, str], int]) -> None:
        raise _sweeper_only()

    async def read_folding(self, tenant: str, hour: datetime) -> Folding:
        raise _sweeper_only()

    async def write_folding(self, tenant: str, hour: datetime, folding: Folding | None) -> None:
        raise _sweeper_only()

    async def remove_before(self, tenant: str, hour: datetime, *, limit: int) -> None:
        raise _sweeper_only()

    async def fold_again(self, tenant: str, hour: datetime) -> None:
        raise _sweeper_only()

    async def to_fold_again(self, before: datetime, *, after: str, limit: int) -> list[tuple[datetime, str, str]]:
        raise _sweeper_only()

    async def folded_again(self, tenant: str, hour: datetime) -> None:
        raise _sweeper_only()

    async def read_position(self, share: int) -> FoldPosition:
        raise _sweeper_only()

    async def write_position(self, share: int, position: FoldPosition) -> None:
        raise _sweeper_only()

    def _seen(self, tenant: str) -> Usage:
        if not (self._caller.may_see(tenant) or (self._moving and self._caller.may_move(tenant))):
            # a bug: no request gets this far
            raise PermissionError("the use of another tenant")
        return self._usage


def _sweeper_only() -> PermissionError:
    return PermissionError("only a sweep of every tenant does this")
