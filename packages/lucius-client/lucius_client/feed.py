"""The feed of a tenant, from a cursor on: `events` with `Client`, `async_events` with `AsyncClient`.

An event comes at least once, and those of a job in their order. With a cursor file a program that starts again goes on
where it was; what it had of a page that it did not finish comes again, with the same `id`.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from pathlib import Path
from typing import TypedDict, Unpack

from lucius_client import calls
from lucius_client.async_client import AsyncClient
from lucius_client.client import Client
from lucius_client.exchange import Flow, Pause
from lucius_client.models import PublicEvent
from lucius_client.retry import Retries, send
from lucius_client.series import LONG_POLL_S, PAGE, Series

#: the API had no room to hold a request: seconds until the next one
_CROWDED_S = 5.0


class Which(TypedDict, total=False):
    """Selects events, and how they are followed. An omitted field matches everything.

    `cursor_file` keeps the position. `after` is the start instead: a cursor, `earliest` or `latest`. Default:
    the first event in retention. `follow`: False ends at the end of the feed. `tenant_id` is for operators of
    all tenants; `types` are names as `job.completed`; `label` is `key:value`; `terminal`: only events that end a job.
    """

    cursor_file: str | Path | None
    after: str | None
    follow: bool
    tenant_id: str | None
    types: Iterable[str] | None
    job_type: str | None
    job_id: str | None
    label: str | None
    terminal: bool


def events(client: Client, **which: Unpack[Which]) -> Iterator[PublicEvent]:
    """The events of a tenant, in the order of its feed, for ever or to its end; `Which` has the arguments.

    Raises CursorExpired if the events after the position are not retained: continue at `problem.earliest`;
    OSError and UnicodeDecodeError where the file cannot be used; ValueError where `types` is empty. The position is
    stored when the events before it were consumed.
    """
    yield from client._iterate(Feed(which, client._retries))


async def async_events(client: AsyncClient, **which: Unpack[Which]) -> AsyncIterator[PublicEvent]:
    """The same as `events`, on asyncio."""
    async for each in client._iterate(Feed(which, client._retries)):
        yield each


class Feed(Series[PublicEvent]):
    """Pages of a feed, which the API holds back while they are empty. The file is read and written here; with `keeps`
    False it is written by `store` alone.
    """

    def __init__(
        self, which: Which, retries: Retries, clock: Callable[[], float] = time.monotonic, *, keeps: bool = True
    ) -> None:
        types = which.get("types")
        joined = ",".join([types] if isinstance(types, str) else types) if types is not None else None
        if joined == "":
            # the API does not see an empty parameter, and would give events of every type
            raise ValueError("types names no type")
        self._query = {
            "tenant_id": which.get("tenant_id"),
            "types": joined,
            "jobType": which.get("job_type"),
            "jobId": which.get("job_id"),
            "label": which.get("label"),
            "terminal": "true" if which.get("terminal") else None,
            "limit": PAGE,
        }
        file = which.get("cursor_file")
        self._file = Path(file) if file is not None else None
        self._after = which.get("after") or self._stored() or "earliest"
        self._follow = which.get("follow", True)
        self._retries = retries
        self._clock = clock
        self._keeps = keeps
        #: a word says where to begin, until the first answer gives the cursor of that place
        self._has_cursor = False
        self.more = True

    def next(self) -> Flow[list[PublicEvent]]:
        if self._has_cursor and self._keeps:
            # a caller that asks for more has consumed the earlier ones
            self.store()
        wait_s = LONG_POLL_S if self._follow and self._has_cursor else 0
        began = self._clock()
        page = calls.read_feed((yield from send(calls.feed(self._after, self._query, wait_s), self._retries)))
        is_end = page.next == self._after and not page.events
        self._after, self._has_cursor = page.next, True
        if is_end and not self._follow:
            self.more = False
        elif not page.events and wait_s and self._clock() - began < wait_s / 2:
            yield Pause(_CROWDED_S)
        if not page.events and self._keeps:
            self.store()
        return page.events

    def _stored(self) -> str | None:
        if self._file is None or not self._file.exists():
            return None
        return self._file.read_text(encoding="utf-8").strip() or None

    def store(self) -> None:
        """What came was consumed: the whole cursor or the one before is in the file, a crash leaves no part of it.

        Raises OSError if it cannot be written.
        """
        if self._file is None:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        new.write_text(f"{self._after}\n", encoding="utf-8")
        os.replace(new, self._file)
