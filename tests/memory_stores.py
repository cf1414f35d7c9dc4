"""The app's stores for tests: the adapters of Azure Tables over tables in memory, with views of their rows.

A table in memory never waits, so a view runs an adapter's coroutine at once, outside of an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from shared.adapters.memory_tables import MemoryTexts
from shared.adapters.tables.answers import TablesAnswers
from shared.adapters.tables.books import TablesBooks
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.rejected import TablesRejected
from shared.adapters.tables.sweep_mark import TablesSweepMark
from shared.adapters.tables.usage import TablesUsage
from shared.ports.rejected import RejectedMessage, day_partition, row_key
from tests.fake_tables import FakeAccount, FakeTable

K = TypeVar("K")
T = TypeVar("T")


async def no_sleep(_seconds: float) -> None:
    """Waits not at all."""


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]
    work.close()
    raise AssertionError("a table in memory made its caller wait")


class View(Generic[K, T]):
    """Rows as objects, each read again after its rows changed, in the order in which they were created."""

    def __init__(self, table: FakeTable, key_of: Callable[[str, str], K | None], read: Callable[[K], T | None]) -> None:
        """`key_of` gives the object's key of a row's keys, or None for a row of no object."""
        self._key_of = key_of
        self._read = read
        self._changed: dict[K, None] = {}
        self._objects: dict[K, T] = {}
        table.on_change.append(self._note)

    def _note(self, partition: str, row: str) -> None:
        if (key := self._key_of(partition, row)) is not None:
            self._changed[key] = None

    @property
    def objects(self) -> dict[K, T]:
        """A copy of the rows as they are now: later changes do not appear in it."""
        if self._changed:
            # those who iterate over the one before go on with it
            self._objects = dict(self._objects)
            for key in self._changed:
                if (found := self._read(key)) is not None:
                    self._objects[key] = found
                else:
                    self._objects.pop(key, None)
            self._changed.clear()
        return self._objects


def tenant_of(partition: str) -> str:
    """The inverse of `shared.core.canonical.encode_key`."""
    return unquote(partition.replace("=", "%")) if "=" in partition else partition


class MemoryAnswers(TablesAnswers):
    """See `shared.ports.sweeps.Answers`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "gates")


class MemorySweepMark(TablesSweepMark):
    """See `shared.ports.sweeps.SweepMarks`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "index")


class MemoryUsage(TablesUsage):
    """See `shared.ports.usage.Usage`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "index", sleep=no_sleep)


class MemoryBooks(TablesBooks):
    """See `shared.ports.books.Books`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "gates")


class MemoryBulks(TablesBulks):
    """See `shared.ports.bulks.Bulks`."""

    def __init__(self) -> None:
        super().__init__(FakeAccount(), "index", "gates")


class MemoryRejected(TablesRejected):
    """See `shared.ports.rejected.RejectedMessages`."""

    def __init__(self) -> None:
        account = FakeAccount()
        super().__init__(account, "rejected", MemoryTexts())
        self._rows = account.of("rejected")
        self._messages = View(self._rows, _of_a_day, self._message_of)

    def _message_of(self, key: tuple[str, str]) -> RejectedMessage | None:
        row = self._rows.row(*key)
        return at_once(self.read(row["id"])) if row is not None else None

    @property
    def quarantined(self) -> dict[str, RejectedMessage]:
        """By id."""
        return {each.id: each for each in self._messages.objects.values()}

    def unmark(self, id_: str) -> None:
        """Makes the message one that was never redriven."""
        self._rows.amend(day_partition(id_), row_key(id_), {"redriven_at": None, "redriven_outcome": None})


def _of_a_day(partition: str, row: str) -> tuple[str, str] | None:
    """A message has a row of its day, and perhaps one in the list of its tenant."""
    return None if partition.startswith("tenant_") else (partition, row)
