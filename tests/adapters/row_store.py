"""Tables in memory with the conditions of the store, for tests that change rows behind the adapters."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import count
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.table import Entity, NotThere, Operation
from shared.errors import AlreadyExists, Conflict

_KEYS = ("PartitionKey", "RowKey")
_COMPARED = {
    "eq": lambda one, other: one == other,
    "ge": lambda one, other: one >= other,
    "gt": lambda one, other: one > other,
    "le": lambda one, other: one <= other,
    "lt": lambda one, other: one < other,
}


class RowTable:
    """See `shared.adapters.tables.table.Table`."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], Entity] = {}
        self._etags = count(1)

    def put(self, row: Mapping[str, Any]) -> None:
        """The row as it is, whatever was there."""
        known = {name: value for name, value in row.items() if value is not None}
        longs = [name for name, value in known.items() if isinstance(value, tuple)]
        values = {name: value[0] if name in longs else value for name, value in known.items()}
        longs += getattr(row, "int64", [])
        longs += [name for name, value in values.items() if isinstance(value, int) and abs(value) >= 2**31]
        self.rows[_key(row)] = Entity(values, f"{next(self._etags)}", longs)

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        if (found := self.rows.get((partition_key, row_key))) is None:
            raise NotThere
        return found

    async def query_entities(
        self,
        query_filter: str,
        *,
        parameters: Mapping[str, Any] | None = None,
        select: Sequence[str] | None = None,
        results_per_page: int | None = None,
    ) -> AsyncIterator[Entity]:
        clauses = [clause.split(" ") for clause in query_filter.split(" and ")]
        for _, row in sorted(self.rows.items()):
            if all(
                name in row and _COMPARED[operator](row[name], (parameters or {})[value.removeprefix("@")])
                for name, operator, value in clauses
            ):
                chosen = {name: each for name, each in row.items() if select is None or name in select}
                yield Entity(chosen, row.metadata["etag"], row.int64)

    async def submit_transaction(self, operations: Sequence[Operation]) -> list[dict[str, Any]]:
        before = dict(self.rows)
        try:
            return [{"etag": self._do(*operation)} for operation in operations]
        except Exception:
            self.rows = before
            raise

    def _do(self, verb: str, row: Mapping[str, Any], options: Mapping[str, Any] | None = None) -> str | None:
        options, found = options or {}, self.rows.get(_key(row))
        assert all(not isinstance(each, int) or abs(each) < 2**31 for each in row.values()), "it has no type"
        if verb == "create" and found is not None:
            raise AlreadyExists
        if verb in ("update", "delete") and found is None:
            raise NotThere
        is_fenced = options.get("match_condition") is MatchConditions.IfNotModified
        if is_fenced and found is not None and found.metadata["etag"] != options["etag"]:
            raise Conflict
        if verb == "delete":
            del self.rows[_key(row)]
            return None
        is_merge = verb != "create" and options.get("mode", UpdateMode.MERGE) is UpdateMode.MERGE
        kept = Entity(found, None, found.int64) if is_merge and found is not None else Entity({}, None)
        kept.update({name: value for name, value in row.items() if value is not None})
        self.put(kept)
        return self.rows[_key(row)].metadata["etag"]

    async def upsert_entity(self, entity: Mapping[str, Any], mode: UpdateMode = UpdateMode.MERGE) -> None:
        self._do("upsert", entity, {"mode": mode})

    async def update_entity(
        self, entity: Mapping[str, Any], mode: UpdateMode = UpdateMode.MERGE, **condition: Any
    ) -> None:
        self._do("update", entity, {"mode": mode, **condition})

    async def delete_entity(self, partition_key: str, row_key: str, **condition: Any) -> None:
        if (partition_key, row_key) in self.rows:
            self._do("delete", {"PartitionKey": partition_key, "RowKey": row_key}, condition)


def _key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row["PartitionKey"], row["RowKey"]


class RowAccount:
    """The tables of a ledger, by name."""

    def __init__(self) -> None:
        self.tables: dict[str, RowTable] = {}

    async def table(self, name: str) -> RowTable:
        return self.tables.setdefault(name, RowTable())


class RowTexts:
    """See `shared.adapters.tables.claim_check.TextStore`."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def put(self, name: str, text: str) -> None:
        self.texts[name] = text

    async def get(self, name: str) -> str:
        return self.texts.get(name, '{"text":"x"}')

    async def remove(self, prefix: str) -> None:
        for name in [name for name in self.texts if name.startswith(prefix)]:
            del self.texts[name]
