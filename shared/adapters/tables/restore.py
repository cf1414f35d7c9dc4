"""Restores lost tables from an export while the app is stopped.

Until the restore ends, the store has version 0, which no release reads. An app that starts in the meantime responds
503.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from shared.adapters.tables.account import STORE_VERSION, read_row
from shared.adapters.tables.active import due_of
from shared.adapters.tables.export_format import Files, Manifest, TablePart, read_manifest, unpack
from shared.adapters.tables.keys import (
    AFTER_FEED_EVENTS,
    FEED_PARTITION,
    FEED_ROW,
    GATES_ROW,
    HEAD_ROW,
    JOB_ROW,
    TENANTS_PARTITION,
    feed_event_row,
)
from shared.adapters.tables.table import INT64, MAX_OPERATIONS, Table, merge_row, put_row, row_at
from shared.adapters.tables.tenants import AWAKE
from shared.errors import DataLost, ExportUnfit, OtherStoreVersion
from shared.ports.exports import Exported

ExportedRow = dict[str, Any]

#: keys of the row in the tenants' table with the store's version
_SCHEMA = ("schema", "schema")
#: maximum characters of a transaction (the service accepts 4 MiB), and maximum concurrent transactions
_CHARACTERS, _AT_ONCE = 1_000_000, 16
#: maximum time from a job's creation until all of its index rows are written, with the difference of clocks
_MARGIN = timedelta(minutes=5)
#: kinds of index rows whose `created_at` is compared with the start of the export
_OF_A_JOB = frozenset({"ACTIVE", "CLAIM", "LIST", "WAIT"})


class Restore:
    """A restore of the rows of one export into empty tables. `opened` has the tables by role, without a check of the
    version.
    """

    def __init__(self, opened: Mapping[str, Table], files: Files) -> None:
        self._tables = opened
        self._files = files
        #: ids of jobs created around the start of the export that have all their index rows
        self._indexed: set[str] = set()
        #: number of the last event, by partition of a feed
        self._last_events: dict[str, int] = {}

    async def run(self, name: str) -> Exported:
        """Restores an export, or continues a restore of the same export.

        Raises ExportUnfit before the first write if the export is incomplete, damaged or of another store version, or
        if the tables have rows. Raises LedgerUnavailable.
        """
        manifest = await self._check(name)
        await self._begin(manifest)
        rows = 0
        for table in manifest.tables:
            rows += await self._restore(manifest, table)
        await self._head_numbers()
        # a new feed id makes every earlier cursor expire, since numbers of lost events are used again
        feed = self._tables["feed"]
        if await read_row(feed, FEED_PARTITION, FEED_ROW) is not None:
            await feed.write(merge_row({**row_at(FEED_PARTITION, FEED_ROW), "feed_id": secrets.token_hex(8)}))
        await self._tables["tenants"].write(put_row({**row_at(*_SCHEMA), "version": STORE_VERSION}))
        return Exported(name, rows)

    async def _check(self, name: str) -> Manifest:
        try:
            manifest = await read_manifest(self._files, name)
            if not manifest.complete:
                raise ExportUnfit(
                    f"export {name} is not complete; restore an earlier export (`list` shows the exports)"
                )
            for table in manifest.tables:
                for part in table.parts:
                    await unpack(self._files, part)
        except DataLost as lost:
            raise ExportUnfit(
                f"export {name} does not exist, or lacks a part: {lost}; restore another export (`list` shows the "
                "exports)"
            ) from lost
        return manifest

    async def _begin(self, manifest: Manifest) -> None:
        tenants = self._tables["tenants"]
        begun = await read_row(tenants, *_SCHEMA)
        if begun is not None and begun["version"] == OtherStoreVersion.RESTORING:
            if begun.get("restores") != manifest.name:
                raise ExportUnfit(f"a restore of export {begun.get('restores')} is not complete; continue that restore")
            return
        for role, table in self._tables.items():
            async for row in table.query_entities("PartitionKey gt @any", parameters={"any": ""}, results_per_page=2):
                if role == "tenants" and (row["PartitionKey"], row["RowKey"]) == _SCHEMA:
                    continue
                raise ExportUnfit(
                    f"the table of LUCIUS_{role.upper()}_TABLE is not empty; stop the app and delete the tables, or "
                    "set new names in LUCIUS_*_TABLE"
                )
        await tenants.write(
            put_row({**row_at(*_SCHEMA), "version": OtherStoreVersion.RESTORING, "restores": manifest.name})
        )

    async def _restore(self, manifest: Manifest, part_of: TablePart) -> int:
        table, count = self._tables[part_of.role], 0
        limit = asyncio.Semaphore(_AT_ONCE)

        async def write(rows: list[ExportedRow]) -> None:
            async with limit:
                await table.submit_transaction([put_row(row) for row in rows])

        for part in part_of.parts:
            found = await unpack(self._files, part)
            groups = [list(group) for _, group in groupby(found, lambda row: str(row["PartitionKey"]))]
            kept = [self._select(manifest, part_of.role, group) for group in groups]
            count += sum(map(len, kept))
            await asyncio.gather(*(write(each) for rows in kept for each in _transactions(rows)))
        return count

    def _select(self, manifest: Manifest, role: str, rows: list[ExportedRow]) -> list[ExportedRow]:
        """Leaves out rows that are newer than the index, since a job that the sweeper does not find never ends."""
        since = manifest.started_at - _MARGIN
        if role == "tenants":
            # a tenant that slept in the export may have jobs, so the sweeper checks each
            return [_awake(row) for row in rows if (row["PartitionKey"], row["RowKey"]) != _SCHEMA]
        if role == "index":
            return [each for row in rows for each in self._of_index(row, since)]
        if role == "feed":
            for row in rows:
                if feed_event_row(0) < row["RowKey"] < AFTER_FEED_EVENTS:
                    number = int(row["RowKey"].removeprefix("E:"))
                    self._last_events[row["PartitionKey"]] = max(number, self._last_events.get(row["PartitionKey"], 0))
        elif role == "ledger":
            job = next((row for row in rows if row["RowKey"] == JOB_ROW), None)
            if job is not None and _is_after(job.get("created_at"), since) and job["PartitionKey"] not in self._indexed:
                return []
        return rows

    def _of_index(self, row: ExportedRow, since: datetime) -> list[ExportedRow]:
        """Returns the rows to restore for an index row of a tenant. A partition is read in key order: ACTIVE, CLAIM,
        DUE, LIST.

        A job that was created during the read lacks the first of these rows, so the job is left out. A caller can send
        the job's request again. A DUE row that moved or was deleted during the read is missing, so each ACTIVE row
        creates its own DUE row.
        """
        kind = row["RowKey"].partition(":")[0]
        if kind == "DUE":
            return []
        if kind in _OF_A_JOB and _is_after(row.get("created_at"), since):
            if kind == "ACTIVE" or (kind == "CLAIM" and row.get("expires_at")):
                self._indexed.add(row["job_id"])
            elif row["job_id"] not in self._indexed:
                return []
        if kind == GATES_ROW:
            # its counts include jobs that are left out, so the next turn counts first
            return [{**row, "counting_until": since}]
        return [row, due_of(row)] if kind == "ACTIVE" else [row]

    async def _head_numbers(self) -> None:
        """Moves HEAD to the last event, which was exported later than HEAD."""
        feed = self._tables["feed"]
        for partition, number in self._last_events.items():
            head = await read_row(feed, partition, HEAD_ROW)
            if head is not None and int(head["number"]) != number:
                await feed.write(merge_row({**row_at(partition, HEAD_ROW), "number": (number, INT64)}))


def _awake(row: ExportedRow) -> ExportedRow:
    return {**row, "wake_at": AWAKE} if row["PartitionKey"] == TENANTS_PARTITION else row


def _is_after(at: Any, since: datetime) -> bool:
    return isinstance(at, datetime) and at >= since


def _transactions(rows: list[ExportedRow]) -> list[list[ExportedRow]]:
    """Splits the rows of a partition into transactions that the store accepts. If a key is repeated, its last row
    counts.
    """
    found: list[list[ExportedRow]] = [[]]
    characters = 0
    for row in {str(row["RowKey"]): row for row in rows}.values():
        size = sum(len(str(value)) for value in row.values())
        if found[-1] and (len(found[-1]) == MAX_OPERATIONS or characters + size > _CHARACTERS):
            found.append([])
            characters = 0
        found[-1].append(row)
        characters += size
    return found if rows else []
