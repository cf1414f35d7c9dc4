"""Views of the rows of a table in memory, as the objects that the adapters read from them.

A table in memory never waits, so a view runs an adapter's coroutine at once, outside of an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar
from urllib.parse import unquote

from shared.adapters.tables.table import Entity
from shared.core.records.canonical import encode_key
from tests.fake_tables import FakeTable

K = TypeVar("K")
T = TypeVar("T")


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

    def __init__(
        self, table: FakeTable, kind: str, key_of: Callable[[str, str], K | None], read: Callable[[K], T | None]
    ) -> None:
        """`key_of` gives the object's key of the keys of a row of this kind, or None for a row of no object."""
        self._key_of = key_of
        self._read = read
        self._changed: dict[K, None] = {}
        self._objects: dict[K, T] = {}
        table.on_change[kind].append(self._note)

    def _note(self, partition: str, row: str) -> None:
        if (key := self._key_of(partition, row)) is not None:
            self._changed[key] = None

    @property
    def objects(self) -> dict[K, T]:
        """The rows as they are now; a later change of a row does not change the mapping."""
        if self._changed:
            # a caller may still iterate over the previous one
            self._objects = dict(self._objects)
            for key in self._changed:
                if (found := self._read(key)) is not None:
                    self._objects[key] = found
                else:
                    self._objects.pop(key, None)
            self._changed.clear()
        return self._objects


def tenant_of(partition: str) -> str:
    """The inverse of `shared.core.records.canonical.encode_key`."""
    return unquote(partition.replace("=", "%")) if "=" in partition else partition


def rows_of(table: FakeTable, prefix: str, decode: Callable[[str, Entity], T]) -> View[tuple[str, str], T]:
    """A view of the rows with this prefix, by tenant and the rest of the key; `decode` gets the tenant and the row."""

    def key_of(partition: str, row: str) -> tuple[str, str]:
        return tenant_of(partition), row.removeprefix(prefix)

    def read(key: tuple[str, str]) -> T | None:
        row = table.row(encode_key(key[0]), prefix + key[1])
        return decode(key[0], row) if row is not None else None

    return View(table, prefix.rstrip(":"), key_of, read)
