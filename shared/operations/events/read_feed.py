"""A part of a tenant's feed, from a cursor on (R74)."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.events.event_types import TERMINAL, PublicType
from shared.operations.context import Context
from shared.operations.process.waiters import End
from shared.ports.feed import Feed, FeedEvent
from shared.refusals import CursorExpired

#: rows that one page looks at, however few of them fit its filter
MAX_LOOKED_AT = 1_000
#: characters of events that one page looks at, 4 MiB or a little more: a page of large events ends early
MAX_CHARACTERS = 4 * 1024 * 1024
#: rows of one query
_ROWS_AT_ONCE = 250
#: rows after which other requests of the process have their turn
_ROWS_A_TURN = 25
#: words in the place of a cursor
EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """What is None does not matter."""

    types: frozenset[PublicType] | None = None
    job_type: str | None = None
    job_id: str | None = None
    #: a label and its value
    label: tuple[str, str] | None = None
    #: only what ends a job
    terminal: bool = False

    def matches(self, event: FeedEvent) -> dict[str, Any] | None:
        """Returns the CloudEvent if it matches."""
        if self.types is not None and event.event_type not in self.types:
            return None
        if (self.terminal and event.event_type not in TERMINAL) or self.job_id not in (None, event.job_id):
            return None
        whole: dict[str, Any] = json.loads(event.text)
        if self.job_type not in (None, whole["data"].get("jobType")):
            return None
        labels = whole["data"].get("labels") or {}
        return whole if self.label is None or labels.get(self.label[0]) == self.label[1] else None


@dataclass(frozen=True)
class FeedPage:
    """Events in their order, and the cursor to go on from: also at the feed's end, where more will come."""

    events: list[Mapping[str, Any]]
    next: str
    #: of the last row that was looked at
    number: int
    #: by event, the cursor that goes on behind it
    cursors: list[str]


async def read_feed(
    context: Context,
    tenant: str,
    *,
    after: str,
    event_filter: EventFilter,
    limit: int,
    invalid: Callable[[], Exception],
) -> FeedPage:
    """Returns at most `limit` events of the tenant (normalised) after the cursor `after`, `earliest` or `latest`.

    Raises EventsOff, CursorExpired, the error that `invalid` makes of an invalid cursor, LedgerUnavailable.
    """
    feed = context.require_events().feed
    feed_id = (await feed.identity()).feed_id
    if after == LATEST:
        last = (await feed.head(tenant)).number
        return FeedPage([], _cursor(feed_id, last), last, [])
    number = 0 if after == EARLIEST else _number(after, feed_id, invalid)
    if number is None:
        raise CursorExpired(_cursor(feed_id, await _earliest(feed, tenant)))
    most = limit if event_filter == EventFilter() else MAX_LOOKED_AT
    first = min(most, _ROWS_AT_ONCE)
    rows = await feed.events(tenant, after=number, limit=first)
    if not rows:
        last = (await feed.head(tenant)).number
        if number > last:
            raise CursorExpired(_cursor(feed_id, await _earliest(feed, tenant)))
        if number < last:
            # they were written between the two reads, or are gone
            rows = await feed.events(tenant, after=number, limit=first)
        if not rows and after != EARLIEST and number < last:
            raise CursorExpired(_cursor(feed_id, last))
        number = number if rows else last
    # numbers have no gap: so a page that begins right behind the cursor proves that nothing is missing
    if rows and after != EARLIEST and rows[0].number != number + 1:
        raise CursorExpired(_cursor(feed_id, rows[0].number - 1))
    found: list[Mapping[str, Any]] = []
    cursors: list[str] = []
    async for row in _looked_at(feed, tenant, rows, most):
        number = row.number
        if (event := event_filter.matches(row)) is not None:
            found.append(event)
            cursors.append(_cursor(feed_id, number))
        if len(found) == limit:
            break
    return FeedPage(found, _cursor(feed_id, number), number, cursors)


async def _looked_at(feed: Feed, tenant: str, rows: Sequence[FeedEvent], most: int) -> AsyncIterator[FeedEvent]:
    """Yields at most `most` rows, from the first ones on, and at most `MAX_CHARACTERS` of them; lets others run."""
    count = characters = 0
    asked = min(most, _ROWS_AT_ONCE)
    while rows:
        for row in rows:
            yield row
            count += 1
            characters += len(row.text)
            if characters >= MAX_CHARACTERS:
                return
            if count % _ROWS_A_TURN == 0:
                await asyncio.sleep(0)
        if count >= most or len(rows) < asked:
            return
        last, asked = rows[-1].number, min(most - count, _ROWS_AT_ONCE)
        rows = await feed.events(tenant, after=last, limit=asked)
        if rows and rows[0].number != last + 1:
            # pruned meanwhile: the next page says so
            return


async def _earliest(feed: Feed, tenant: str) -> int:
    """The number before the first event that is kept."""
    first = await feed.events(tenant, after=0, limit=1)
    return first[0].number - 1 if first else (await feed.head(tenant)).number


async def follow_feed(
    context: Context,
    tenant: str,
    *,
    after: str,
    event_filter: EventFilter,
    limit: int,
    invalid: Callable[[], Exception],
    wait_s: float,
) -> FeedPage:
    """Reads the feed, and holds an empty page back for this number of seconds until an event matches (R75)."""
    end, events = time.monotonic() + wait_s, context.require_events()

    async def read(after: str) -> FeedPage:
        return await read_feed(context, tenant, after=after, event_filter=event_filter, limit=limit, invalid=invalid)

    async def last() -> End:
        return End((await events.feed.head(tenant)).number)

    page = await read(after)
    with events.tails.of(tenant, last) as tail:
        while not page.events and (left_s := end - time.monotonic()) > 0:
            if await tail.goes_past(page.number, left_s):
                page = await read(page.next)
    return page


def _cursor(feed_id: str, number: int) -> str:
    return base64.urlsafe_b64encode(f"{feed_id}:{number}".encode()).decode()


def _number(cursor: str, feed_id: str, invalid: Callable[[], Exception]) -> int | None:
    """None: it is of another table."""
    try:
        of, _, number = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().partition(":")
        if not (number.isascii() and number.isdecimal() and len(number) <= 19):
            raise ValueError
    except (binascii.Error, ValueError):
        raise invalid() from None
    return int(number) if of == feed_id else None
