"""What a process remembers of the feeds that it writes into; HEAD's ETag proves it at each write (R72)."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from shared.core.webhooks.webhooks import DEFAULT_HOOK, Hook
from shared.ports.feed import Feed, Head
from shared.ports.hooks import Hooks

#: tenants that a process remembers, and jobs of each
_MAX_TENANTS, _MAX_JOBS = 1_000, 1_000
#: logs of gates and incidents
_MAX_LOGS = 20_000


@dataclass
class KnownFeed:
    """What this process knows of a tenant's feed, as of HEAD's ETag."""

    head: Head
    #: Race feed: held from the first look at `seen` to the end of the write: what is read in between is as of `head`
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: by job id, the last EVENT row that the feed has
    seen: OrderedDict[str, int] = field(default_factory=OrderedDict)
    #: the tenant's, without `default`: a change of their filters writes HEAD (R84); None: not read yet
    hooks: Sequence[Hook] | None = None
    #: when this process last noted the tenant for the sweeper
    noted_at: datetime | None = None

    def remember(self, seen: Mapping[str, int]) -> None:
        for job_id, seq in seen.items():
            self.seen[job_id] = seq
            self.seen.move_to_end(job_id)
        while len(self.seen) > _MAX_JOBS:
            self.seen.popitem(last=False)


class KnownFeeds:
    """What this process knows of each tenant's feed; the least used are forgotten."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, KnownFeed] = OrderedDict()

    async def of(self, feed: Feed, tenant: str, hooks: Hooks | None = None) -> KnownFeed:
        """Raises LedgerUnavailable."""
        if (known := self._known.get(tenant)) is None:
            known = self._known[tenant] = KnownFeed(await feed.head(tenant))
        self._known.move_to_end(tenant)
        while len(self._known) > _MAX_TENANTS:
            self._known.popitem(last=False)
        if known.hooks is None and hooks is not None:
            # after HEAD: what was changed since then makes the next write a conflict
            stored = await hooks.all_of(tenant) if known.head.hooks else []
            if known.hooks is None:
                known.hooks = [each.hook for each in stored if each.hook.id != DEFAULT_HOOK]
        return known

    def forget(self, tenant: str) -> None:
        self._known.pop(tenant, None)


class ComparedLogs:
    """How far the feeds surely have the logs of gates and incidents; they never have less later (R79)."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], int] = OrderedDict()

    def has(self, tenant: str, key: str, seq: int) -> bool:
        return self._seen.get((tenant, key), 0) >= seq

    def remember(self, tenant: str, key: str, seq: int) -> None:
        self._seen[tenant, key] = seq
        self._seen.move_to_end((tenant, key))
        while len(self._seen) > _MAX_LOGS:
            self._seen.popitem(last=False)
