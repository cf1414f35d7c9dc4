"""`Usage` over Azure Tables: USAGE and SOURCE rows in a tenant's partition, REFOLD rows, and the positions of rollups.

An hour has up to four USAGE rows, each with one kind of writer. The rows are `JOBS` (the rollup), `FOLDING` (an
unfinished rollup), `PEAK` (the sweeper's checks) and `REJECTED` (every process). Their content is JSON in one or more
columns (`columns.split_json`). A write replaces the first three rows completely, and so drops counts of a later
release.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from shared.adapters.tables.columns import join_json, split_json
from shared.adapters.tables.decoding import decode_all, decode_entity, row_as
from shared.adapters.tables.keys import (
    FOLD_ROW,
    GUARD_PARTITION,
    fold_again_row,
    share_row,
    source_row,
    usage_before,
    usage_row,
)
from shared.adapters.tables.table import Entity, Tables, put_row, replace_row, row_at, upsert_row
from shared.adapters.tables.table_rows import TableRows, between
from shared.adapters.tables.unknown_members import keep
from shared.core.records.canonical import encode_key
from shared.core.usage import Counted, Group, HourUsage, group_in
from shared.errors import AlreadyExists, Conflict, Contended
from shared.ports.usage import MAX_SOURCES, Folding, FoldPosition, SeenSource

_JOBS, _FOLDING, _PEAK, _REJECTED = "JOBS", "FOLDING", "PEAK", "REJECTED"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: maximum rows of a query: a month of hours
_MAX_ROWS = 4 * 24 * 32
_MAX_RACES = 8
_FIRST_WAIT_S = 0.02


class TablesUsage:
    """Implementation of `shared.ports.usage.Usage` over Azure Tables."""

    def __init__(
        self, account: Tables, table: str, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._rows = TableRows(account, table)
        self._sleep = sleep

    async def hours(self, tenant: str, first: datetime, end: datetime) -> list[HourUsage]:
        found: dict[datetime, dict[str, Any]] = {}
        rows = await self._range(encode_key(tenant), usage_before(first), usage_before(end), _MAX_ROWS)
        for hour, known in decode_all(_part_of, rows):
            found.setdefault(hour, {"hour": hour}).update(known)
        return [HourUsage(**known) for _, known in sorted(found.items())]

    async def put_jobs(self, tenant: str, hour: datetime, jobs: Mapping[Group, Counted]) -> None:
        await self._put(tenant, hour, _JOBS, _jobs_json(jobs))

    async def put_peaks(self, tenant: str, hour: datetime, peaks: Mapping[tuple[str, str], int]) -> None:
        await self._put(tenant, hour, _PEAK, _counts_json(peaks))

    async def add_refused(self, tenant: str, hour: datetime, refused: Mapping[Group, int]) -> None:
        for race in range(_MAX_RACES):
            entity = await self._rows.read(encode_key(tenant), usage_row(hour, _REJECTED))
            known = decode_entity(lambda row: _counts_of(_content(row)), entity) if entity is not None else {}
            before = _row(tenant, hour, _REJECTED, _counts_json(known))
            for group, count in refused.items():
                key = group_in(known, group)
                known[key] = known.get(key, 0) + count
            row = keep(entity, before, _row(tenant, hour, _REJECTED, _counts_json(known)), parts=["content"])
            try:
                await self._rows.transact([replace_row(row, entity.etag) if entity is not None else ("create", row)])
            except (Conflict, AlreadyExists):
                await self._sleep(_FIRST_WAIT_S * 2**race * random.random())
            else:
                return
        raise Contended("concurrent writers changed the counts of refused requests at every try")

    async def read_folding(self, tenant: str, hour: datetime) -> Folding:
        entity = await self._rows.read(encode_key(tenant), usage_row(hour, _FOLDING))
        # a rollup whose row cannot be decoded starts again
        found = decode_all(_folding_of, [entity] if entity is not None else [])
        return found[0] if found else Folding()

    async def write_folding(self, tenant: str, hour: datetime, folding: Folding | None) -> None:
        if folding is None:
            await self._rows.delete(encode_key(tenant), usage_row(hour, _FOLDING))
            return
        await self._put(tenant, hour, _FOLDING, _jobs_json(folding.jobs), cursor=folding.cursor)

    async def remove_before(self, tenant: str, hour: datetime, *, limit: int) -> None:
        for entity in await self._range(encode_key(tenant), "USAGE:", usage_before(hour), limit):
            await self._rows.delete(entity["PartitionKey"], entity["RowKey"])

    async def put_fold_again(self, tenant: str, hour: datetime) -> None:
        row = {**row_at(GUARD_PARTITION, fold_again_row(hour, tenant)), "tenant": tenant, "hour": hour}
        await self._rows.write(upsert_row(row))

    async def list_fold_again(self, before: datetime, *, after: str, limit: int) -> list[tuple[datetime, str, str]]:
        first, end = after or fold_again_row(None, ""), fold_again_row(before, "")
        query = between(GUARD_PARTITION, first, end)
        return await self._rows.read_decoded(query, limit, lambda row: (row["hour"], row["tenant"], row["RowKey"]))

    async def delete_fold_again(self, tenant: str, hour: datetime) -> None:
        await self._rows.delete(GUARD_PARTITION, fold_again_row(hour, tenant))

    async def read_position(self, share: int) -> FoldPosition:
        row = share_row(FOLD_ROW, share)
        return await self._rows.find(GUARD_PARTITION, row, _fold_position_of) or FoldPosition()

    async def write_position(self, share: int, position: FoldPosition) -> None:
        row = {**row_at(GUARD_PARTITION, share_row(FOLD_ROW, share)), "hour": position.next, "tenant": position.tenant}
        await self._rows.write(upsert_row(row))

    async def see_source(self, tenant: str, source: SeenSource) -> bool:
        partition, key = encode_key(tenant), source_row(source.name)
        last = {**row_at(partition, key), "name": source.name, "last_job": source.last_job, "last_at": source.last_at}
        if await self._rows.read(partition, key) is None:
            known = await self._range(partition, "SOURCE:", "SOURCE;", MAX_SOURCES)
            if len(known) >= MAX_SOURCES:
                oldest = min(known, key=lambda row: (row.get("last_at", _EPOCH), row["RowKey"]))
                if oldest.get("last_at", _EPOCH) >= source.last_at:
                    return False
                await self._rows.delete(partition, oldest["RowKey"])
            last |= {"first_job": source.first_job, "first_at": source.first_at}
        await self._rows.write(upsert_row(last))
        return True

    async def sources(self, tenant: str, *, after: str, limit: int) -> list[SeenSource]:
        query = between(encode_key(tenant), after or "SOURCE:", "SOURCE;")
        return await self._rows.read_decoded(query, limit, _source_of)

    async def _put(self, tenant: str, hour: datetime, part: str, content: Any, **columns: Any) -> None:
        await self._rows.write(put_row({**_row(tenant, hour, part, content), **columns}))

    async def _range(self, partition: str, first: str, end: str, limit: int) -> list[Entity]:
        return await self._rows.first(between(partition, first, end), limit)


def _source_of(row: Entity) -> SeenSource | None:
    """Returns the source. Returns None if the source was dropped while a job named the source again."""
    if "first_at" not in row:
        return None
    return row_as(SeenSource, row, cursor=row["RowKey"])


def _part_of(row: Entity) -> tuple[datetime, dict[str, Any]]:
    """Returns the hour of a USAGE row, and its fields of `HourUsage`."""
    known: dict[str, Any] = {}
    match row["part"]:
        case "JOBS":
            known = {"jobs": _jobs_of(_content(row)), "folded": True}
        case "PEAK":
            known = {"peaks": _counts_of(_content(row))}
        case "REJECTED":
            known = {"refused": _counts_of(_content(row))}
    return row["hour"], known


def _folding_of(row: Entity) -> Folding:
    return Folding(_jobs_of(_content(row)), row["cursor"])


def _fold_position_of(row: Entity) -> FoldPosition:
    return FoldPosition(row["hour"], row["tenant"])


def _row(tenant: str, hour: datetime, part: str, content: Any) -> dict[str, Any]:
    return {
        **row_at(encode_key(tenant), usage_row(hour, part)),
        "hour": hour.astimezone(UTC),
        "part": part,
        **split_json("content", content),
    }


def _content(entity: Entity) -> Any:
    return join_json("content", entity)


def _counts_json(counts: Mapping[Group, int]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (kind, name), count in counts.items():
        found.setdefault(kind, {})[name] = count
    return found


def _counts_of(content: Mapping[str, Mapping[str, int]]) -> dict[Group, int]:
    return {(kind, name): int(count) for kind, names in content.items() for name, count in names.items()}


def _jobs_json(jobs: Mapping[Group, Counted]) -> list[Any]:
    return [
        [*group, each.created, each.admitted, each.staged, each.ended, sorted(each.waits.items())]
        for group, each in jobs.items()
    ]


def _jobs_of(content: Iterable[Any]) -> dict[Group, Counted]:
    return {
        (job_type, source): Counted(created, admitted, staged, ended, Counter(dict(waits)))
        for job_type, source, created, admitted, staged, ended, waits, *_ in content
    }
