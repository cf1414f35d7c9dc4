"""Reads pages of a tenant's feed from a cursor (R74)."""

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
from shared.operations.process.context import Context
from shared.operations.process.waiters import LastEvent
from shared.ports.feed import Feed, FeedEvent
from shared.refusals import CursorExpired

#: maximum rows that a page reads, even if few of them match its filter
MAX_LOOKED_AT = 1_000
#: maximum characters of events that a page reads, about 4 MiB: a page of large events ends early
MAX_CHARACTERS = 4 * 1024 * 1024
#: maximum rows of a query
_ROWS_AT_ONCE = 250
#: rows after which other requests of the process can continue
_ROWS_A_TURN = 25
#: values that stand for a cursor
EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True, kw_only=True)
class EventFilter:
    """A filter of events. A field that is None matches every event."""

    types: frozenset[PublicType] | None = None
    job_type: str | None = None
    job_id: str | None = None
    #: label key and value
    label: tuple[str, str] | None = None
    #: `True` for only the events of terminal states
    terminal: bool = False

    def matches(self, event: FeedEvent) -> dict[str, Any] | None:
        """Returns the CloudEvent if it matches the filter, else None."""
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
    """A page of events in order, and the cursor of the next page. The last page of the feed has a cursor too."""

    events: list[Mapping[str, Any]]
    next: str
    #: number of the last row that was read
    number: int
    #: for each event, the cursor that continues after it
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

    Raises EventsOff, CursorExpired, LedgerUnavailable, and the error that `invalid` returns for an invalid cursor.
    """
    feed = context.require_events().feed
    feed_id = (await feed.identity()).feed_id
    if after == LATEST:
        last = (await feed.head(tenant)).number
        return FeedPage([], _encode_cursor(feed_id, last), last, [])
    number = 0 if after == EARLIEST else _parse_cursor(after, feed_id, invalid)
    if number is None:
        raise CursorExpired(_encode_cursor(feed_id, await _find_earliest(feed, tenant)))
    most = limit if event_filter == EventFilter() else MAX_LOOKED_AT
    first = min(most, _ROWS_AT_ONCE)
    rows = await feed.events(tenant, after=number, limit=first)
    if not rows:
        last = (await feed.head(tenant)).number
        if number > last:
            raise CursorExpired(_encode_cursor(feed_id, await _find_earliest(feed, tenant)))
        if number < last:
            # rows were written or deleted between the two reads
            rows = await feed.events(tenant, after=number, limit=first)
        if not rows and after != EARLIEST and number < last:
            raise CursorExpired(_encode_cursor(feed_id, last))
        number = number if rows else last
    # numbers have no gaps, so a page that starts right after the cursor misses nothing
    if rows and after != EARLIEST and rows[0].number != number + 1:
        raise CursorExpired(_encode_cursor(feed_id, rows[0].number - 1))
    found: list[Mapping[str, Any]] = []
    cursors: list[str] = []
    async for row in _yield_events(feed, tenant, rows, most):
        number = row.number
        if (event := event_filter.matches(row)) is not None:
            found.append(event)
            cursors.append(_encode_cursor(feed_id, number))
        if len(found) == limit:
            break
    return FeedPage(found, _encode_cursor(feed_id, number), number, cursors)


async def _yield_events(feed: Feed, tenant: str, rows: Sequence[FeedEvent], most: int) -> AsyncIterator[FeedEvent]:
    """Yields at most `most` rows, and stops after `MAX_CHARACTERS` (4 Mi) characters. Lets other requests continue in
    between.
    """
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


async def _find_earliest(feed: Feed, tenant: str) -> int:
    """Returns the number before the first remaining event, or the last number if no event remains."""
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
    """Returns the page of `read_feed`. Delays an empty page until an event matches, at most `wait_s` seconds (R75)."""
    end, events = time.monotonic() + wait_s, context.require_events()

    async def read(after: str) -> FeedPage:
        return await read_feed(context, tenant, after=after, event_filter=event_filter, limit=limit, invalid=invalid)

    async def last() -> LastEvent:
        return LastEvent((await events.feed.head(tenant)).number)

    page = await read(after)
    with events.tails.of(tenant, last) as tail:
        while not page.events and (left_s := end - time.monotonic()) > 0:
            if await tail.goes_past(page.number, left_s):
                page = await read(page.next)
    return page


def _encode_cursor(feed_id: str, number: int) -> str:
    return base64.urlsafe_b64encode(f"{feed_id}:{number}".encode()).decode()


def _parse_cursor(cursor: str, feed_id: str, invalid: Callable[[], Exception]) -> int | None:
    """Returns the number of a cursor, or None if the cursor belongs to another table."""
    try:
        of, _, number = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().partition(":")
        if not (number.isascii() and number.isdecimal() and len(number) <= 19):
            raise ValueError
    except (binascii.Error, ValueError):
        raise invalid() from None
    return int(number) if of == feed_id else None
