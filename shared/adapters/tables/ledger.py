"""`Ledger` over Azure Tables: one partition per job, one entity-group transaction per transition (R33)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from shared.adapters.tables import rows
from shared.adapters.tables.claim_check import TextStore, offload_all, restore
from shared.adapters.tables.decoding import decode_entity, row_as
from shared.adapters.tables.keys import ARCHIVED_ROW, JOB_ROW, event_row, step_row
from shared.adapters.tables.table import (
    MAX_OPERATIONS,
    Entity,
    RowOperation,
    Tables,
    delete_row,
    put_row,
    replace_row,
    row_at,
)
from shared.adapters.tables.table_rows import TableRows, all_of, between
from shared.adapters.tables.unknown_members import keep
from shared.core.jobs.job import Event, Record
from shared.core.jobs.states import JobStatus
from shared.errors import AlreadyExists, Conflict, DataLost, Undecodable, UnknownStatus
from shared.ports.ledger import ArchivedRow, Stored

_OF_JOB, _OF_STEP = (
    frozenset({"PartitionKey", "RowKey", *columns}) for columns in (rows.JOB_COLUMNS, rows.STEP_COLUMNS)
)
_TERMINAL = frozenset(status.value for status in JobStatus if status.terminal)


class TablesLedger:
    """Implementation of `shared.ports.ledger.Ledger` over Azure Tables."""

    def __init__(self, account: Tables, table: str, texts: TextStore) -> None:
        self._rows = TableRows(account, table)
        self._texts = texts

    async def read(self, job_id: str) -> Stored | None:
        try:
            return await self._read(job_id)
        except DataLost:
            # the job may have been deleted after its rows were read
            return await self._read(job_id)

    async def _read(self, job_id: str) -> Stored | None:
        found: list[Entity] = []
        etag, tenant_id = "", None
        # EVENT sorts before JOB, and STEP after it, so one range has the job without its history
        async for entity in self._rows.query(all_of(job_id).having("RowKey ge @first", first=JOB_ROW)):
            if entity["RowKey"] == JOB_ROW:
                etag, tenant_id = entity.etag, entity.get("tenant_id")
            try:
                found.append(await restore(entity, self._texts))
            except DataLost as lost:
                raise DataLost(lost.blob, tenant_id) from lost
        if not found or found[0]["RowKey"] != JOB_ROW:
            return None
        try:
            record = Record(
                decode_entity(rows.job_of, found[0]), tuple(decode_entity(rows.step_of, each) for each in found[1:])
            )
        except UnknownStatus as unknown:
            raise UnknownStatus(unknown.status, tenant_id) from unknown
        except Undecodable as row:
            raise Undecodable(row.row, row.why, tenant_id) from row
        return Stored(record, etag, {each["RowKey"]: each for each in found if _has_unknown(each)})

    async def end_of(self, job_id: str) -> tuple[int, bool] | None:
        query = all_of(job_id).having("RowKey eq @row", row=JOB_ROW)
        async for entity in self._rows.query(query, select=["PartitionKey", "RowKey", "event_seq", "status"]):
            # the full read raises for a status that only a later release knows
            return decode_entity(lambda row: (int(row["event_seq"]), row["status"] in _TERMINAL), entity)
        return None

    async def create(self, record: Record, event: Event) -> Stored:
        entities = [
            rows.job_entity(record.job),
            *(rows.step_entity(record.job.job_id, step) for step in record.steps),
            rows.event_entity(event),
        ]
        operations = [("create", entity) for entity in await offload_all(entities, self._texts)]
        meta = await self._rows.transact(operations)
        return Stored(record, meta[0]["etag"])

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        changed = [new for old, new in zip(before.record.steps, after.steps, strict=True) if new is not old]
        entities = [
            rows.job_entity(after.job),
            *(rows.step_entity(after.job.job_id, step) for step in changed),
            *(rows.event_entity(event) for event in events),
        ]
        entities[: 1 + len(changed)] = [
            keep(before.rows.get(entity["RowKey"]), columns, entity)
            for entity, columns in zip(
                entities, [rows.JOB_COLUMNS, *(rows.STEP_COLUMNS for _ in changed)], strict=False
            )
        ]
        job, *others = await offload_all(entities, self._texts)
        operations: list[RowOperation] = [replace_row(job, before.etag)]
        operations += [replace_row(entity) for entity in others[: len(changed)]]
        operations += [("create", entity) for entity in others[len(changed) :]]
        try:
            meta = await self._rows.transact(operations)
        except AlreadyExists as taken:
            # Race conflict: another commit has the EVENT's number
            raise Conflict from taken
        return Stored(after, meta[0]["etag"], before.rows)

    async def remove(self, stored: Stored, archived: ArchivedRow | None = None) -> None:
        job = stored.record.job
        keys = [step_row(step.step_index, step.step_id) for step in stored.record.steps]
        operations = [delete_row(job.job_id, JOB_ROW, stored.etag)]
        operations += [delete_row(job.job_id, key) for key in keys]
        if archived is not None:
            operations.append(put_row({**row_at(job.job_id, ARCHIVED_ROW), **vars(archived)}))
        await self._rows.transact(operations)
        await self.delete_remainder(job.job_id)

    async def find_archived(self, job_id: str) -> ArchivedRow | None:
        entity = await self._rows.read(job_id, ARCHIVED_ROW)
        if entity is None:
            return None
        try:
            return decode_entity(partial(row_as, ArchivedRow), entity)
        except Undecodable as row:
            raise Undecodable(row.row, row.why, entity.get("tenant")) from row

    async def delete_remainder(self, job_id: str, *, with_archived: bool = False) -> None:
        found = self._rows.query(all_of(job_id), select=["PartitionKey", "RowKey"])
        rows = [row async for row in found if with_archived or row["RowKey"] != ARCHIVED_ROW]
        for start in range(0, len(rows), MAX_OPERATIONS):
            # Race sweeps: another process may be deleting it
            await self._rows.delete_all(rows[start : start + MAX_OPERATIONS])
        await self._texts.remove(f"{job_id}/")

    async def find_event(self, job_id: str, cause_id: str) -> Event | None:
        query = all_of(job_id).having("RowKey lt @end and cause_id eq @cause", end=JOB_ROW, cause=cause_id)
        async for entity in self._rows.query(query):
            return decode_entity(rows.event_of, await restore(entity, self._texts))
        return None

    async def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        query = between(job_id, event_row(after_seq), JOB_ROW)
        # strict: a history with a gap is not valid
        return [
            decode_entity(rows.event_of, await restore(entity, self._texts))
            for entity in await self._rows.first(query, limit)
        ]


def _has_unknown(row: Entity) -> bool:
    return not row.keys() <= (_OF_JOB if row["RowKey"] == JOB_ROW else _OF_STEP)
