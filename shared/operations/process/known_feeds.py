"""The remembered state of feeds that a process writes to. HEAD's ETag checks the memory at each write (R72)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.core.webhooks.webhooks import DEFAULT_HOOK, Hook
from shared.ports.feed import Feed, Head
from shared.ports.hooks import Hooks

#: maximum tenants that a process remembers, and maximum jobs of each: together about 35 MB
_MAX_TENANTS, _MAX_JOBS = 1_000, 200
#: maximum logs of quotas and incidents
_MAX_LOGS = 20_000


@dataclass
class KnownFeed:
    """The state of a tenant's feed as this process knows it, as of HEAD's ETag."""

    head: Head
    #: Race feed: held from the first use of `seen` to the end of the write, so that all reads in between are as of
    #: `head`
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: number of the last EVENT row or log entry in the feed, by the id of a job, quota or incident
    seen: OrderedDict[str, int] = field(default_factory=OrderedDict)
    #: webhooks of the tenant without `default`; a change of their filters writes HEAD (R84); None if not read yet
    hooks: Sequence[Hook] | None = None
    #: time when this process last noted the tenant for the sweeper
    noted_at: datetime | None = None

    def remember(self, seen: Mapping[str, int]) -> None:
        for job_id, seq in seen.items():
            self.seen[job_id] = seq
            self.seen.move_to_end(job_id)
        while len(self.seen) > _MAX_JOBS:
            self.seen.popitem(last=False)


class KnownFeeds:
    """The state of each tenant's feed as this process knows it. The least recently used states are dropped."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, KnownFeed] = OrderedDict()

    async def of(self, feed: Feed, tenant: str, hooks: Hooks | None = None) -> KnownFeed:
        """Returns the state of the tenant's feed. Raises LedgerUnavailable."""
        if (known := self._known.get(tenant)) is None:
            known = self._known[tenant] = KnownFeed(await feed.head(tenant))
        self._known.move_to_end(tenant)
        while len(self._known) > _MAX_TENANTS:
            self._known.popitem(last=False)
        if known.hooks is None and hooks is not None:
            # read after HEAD, so that a later change makes the next write a conflict
            stored = await hooks.all_of(tenant) if known.head.hooks else []
            if known.hooks is None:
                known.hooks = [each.hook for each in stored if each.hook.id != DEFAULT_HOOK]
        return known

    def forget(self, tenant: str) -> None:
        self._known.pop(tenant, None)


class ComparedLogs:
    """For each log of a quota or incident, the number of the last entry that its feed is known to have (R79)."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], int] = OrderedDict()

    def has(self, tenant: str, key: str, seq: int) -> bool:
        return self._seen.get((tenant, key), 0) >= seq

    def remember(self, tenant: str, key: str, seq: int) -> None:
        self._seen[tenant, key] = seq
        self._seen.move_to_end((tenant, key))
        while len(self._seen) > _MAX_LOGS:
            self._seen.popitem(last=False)
