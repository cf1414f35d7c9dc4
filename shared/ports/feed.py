"""The feed: each tenant's public events, numbered without gaps (R72); and the queue of hints that leads to it; and the
topic that it is passed on to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from shared.core.audit.heads import DayHead
from shared.core.events.hints import Hint
from shared.core.webhooks.webhooks import Delivery


@dataclass(frozen=True, kw_only=True)
class FeedIdentity:
    """The table: a cursor of another one is worth nothing."""

    #: random, from when the table was created
    feed_id: str
    #: what happened before is not in it
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Head:
    """A tenant's HEAD row."""

    #: of the last event
    number: int = 0
    #: up to which event the feed was passed on to the topic, as far as it is stored; without a topic: all of it
    sent: int = 0
    #: that the tenant has; 0: their rows need not be read
    hooks: int = 0
    #: since when each write has brought the heads of its rows; None: the last one did not
    heads_since: datetime | None = None
    #: "": there is no row yet
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class FeedEvent:
    """An E row: a public event at its place."""

    number: int
    #: `{job_id}:{seq}:{n}`, or that of a gate, an incident or a webhook: no two events of any tenants share one
    event_id: str
    event_type: str
    job_id: str
    #: when it was written
    at: datetime
    #: the whole CloudEvent, as JSON
    text: str


@dataclass(frozen=True, kw_only=True)
class FeedWrite:
    """Events that follow on `head`, and how far their jobs are then in the feed: one transaction."""

    tenant: str
    head: Head
    events: Sequence[FeedEvent]
    #: by job id, the number of its last EVENT row that the feed has
    seen: Mapping[str, int]
    #: jobs of which the feed has nothing yet, as far as the writer knows
    new: frozenset[str] = field(default_factory=frozenset)
    #: PENDING rows of these events (R84)
    pending: Sequence[Delivery] = ()
    #: of the rows up to `seen`, the last one of each day (R91)
    heads: Sequence[DayHead] = ()
    #: HEAD's, then
    heads_since: datetime | None = None
    #: when it is written; None: SEEN rows of incidents do not say it, and stay
    at: datetime | None = None

    @property
    def number(self) -> int:
        return self.events[-1].number if self.events else self.head.number


class Feed(Protocol):
    """Written by `shared.operations.events.feed_writer` alone. Each method raises LedgerUnavailable."""

    async def identity(self) -> FeedIdentity: ...

    async def head(self, tenant: str) -> Head: ...

    async def seen(self, tenant: str, job_id: str) -> int:
        """Returns the number of the job's last EVENT row in the feed. 0: none."""

    async def write(self, write: FeedWrite) -> Head:
        """Writes atomically, under HEAD's ETag. Raises Conflict if HEAD changed or a job of `new` has a row;
        LedgerRefused.
        """

    async def forget(self, tenant: str, job_id: str) -> None:
        """Deletes the job's SEEN row together with the job. Idempotent."""

    async def forget_incidents(self, tenant: str, *, before: datetime, limit: int) -> int:
        """Deletes SEEN rows of incidents without a job (R88), last written before an instant, at most `limit` (up to
        100).

        A row that is written meanwhile stays. Returns how many were found.
        """

    async def tenants(self) -> list[str]:
        """Tenants that have a feed, and perhaps tenants whose feed is about to be created."""

    async def remove(self, tenant: str, *, before: datetime, limit: int) -> int:
        """Deletes the first events that were written before an instant, at most `limit` (up to 100). Returns their
        number.
        """

    async def purge(self, tenant: str, *, limit: int) -> int:
        """Deletes at most `limit` rows of a tenant but HEAD: events, webhooks and deliveries; returns their number."""

    async def events(self, tenant: str, *, after: int, limit: int) -> list[FeedEvent]:
        """Returns events in the order of their numbers, after `after`."""


class HintQueue(Protocol):
    """The queue `lucius-hints`."""

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        """Sends messages now or at an instant, together at most 200 KB. Raises BusUnavailable."""


class EventTopic(Protocol):
    """The topic `lucius-events`, which drops an event that comes again within five minutes."""

    async def send(self, events: Sequence[FeedEvent]) -> None:
        """Sends all messages or none, in their order, together at most 200 KB. Raises BusUnavailable."""
