"""A tenant's LIST, ARCHIVED, CORRELATION and DEAD rows: written as columns, found by their keys alone.

A filter on a column can make the store read any number of rows for one page. So the query names a range of keys, and
`shared.operations.jobs.list_jobs` filters the returned rows.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar, Unpack

from shared.adapters.tables.decoding import decode_all, decode_entity, row_as
from shared.adapters.tables.incidents import job_incident, removes, settles
from shared.adapters.tables.keys import (
    archived_row,
    correlation_row,
    dead_row,
    failed_dependant_row,
    list_row,
)
from shared.adapters.tables.table import (
    Entity,
    RowOperation,
    Tables,
    delete_row,
    merge_row,
    put_row,
    row_at,
    upsert_row,
)
from shared.adapters.tables.table_rows import Query, TableRows, between
from shared.core.incidents import Settlement
from shared.core.jobs.job import Job
from shared.core.jobs.reasons import Reason
from shared.core.jobs.routing import normalise
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import encode_key
from shared.errors import Conflict, Contended
from shared.ports.dead_letters import DeadRow, LetterState, ended_at, letter_at_end
from shared.ports.index import ListRow
from shared.ports.page_range import PageRange

_MILLISECOND = timedelta(milliseconds=1)
#: Race letter: maximum tries, since a redrive, a dismissal and a sweep change the row once each
_MAX_RACES = 5
_READS_AT_ONCE = 16
T = TypeVar("T")


class TablesLists:
    """The part of `shared.ports.index.Index` that lists jobs."""

    def __init__(self, account: Tables, table: str) -> None:
        self._rows = TableRows(account, table)

    async def list_jobs(self, tenant: str, **page: Unpack[PageRange]) -> list[ListRow]:
        return await self._rows.read_decoded(
            _list_query(encode_key(tenant), page, "LIST", list_row), page["limit"], _decode_list_row
        )

    async def list_archived(self, tenant: str, **page: Unpack[PageRange]) -> list[ListRow]:
        return await self._rows.read_decoded(
            _list_query(encode_key(tenant), page, "ARCHIVED", archived_row), page["limit"], _decode_list_row
        )

    async def read_listed(
        self, tenant: str, created_at: datetime, job_id: str, *, correlation_id: str | None = None
    ) -> ListRow | None:
        key = list_row(created_at, job_id)
        of_id = correlation_row(correlation_id, key) if correlation_id is not None else None
        if of_id is not None and await self._rows.read(encode_key(tenant), of_id) is None:
            return None
        return await self._read_row(tenant, key)

    async def list_correlated(
        self, tenant: str, correlation_id: str, *, after: str | None, limit: int
    ) -> list[ListRow]:
        first, end = correlation_row(correlation_id, ":"), correlation_row(correlation_id, ":;")
        position = correlation_row(correlation_id, after) if after is not None else first
        found: list[ListRow] = []
        while len(found) < limit:
            rows = await self._range(tenant, position, end, limit - len(found))
            if not rows:
                break
            for begin in range(0, len(rows), _READS_AT_ONCE):
                keys = [f"LIST:{row['RowKey'].removeprefix(first)}" for row in rows[begin : begin + _READS_AT_ONCE]]
                listed = await asyncio.gather(*(self._read_row(tenant, key) for key in keys))
                # the LIST row of a job may be deleted during the read
                found += [row for row in listed if row is not None]
            position = rows[-1]["RowKey"]
        return found

    async def _read_row(self, tenant: str, row: str) -> ListRow | None:
        entity = await self._rows.read(encode_key(tenant), row)
        found = decode_all(_decode_list_row, [entity] if entity is not None else [])
        return found[0] if found else None

    async def delete_listing(self, job: Job, archived_at: datetime | None = None) -> None:
        listed = list_row(job.created_at, job.job_id)
        keys = [listed, correlation_row(job.correlation_id, listed)]
        place = row_at(encode_key(job.tenant), archived_row(job.created_at, job.job_id))
        is_listed = archived_at is not None and job.error_code != Reason.WITHDRAWN
        added = [put_row({**place, **list_columns(job), "archived_at": archived_at})] if is_listed else []
        try:
            await self._rows.transact([*added, *(delete_row(encode_key(job.tenant), key) for key in keys)])
        except Conflict:
            # one of them is deleted, or the job never had the second
            for operation in added:
                await self._rows.write(operation)
            for key in keys:
                await self._delete(job.tenant, key)
        if letter_at_end(job) is not None:
            await self._delete(job.tenant, dead_row(ended_at(job), job.job_id))
            if (incident := await job_incident(self._rows, job)) is not None:
                await self._rows.transact(removes(incident))
        for awaited in job.dependencies or ():
            await self._delete(job.tenant, failed_dependant_row(awaited, job.job_id))

    async def dead_letters(
        self, tenant: str, *, after: str | None, limit: int, since: datetime | None = None
    ) -> list[DeadRow]:
        # no job ended before it was created
        end = "DEAD;" if since is None else dead_row(since - _MILLISECOND, "")
        return await self._first(tenant, after or "DEAD:", end, limit, _decode_dead_row)

    async def end_dead_letter(
        self, job: Job, state: LetterState, settlement: Settlement | None = None
    ) -> LetterState | None:
        partition = encode_key(job.tenant)
        for _ in range(_MAX_RACES):
            listed = await self._rows.read(partition, list_row(job.created_at, job.job_id))
            if listed is None or listed["status"] != JobStatus.FAILED_FINAL:
                return None
            known = listed.get("dead_letter")
            if known is not None and known != LetterState.LISTED:
                return decode_entity(lambda row: LetterState(row["dead_letter"]), listed)
            operations = [
                _describes(listed, state),
                *([delete_row(partition, dead_row(ended_at(job), job.job_id))] if known else []),
            ]
            if settlement is not None and (incident := await job_incident(self._rows, job)) is not None:
                operations += settles(incident, settlement)
            with contextlib.suppress(Conflict):
                await self._rows.transact(operations)
                return state
        raise Contended("the job's LIST row changed at every try")

    async def _range(self, tenant: str, first: str, end: str, limit: int) -> list[Entity]:
        return await self._rows.first(between(encode_key(tenant), first, end), limit)

    async def _first(
        self,
        tenant: str,
        first: str,
        end: str,
        limit: int,
        decode: Callable[[Entity], T],
        unread: list[str] | None = None,
    ) -> list[T]:
        """Returns the decoded rows, without rows that cannot be decoded (`TableRows.read_decoded`)."""
        return await self._rows.read_decoded(between(encode_key(tenant), first, end), limit, decode, unread)

    async def _delete(self, tenant: str, row: str, etag: str | None = None) -> None:
        await self._rows.delete(encode_key(tenant), row, etag)


def list_columns(job: Job) -> dict[str, Any]:
    """Returns the columns of a LIST row, except the keys, `dead_letter` and `cleared_again`."""
    source = {"source": name} if (name := normalise(job.source or "")) else {}
    return {**_lasting_columns(job), **source, "mode": job.mode, **changing_columns(job)}


def _lasting_columns(job: Job) -> dict[str, Any]:
    """Returns the unchanging columns by which lists are filtered, for LIST and DEAD rows."""
    return {
        "job_id": job.job_id,
        "tenant_id": job.tenant_id,
        "request_type": job.request_type,
        "labels": json.dumps(dict(job.labels), ensure_ascii=False),
        "created_at": job.created_at,
    }


def changing_columns(job: Job) -> dict[str, Any]:
    """Returns the columns of a LIST row that change until the job ends."""
    known = {
        "staged_at": job.staged_at,
        "admitted_at": job.admitted_at,
        "ended_at": job.completed_at,
        "error_code": job.error_code,
    }
    return {
        "status": job.status.value,
        "current_step_id": job.current_step_id,
        "seq": job.event_seq,
        **{name: value for name, value in known.items() if value is not None},
    }


def letter_column(job: Job) -> dict[str, Any]:
    """Returns the column that LIST gets when the job ends, which is the state of the job's dead letter. Returns no
    column if the job has no dead letter.
    """
    state = letter_at_end(job)
    return {"dead_letter": state.value} if state is not None else {}


def dead_inserts(partition: str, job: Job) -> list[RowOperation]:
    """Makes the DEAD row if the job's dead letter is listed, else nothing."""
    if letter_at_end(job) is not LetterState.LISTED:
        return []
    row = {
        **row_at(partition, dead_row(ended_at(job), job.job_id)),
        **_lasting_columns(job),
        "error_code": job.error_code or "",
        "ended_at": ended_at(job),
    }
    return [upsert_row(row)]


def _describes(listed: Entity, state: LetterState) -> RowOperation:
    """Makes the change of LIST's column, which fails if the row has changed since it was read."""
    row = {**row_at(listed["PartitionKey"], listed["RowKey"]), "dead_letter": state.value}
    return merge_row(row, listed.etag)


def _decode_list_row(entity: Entity) -> ListRow:
    return row_as(
        ListRow,
        entity,
        current_step_id=entity.get("current_step_id"),
        labels=json.loads(entity["labels"]),
        cursor=entity["RowKey"],
    )


def _decode_dead_row(entity: Entity) -> DeadRow:
    return row_as(
        DeadRow,
        entity,
        labels=json.loads(entity["labels"]),
        error_code=entity["error_code"] or None,
        cursor=entity["RowKey"],
    )


def _list_query(partition: str, page: PageRange, word: str, key: Callable[[datetime, str], str]) -> Query:
    """Returns the query for a page of the rows whose keys begin with `word`.

    The times bound the key range, so that the query reads only rows within the times.
    """
    since, until = page.get("since"), page.get("until")
    # rows sort newest first; the key has milliseconds, the column the full precision
    first = key(until + _MILLISECOND, "") if until is not None else f"{word}:"
    end = key(since - _MILLISECOND, "") if since is not None else f"{word};"
    query = between(partition, max(page["after"] or "", first), end)
    if until is not None:
        query = query.having("created_at lt @until", until=until)
    return query.having("created_at ge @since", since=since) if since is not None else query
