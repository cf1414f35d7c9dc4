"""`LedgerExports` over Azure Tables and blobs. Exports part by part, so that an interrupted run can continue."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from shared.adapters.tables.account import read_row
from shared.adapters.tables.export_format import (
    NAME,
    Files,
    Manifest,
    Part,
    TablePart,
    encode_record,
    manifest_blob,
    pack,
    read_manifest,
)
from shared.adapters.tables.keys import AFTER_FEED_EVENTS, HEAD_ROW, JOB_ROW, event_row, feed_event_row
from shared.adapters.tables.table import Entity, Table, Tables
from shared.adapters.tables.table_rows import all_of
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import digest
from shared.errors import DataLost, ExportLate, ExportUnfit, LedgerUnavailable
from shared.ports.exports import Exported

#: maximum characters of the rows in a part, before compression
_PART_CHARACTERS = 8_000_000
#: maximum time of an export; a slower one is dropped, since the next would not finish either
_LONGEST = timedelta(days=2)
#: maximum reads of a job's rows until they are of one transaction, and seconds between them
_READS, _READ_AGAIN_S = 5, 0.2
_PAGE = 1000
_TERMINAL = frozenset(status.value for status in JobStatus if status.terminal)
#: key after all rows of a job
_AFTER_ROWS = "~"


@dataclass
class _Open:
    """The rows of a part that is not written yet."""

    rows: list[str] = field(default_factory=list)
    characters: int = 0

    def add(self, row: Entity) -> None:
        line = encode_record(row)
        self.rows.append(line)
        self.characters += len(line)


class TablesExports:
    """Implementation of `shared.ports.exports.LedgerExports` over Azure Tables."""

    def __init__(self, account: Tables, names: Mapping[str, str], files: Files, source: str = "") -> None:
        """Sets the tables and the container.

        `names` has the table of each role in `ROLES`. `source` is the account of the tables, since the container can
        have exports of several apps.
        """
        self._suffix = f"-{digest(source)[:8]}"
        self._account = account
        self._names = names
        self._files = files

    async def begin(self, now: datetime) -> None:
        """Starts an export, even if the day already has an export. `go_on` continues the export. Raises
        LedgerUnavailable.
        """
        await self._take_over(Manifest(self._name(now), now))

    async def go_on(self, now: datetime, is_over: Callable[[], bool]) -> Exported | None:
        manifest = await self._current(now)
        if manifest.complete:
            return None
        if now - manifest.started_at > _LONGEST:
            await self._files.remove(f"{manifest.name}/")
            raise ExportLate(
                f"export {manifest.name} was not complete after two days ({manifest.rows:,} rows); the app removed the "
                "export"
            )
        for table in manifest.tables:
            if not table.done and not await self._export(manifest, table, is_over):
                return None
        manifest.complete, manifest.ended_at = True, now
        await self._save(manifest)
        return Exported(manifest.name, manifest.rows)

    async def remove_before(self, before: datetime) -> None:
        names = await self._own()
        old = [name for name in names if name < before.strftime(NAME)]
        keep = None
        for name in reversed(names) if old else ():
            if await self._is_complete(name):
                keep = name
                break
        for name in old:
            if name != keep:
                await self._files.remove(f"{name}/")

    async def _is_complete(self, name: str) -> bool:
        try:
            return (await read_manifest(self._files, name)).complete
        except (DataLost, ExportUnfit):
            return False

    async def _current(self, now: datetime) -> Manifest:
        """Returns the export of the day, else an incomplete export of this release, else a new export."""
        names = await self._own()
        if names:
            try:
                last = await read_manifest(self._files, names[-1])
            except (DataLost, ExportUnfit):
                last = None
            if last is not None and last.complete and last.started_at.date() == now.date():
                return last
            if last is not None and not last.complete:
                return await self._take_over(last)
        return await self._take_over(Manifest(self._name(now), now))

    def _name(self, now: datetime) -> str:
        return now.strftime(NAME) + self._suffix

    async def _own(self) -> list[str]:
        """Returns the names of this account's exports, in order."""
        return [name for name in await self._files.folders() if name.endswith(self._suffix)]

    async def _take_over(self, manifest: Manifest) -> Manifest:
        manifest.writer = secrets.token_hex(4)
        await self._save(manifest)
        return manifest

    async def _save(self, manifest: Manifest) -> None:
        await self._files.put_bytes(manifest_blob(manifest.name), manifest.text().encode())

    async def _export(self, manifest: Manifest, part_of: TablePart, is_over: Callable[[], bool]) -> bool:
        """Exports the table. Returns True if the export is complete, or False if `is_over` stopped the export."""
        table = await self._account.table(self._names[part_of.role])
        if not part_of.read and not await self._export_rows(manifest, part_of, table, is_over):
            return False
        if not await self._export_later_events(manifest, part_of, table, is_over):
            return False
        part_of.done, manifest.position = True, None
        await self._flush(manifest, part_of, _Open())
        return True

    async def _export_rows(
        self, manifest: Manifest, part_of: TablePart, table: Table, is_over: Callable[[], bool]
    ) -> bool:
        part, is_ledger = _Open(), part_of.role == "ledger"
        async for partition, rows in _groups(table, manifest.position, whole=is_ledger):
            settled = await _read_consistent(table, partition, rows) if is_ledger else rows
            for row in settled:
                part.add(row)
            if part_of.role == "feed":
                manifest.feeds |= _last_events(partition, rows, manifest.feeds)
            # rows that the job gets later belong to the next export
            manifest.position = (partition, _AFTER_ROWS if is_ledger else rows[-1]["RowKey"])
            if part.characters >= _PART_CHARACTERS or is_over():
                await self._flush(manifest, part_of, part)
                part = _Open()
                if is_over():
                    return False
        part_of.read = True
        await self._flush(manifest, part_of, part)
        return True

    async def _export_later_events(
        self, manifest: Manifest, part_of: TablePart, table: Table, is_over: Callable[[], bool]
    ) -> bool:
        """Exports events that were added to each feed during its read. Returns True if all these events are exported.

        The rows with a job's position in the feed are read later than the feed. The function makes one query per feed.
        `manifest.feeds` has the remaining feeds, so the next run continues there.
        """
        part = _Open()
        for partition, last in list(manifest.feeds.items()):
            async for row in _later_events(table, partition, last):
                part.add(row)
                manifest.feeds[partition] = row["RowKey"]
                if part.characters >= _PART_CHARACTERS:
                    await self._flush(manifest, part_of, part)
                    part = _Open()
            del manifest.feeds[partition]
            if is_over():
                break
        await self._flush(manifest, part_of, part)
        return not manifest.feeds

    async def _flush(self, manifest: Manifest, part_of: TablePart, part: _Open) -> None:
        """Writes the part, then the manifest that names the part. An interrupted run writes the part again.

        Raises LedgerUnavailable if another process continues the export.
        """
        if (await read_manifest(self._files, manifest.name)).writer != manifest.writer:
            raise LedgerUnavailable(f"another process continues export {manifest.name}")
        if part.rows:
            content, digest = pack(part.rows)
            blob = f"{manifest.name}/{part_of.role}/{len(part_of.parts):06d}-{manifest.writer}.ndjson.gz"
            await self._files.put_bytes(blob, content)
            part_of.parts.append(Part(blob, digest, len(part.rows)))
        await self._save(manifest)


async def _groups(
    table: Table, position: tuple[str, str] | None, *, whole: bool
) -> AsyncIterator[tuple[str, list[Entity]]]:
    """Yields rows by partition in key order, after `position`. With `whole`, yields each partition as one group."""
    held: list[Entity] = []
    async for page in _pages(table, position):
        held += page
        groups = [(partition, list(rows)) for partition, rows in groupby(held, lambda row: str(row["PartitionKey"]))]
        held = groups.pop()[1] if whole else []
        for group in groups:
            yield group
    if held:
        yield held[0]["PartitionKey"], held


async def _pages(table: Table, position: tuple[str, str] | None) -> AsyncIterator[list[Entity]]:
    partition, row = position or ("", "")
    queries: list[tuple[str, dict[str, Any]]] = [("PartitionKey gt @partition", {"partition": partition})]
    if position is not None:
        queries.insert(0, ("PartitionKey eq @partition and RowKey gt @row", {"partition": partition, "row": row}))
    page: list[Entity] = []
    for text, parameters in queries:
        async for entity in table.query_entities(text, parameters=parameters, results_per_page=_PAGE):
            page.append(entity)
            if len(page) == _PAGE:
                yield page
                page = []
    if page:
        yield page


async def _read_consistent(table: Table, partition: str, rows: list[Entity]) -> list[Entity]:
    """Returns a job's rows as one transaction left them, since a transition during the read can mix two states. Raises
    LedgerUnavailable if the rows changed during each of `_READS` reads.

    If the rows stay inconsistent while JOB does not change, the table itself is inconsistent. The rows are then
    exported unchanged, so that one such job does not stop every export.
    """
    before = ""
    for _ in range(_READS):
        job = next((row for row in rows if row["RowKey"] == JOB_ROW), None)
        # without JOB, the job is being deleted; EVENT rows are before JOB, STEP rows after it
        last = max((str(row["RowKey"]) for row in rows if row["RowKey"] < JOB_ROW), default=event_row(0))
        if job is None or ((_fits(job, last) or job.etag == before) and await _is_unmoved(table, job)):
            return rows
        before = job.etag
        await asyncio.sleep(_READ_AGAIN_S)
        query = all_of(partition)
        rows = [row async for row in table.query_entities(query.text, parameters=query.parameters)]
    raise LedgerUnavailable(f"the rows of job {partition} changed during {_READS} reads; the next run exports them")


def _fits(job: Entity, last: str) -> bool:
    return isinstance(number := job.get("event_seq"), int) and event_row(number) == last


async def _is_unmoved(table: Table, job: Entity) -> bool:
    """Returns True if the job has not changed since its row was read. The steps of an ended job never change."""
    if job.get("status") in _TERMINAL:
        return True
    now = await read_row(table, job["PartitionKey"], JOB_ROW)
    return now is not None and now.etag == job.etag


def _last_events(partition: str, rows: list[Entity], known: Mapping[str, str]) -> dict[str, str]:
    keys = [str(row["RowKey"]) for row in rows]
    events = [key for key in keys if feed_event_row(0) < key < AFTER_FEED_EVENTS]
    if events:
        return {partition: events[-1]}
    # a feed without events: exports events that are added before its SEEN rows are read
    return {partition: feed_event_row(0)} if HEAD_ROW in keys and partition not in known else {}


async def _later_events(table: Table, partition: str, last: str) -> AsyncIterator[Entity]:
    query = all_of(partition).having("RowKey gt @last and RowKey lt @end", last=last, end=AFTER_FEED_EVENTS)
    async for row in table.query_entities(query.text, parameters=query.parameters):
        yield row
