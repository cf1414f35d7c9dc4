"""The feed and the queue of hints in this process: for tests and for a stack without Azurite."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from shared.core.incidents import opened_of
from shared.errors import Conflict
from shared.ports.feed import FeedEvent, FeedIdentity, FeedWrite, Head
from tests.memory_twins.hooks import MemoryHooks


class MemoryFeed:
    """See `shared.ports.feed.Feed`."""

    def __init__(self, since: datetime | None = None) -> None:
        self._identity = FeedIdentity(feed_id="memory", since=since or datetime.min.replace(tzinfo=UTC))
        self._heads: dict[str, Head] = {}
        self._seen: dict[tuple[str, str], int] = {}
        self._seen_at: dict[tuple[str, str], datetime] = {}
        self._events: defaultdict[str, list[FeedEvent]] = defaultdict(list)
        self._etags = itertools.count(1)
        self.hooks = MemoryHooks(self)

    async def identity(self) -> FeedIdentity:
        return self._identity

    async def head(self, tenant: str) -> Head:
        return self._heads.get(tenant, Head())

    async def seen(self, tenant: str, job_id: str) -> int:
        return self._seen.get((tenant, job_id), 0)

    async def write(self, write: FeedWrite) -> Head:
        tenant = write.tenant
        self.check_head(tenant, write.head)
        if any((tenant, job_id) in self._seen for job_id in write.new):
            raise Conflict
        self._seen.update({(tenant, job_id): seq for job_id, seq in write.seen.items()})
        if write.at is not None:
            self._seen_at.update({(tenant, key): write.at for key in write.seen if opened_of(key) is not None})
        self.hooks.enter(tenant, write.pending)
        return self.move_head(tenant, replace(write.head, number=write.number), write.events)

    def check_head(self, tenant: str, head: Head) -> None:
        if self._heads.get(tenant, Head()).etag != head.etag:
            raise Conflict

    def move_head(self, tenant: str, head: Head, events: Sequence[FeedEvent]) -> Head:
        self._events[tenant] += events
        self._heads[tenant] = replace(head, etag=str(next(self._etags)))
        return self._heads[tenant]

    async def tenants(self) -> list[str]:
        return list(self._heads)

    async def forget(self, tenant: str, job_id: str) -> None:
        self._seen.pop((tenant, job_id), None)

    async def forget_incidents(self, tenant: str, *, before: datetime, limit: int) -> int:
        found = [place for place, at in self._seen_at.items() if place[0] == tenant and at < before][:limit]
        for place in found:
            del self._seen[place], self._seen_at[place]
        return len(found)

    async def remove(self, tenant: str, *, before: datetime, limit: int) -> int:
        found = self._events[tenant]
        old = next((place for place, event in enumerate(found[:limit]) if event.at >= before), len(found[:limit]))
        del found[:old]
        return old

    async def events(self, tenant: str, *, after: int, limit: int) -> list[FeedEvent]:
        return [event for event in self._events[tenant] if event.number > after][:limit]
