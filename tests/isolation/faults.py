"""One row type that is at fault, from one instant to another."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from enum import StrEnum
from typing import Any

from shared.errors import Conflict, LedgerRefused, LedgerUnavailable
from tests.fake_tables import FakeAccount, StoredRow
from tests.isolation.row_types import type_of

#: seconds of the store's own retries until a refused call raises
_RETRIED_S = 1.0
#: a column of an undecodable row: no number, no instant, no JSON
_SCRAMBLED = "{?"


class Kind(StrEnum):
    """A kind of fault of a row."""

    #: each row is deleted when the fault begins, or after its first write
    MISSING = "missing"
    #: the same, but its columns are scrambled or gone, until the app writes the row, or the fault ends
    UNDECODABLE = "undecodable"
    #: 413 to each write of the row
    OVERSIZED = "oversized"
    #: 503 to each request of the row
    REFUSED = "refused"
    #: another process writes the row before each write that names its ETag, for five seconds from the first
    CONTENDED = "contended"


_CONTENDED_S = 5.0


class Fault:
    """Rows of one type, without those of the `others`, which are tenants."""

    def __init__(
        self,
        account: FakeAccount,
        row_type: str,
        kind: Kind,
        *,
        others: Collection[str],
        now: Callable[[], float],
        pause: Callable[[float], Awaitable[object]],
    ) -> None:
        self._account, self._row_type, self.kind, self._others = account, row_type, kind, others
        self._now, self._pause = now, pause
        self._is_on = False
        #: keys that were at fault once, with their columns before
        self._done: dict[tuple[str, str, str], dict[str, Any]] = {}
        self._contended_from: float | None = None
        #: requests that met the fault, and the keys of the rows
        self.met = 0
        self.keys: set[str] = set()

    def is_of(self, partition: str, row: str) -> bool:
        """Returns whether the row can be at fault: not if it is another tenant's."""
        if type_of(partition, row) != self._row_type or partition in self._others:
            return False
        return not any(other in row for other in self._others)

    def begin(self) -> None:
        self._is_on = True
        for table, partition, key, row in [*self._account.rows()]:
            self._spoil(table, partition, key, row)

    def end(self) -> None:
        """Ends the fault: the store works again, and an operator restores undecodable rows."""
        self._is_on = False
        if self.kind is Kind.UNDECODABLE:
            for table, partition, key, row in [*self._account.rows()]:
                before = self._done.get((table, partition, key))
                if before is not None and _SCRAMBLED in row.values.values():
                    row.values = {**before, **{n: v for n, v in row.values.items() if v != _SCRAMBLED}}
                    row.etag = self._account.etag()

    def _spoil(self, table: str, partition: str, key: str, row: StoredRow) -> None:
        where = (table, partition, key)
        if self.kind not in (Kind.MISSING, Kind.UNDECODABLE) or where in self._done or not self.is_of(partition, key):
            return
        self._done[where] = dict(row.values)
        if self.kind is Kind.MISSING:
            self._meet(key)
            self._account.tables[table].partitions[partition].remove(key)
        else:
            row.values, row.etag = scrambled(row.values), self._account.etag()

    async def watch(self, table: str, partition: str, key: str, verb: str, under_etag: bool) -> None:
        """See `tests.fake_tables.Watch`."""
        if not self._is_on or not self.is_of(partition, key):
            return
        part = self._account.tables[table].partitions[partition]
        match self.kind:
            case Kind.MISSING | Kind.UNDECODABLE:
                if key in part.rows:
                    # a row that was written since the last check
                    self._spoil(table, partition, key, part.rows[key])
                if (table, partition, key) in self._done:
                    self._meet(key)
            case Kind.OVERSIZED if verb in ("create", "update", "upsert"):
                self._meet(key)
                raise LedgerRefused("EntityTooLarge")
            case Kind.REFUSED:
                self._meet(key)
                await self._pause(_RETRIED_S)
                raise LedgerUnavailable("the ledger answered 503")
            case Kind.CONTENDED if under_etag:
                self._meet(key)
                began = self._contended_from = self._now() if self._contended_from is None else self._contended_from
                if self._now() < began + _CONTENDED_S:
                    raise Conflict("UpdateConditionNotSatisfied")

    def _meet(self, key: str) -> None:
        self.met += 1
        self.keys.add(key)


def scrambled(values: dict[str, Any]) -> dict[str, Any]:
    """The keys, and no column that can be read: texts are gone, all others are no number, instant or JSON."""
    kept = {name: values[name] for name in ("PartitionKey", "RowKey")}
    others = {name: value for name, value in values.items() if name not in kept}
    bad = {n: _SCRAMBLED for n, v in others.items() if not isinstance(v, str) or v[:1] in ("{", "[")}
    return kept | bad
