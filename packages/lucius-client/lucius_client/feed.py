"""The feed of a tenant from a cursor: `events` with `Client`, `async_events` with `AsyncClient`.

Each event arrives at least once, and the events of a job arrive in order. With a cursor file, a restarted program
continues at the stored position. Events of an unfinished page arrive again, with the same `id`.
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

#: seconds until the next request if the API has its maximum of delayed requests
_CROWDED_S = 5.0


class Which(TypedDict, total=False):
    """The selection of events, and the range of the feed. An omitted filter matches everything.

    `cursor_file` stores the position. `after` is a cursor, `earliest` or `latest`, and overrides the stored position.
    Without both, the events start at the first retained event.

    `follow` defaults to True. If `follow` is False, the events stop at the last event of the feed.

    `tenant_id` defaults to the caller's tenant. Callers without a tenant must set `tenant_id`. `types` are names such
    as `job.completed`. `label` is `key:value`.

    `terminal` selects only events that end a job.
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
    """Yields the events of a tenant in the order of the feed. `Which` has the arguments.

    Stores the position after the caller has consumed the events before the position. Raises OSError and
    UnicodeDecodeError for an unusable cursor file, and ValueError if `types` is empty.

    Raises CursorExpired if the events after the position are deleted, or if the position is from another feed. The
    caller can then continue at `problem.earliest`.
    """
    yield from client._iterate(Feed(which, client._retries))


async def async_events(client: AsyncClient, **which: Unpack[Which]) -> AsyncIterator[PublicEvent]:
    """Yields the same as `events`, on asyncio."""
    async for each in client._iterate(Feed(which, client._retries)):
        yield each


class Feed(Series[PublicEvent]):
    """A reader of a feed, which fetches pages by long polls, and reads and writes the cursor file.

    With `keeps` False, only `store` writes the file.
    """

    def __init__(
        self, which: Which, retries: Retries, clock: Callable[[], float] = time.monotonic, *, keeps: bool = True
    ) -> None:
        types = which.get("types")
        joined = ",".join([types] if isinstance(types, str) else types) if types is not None else None
        if joined == "":
            # the API ignores an empty parameter, and would return events of every type
            raise ValueError("`types` is empty; name a type, or omit `types`")
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
        #: `False` until the first response, while `_after` can be `earliest` or `latest`
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
        """Stores the position after the consumed events. The write is atomic, so a crash leaves the old or the new
        cursor.

        Raises OSError if the file cannot be written.
        """
        if self._file is None:
            return
        new = self._file.with_name(f"{self._file.name}.new")
        new.write_text(f"{self._after}\n", encoding="utf-8")
        os.replace(new, self._file)
