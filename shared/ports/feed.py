"""The feed of each tenant's public events, numbered without gaps (R72), with the queue of its hints and the topic of
its relay.
"""

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
    """The identity of the table. Cursors of another table are invalid."""

    #: random id, made when the table is created or restored
    feed_id: str
    #: time of the creation; the feed has no earlier events
    since: datetime


@dataclass(frozen=True, kw_only=True)
class Head:
    """A tenant's HEAD row."""

    #: number of the last event
    number: int = 0
    #: number of the last event known to be relayed to the topic; without a topic, of the last event
    sent: int = 0
    #: number of the tenant's webhooks, without `default`; 0: their rows need not be read
    hooks: int = 0
    #: time since which every write has included the heads of its rows; None if the last write did not, or after a purge
    heads_since: datetime | None = None
    #: ETag; "": the row does not exist yet
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class FeedEvent:
    """An E row: a numbered public event."""

    number: int
    #: `{job_id}:{seq}:{n}`, or the id of an event of a quota, an incident or a webhook; unique over all tenants
    event_id: str
    event_type: str
    job_id: str
    #: time of the write
    at: datetime
    #: the complete CloudEvent as JSON
    text: str


@dataclass(frozen=True, kw_only=True)
class FeedWrite:
    """Events after `head`, and the resulting positions of their subjects in the feed, written in one transaction. A
    subject is a job, a quota or an incident.
    """

    tenant: str
    head: Head
    events: Sequence[FeedEvent]
    #: number of the subject's last EVENT row or log entry in the feed, by the subject's id
    seen: Mapping[str, int]
    #: ids of subjects that the feed does not have yet, as far as the writer knows
    new: frozenset[str] = field(default_factory=frozenset)
    #: PENDING rows of deliveries of these events (R84)
    pending: Sequence[Delivery] = ()
    #: the last head of each day, of rows up to `seen` (R91)
    heads: Sequence[DayHead] = ()
    #: new value of `Head.heads_since`
    heads_since: datetime | None = None
    #: time of the write; None: `forget_incidents` never deletes the SEEN rows of this write
    at: datetime | None = None

    @property
    def number(self) -> int:
        return self.events[-1].number if self.events else self.head.number


class Feed(Protocol):
    """Feeds. Only `shared.operations.events.feed_writer` writes events by this port. Each method raises
    LedgerUnavailable.
    """

    async def identity(self) -> FeedIdentity: ...

    async def head(self, tenant: str) -> Head: ...

    async def read_seen(self, tenant: str, job_id: str) -> int:
        """Returns the number of the last EVENT row or log entry in the feed, or 0 if the feed has none. `job_id` is the
        id of a job, quota or incident.
        """

    async def write(self, write: FeedWrite) -> Head:
        """Writes atomically, under HEAD's ETag. Raises Conflict if HEAD changed, or if a subject of `new` already
        has a row. Raises LedgerRefused.
        """

    async def forget(self, tenant: str, job_id: str) -> None:
        """Deletes the SEEN row of a deleted job, or of its incident. Idempotent."""

    async def forget_incidents(self, tenant: str, *, before: datetime, limit: int) -> int:
        """Deletes at most `limit` (up to 100) SEEN rows of incidents without a job (R88) that were last written earlier
        than `before`.

        A row that is written in the meantime stays. Returns the number of rows found.
        """

    async def tenants(self) -> list[str]:
        """Returns tenants that have a feed, and possibly tenants whose feed is about to be created."""

    async def remove(self, tenant: str, *, before: datetime, limit: int) -> int:
        """Deletes the first events that were written earlier than `before`, at most `limit` (up to 100). Returns their
        number.
        """

    async def purge(self, tenant: str, *, limit: int) -> int:
        """Deletes at most `limit` (up to 100) rows of a tenant, except HEAD: for example events, heads, webhooks and
        deliveries. If `heads_since` in HEAD is set, only clears it. Returns the number of changed rows, which is 0 if
        no rows are left.
        """

    async def events(self, tenant: str, *, after: int, limit: int) -> list[FeedEvent]:
        """Returns events in the order of their numbers, after `after`. Leaves out events that cannot be decoded."""


class HintQueue(Protocol):
    """The queue `lucius-hints`."""

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        """Sends messages now or at the given time, together at most 200 KB. Raises BusUnavailable."""


class EventTopic(Protocol):
    """The topic `lucius-events`, which drops an event that arrives again within five minutes."""

    async def send(self, events: Sequence[FeedEvent]) -> None:
        """Sends all messages or none, in order, together at most 200 KB. Raises BusUnavailable."""
