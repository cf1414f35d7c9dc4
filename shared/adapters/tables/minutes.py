"""`Minutes` over Azure Tables: one partition of the index table. The key of a process's row has one part more than the
key of the minute's row.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from shared.adapters.tables.columns import join_json, split_json
from shared.adapters.tables.decoding import decode_all
from shared.adapters.tables.keys import MINUTES_PARTITION, minute_row
from shared.adapters.tables.table import MAX_OPERATIONS, Entity, RowOperation, Tables, delete_row, replace_row, row_at
from shared.adapters.tables.table_rows import TableRows, all_of
from shared.core.overview.minutes import KEPT_FOR, MinuteCounts, minute_of
from shared.errors import AlreadyExists, Conflict

#: maximum rows of one query: an hour of minutes, and the rows of many processes
_MAX_ROWS = 1000


class TablesMinutes:
    """Implementation of `shared.ports.minutes.Minutes` over Azure Tables."""

    def __init__(self, account: Tables, table: str) -> None:
        self._rows = TableRows(account, table)

    async def add(self, counts: Mapping[datetime, MinuteCounts], writer: str) -> None:
        rows = [("create", _entity(f"{minute_row(minute)}:{writer}", each)) for minute, each in counts.items()]
        await self._rows.transact(rows[-MAX_OPERATIONS:])

    async def read(self, since: datetime) -> dict[datetime, MinuteCounts]:
        found: dict[datetime, MinuteCounts] = {}
        for minute, counts in decode_all(_decode, await self._since(minute_row(minute_of(since)))):
            found[minute] = found.get(minute, MinuteCounts()) + counts
        return found

    async def fold(self, now: datetime, active: Mapping[str, int] | None) -> None:
        rows = await self._since("")
        oldest, current = minute_row(minute_of(now - KEPT_FOR)), minute_row(minute_of(now))
        old = [row for row in rows if _minute_key(row) < oldest]
        for first in range(0, len(old), MAX_OPERATIONS):
            await self._rows.delete_all(old[first : first + MAX_OPERATIONS])
        kept = {key: list(group) for key, group in groupby(rows[len(old) :], _minute_key)}
        if active is not None:
            kept.setdefault(current, [])
        for key, group in kept.items():
            state = active if key == current else None
            added = [row for row in group if row["RowKey"] != key][: MAX_OPERATIONS - 1]
            if added or state is not None:
                known = next((row for row in group if row["RowKey"] == key), None)
                await self._unless_changed(_merge_rows(key, known, added, state))

    async def _since(self, key: str) -> list[Entity]:
        return await self._rows.first(all_of(MINUTES_PARTITION).having("RowKey ge @since", since=key), _MAX_ROWS)

    async def _unless_changed(self, operations: list[RowOperation]) -> None:
        """Ignores a conflict, since another sweeper already made the same change."""
        with contextlib.suppress(AlreadyExists, Conflict):
            await self._rows.transact(operations)


def _merge_rows(
    key: str, known: Entity | None, added: Sequence[Entity], active: Mapping[str, int] | None
) -> list[RowOperation]:
    """Returns the operations that add the counts of the other rows to the minute's row, and delete the other rows. A
    row that cannot be decoded adds nothing.
    """
    rows = [*([known] if known is not None else []), *added]
    counts = sum((each for _, each in decode_all(_decode, rows)), MinuteCounts())
    counts.active = active if active is not None else counts.active
    row, deletes = _entity(key, counts), [delete_row(MINUTES_PARTITION, each["RowKey"]) for each in added]
    return [("create", row) if known is None else replace_row(row, known.etag), *deletes]


def _minute_key(row: Entity) -> str:
    return ":".join(str(row["RowKey"]).split(":")[:2])


def _entity(row: str, counts: MinuteCounts) -> dict[str, Any]:
    latencies = [[*phase, sorted(buckets.items())] for phase, buckets in counts.latencies.items()]
    return {
        **row_at(MINUTES_PARTITION, row),
        **split_json("ends", [[*end, count] for end, count in counts.ends.items()]),
        **split_json("latencies", latencies),
        **split_json("active", counts.active),
    }


def _decode(row: Entity) -> tuple[datetime, MinuteCounts]:
    counts = MinuteCounts(
        ends=Counter({(tenant, status, reason): int(n) for tenant, status, reason, n in join_json("ends", row)}),
        latencies={
            (service, phase): Counter({int(bucket): int(n) for bucket, n in buckets})
            for service, phase, buckets in join_json("latencies", row)
        },
        active=join_json("active", row),
    )
    return datetime.strptime(_minute_key(row), "MINUTE:%Y%m%d%H%M").replace(tzinfo=UTC), counts
