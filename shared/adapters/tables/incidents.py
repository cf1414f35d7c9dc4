"""`Incidents` over Azure Tables: INCIDENT and INCIDENTLOG rows, in the partition of a tenant or in the partition of all
tenants.

The partition of all tenants also has OPEN rows for open incidents, and OF rows for each tenant's incidents without a
job. A SUBJECT row prevents a second open incident of the same subject. The transaction of the INCIDENT row writes all
these rows except the OPEN rows of jobs' incidents.
"""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Unpack

from shared.adapters.tables.decoding import decode_entity, row_as
from shared.adapters.tables.keys import INCIDENTS_PARTITION, incident_log_row, newest_first
from shared.adapters.tables.log_rows import entry_entity, entry_of
from shared.adapters.tables.table import Entity, RowOperation, Tables, delete_row, merge_row, row_at, upsert_row
from shared.adapters.tables.table_rows import TableRows, between
from shared.core.incidents import (
    Incident,
    IncidentEntry,
    IncidentKind,
    IncidentState,
    Settlement,
    apply_settlement,
    escalates,
    incident_of,
    job_incident_id,
)
from shared.core.jobs.job import Job
from shared.core.records.canonical import digest, encode_key
from shared.errors import AlreadyExists, Conflict, Contended
from shared.ports.dead_letters import ended_at
from shared.ports.incidents import IncidentRow
from shared.ports.page_range import PageRange

_ROW, _OPEN = "INCIDENT", "OPEN"
_MILLISECOND = timedelta(milliseconds=1)
#: Race incident: maximum tries, since few processes settle one at the same time
_MAX_RACES = 5


class TablesIncidents:
    """Implementation of `shared.ports.incidents.Incidents` over Azure Tables."""

    def __init__(self, account: Tables, index_table: str, gates_table: str) -> None:
        self._index = TableRows(account, index_table)
        self._gates = TableRows(account, gates_table)

    async def read(self, home: str | None, incident_id: str, opened_at: datetime) -> Incident | None:
        rows, partition = self._place(home)
        return await rows.find(partition, newest_first(_ROW, opened_at, incident_id), _incident_of)

    async def list_at(self, home: str | None, **page: Unpack[PageRange]) -> list[IncidentRow]:
        return await _rows(*self._place(home), _ROW, page)

    async def list_of_tenant(self, tenant: str, **page: Unpack[PageRange]) -> list[IncidentRow]:
        return await _rows(*self._place(None), _of(tenant), page)

    async def list_open(self, **page: Unpack[PageRange]) -> list[IncidentRow]:
        return await _rows(*self._place(None), _OPEN, page)

    async def enter_open(self, incident: Incident, now: datetime) -> None:
        listed = {**_entity(INCIDENTS_PARTITION, _OPEN, incident), "entered_at": now}
        await self._gates.write(upsert_row(listed))

    async def leave_open(self, incident: Incident, *, etag: str | None = None) -> None:
        row = newest_first(_OPEN, incident.opened_at, incident.id)
        await self._gates.delete(INCIDENTS_PARTITION, row, etag or None)

    async def open(self, incident: Incident, entry: IncidentEntry, *, now: datetime | None = None) -> bool:
        partition = INCIDENTS_PARTITION
        subject = _subject_row(incident.kind, incident.subject)
        pointer = {**row_at(partition, subject), "incident_id": incident.id}
        operations: list[RowOperation] = [
            ("create", {**pointer, "opened_at": incident.opened_at}),
            ("create", _entity(partition, _ROW, incident)),
            *([("create", _entity(partition, _of(incident.tenant), incident))] if incident.tenant is not None else []),
            ("create", {**_entity(partition, _OPEN, incident), "entered_at": now or incident.opened_at}),
            ("create", _log_entity(partition, entry)),
        ]
        try:
            await self._gates.transact(operations)
        except (AlreadyExists, Conflict):
            return False
        return True

    async def find_open(self, kind: IncidentKind, subject: str) -> Incident | None:
        pointer = await self._gates.read(INCIDENTS_PARTITION, _subject_row(kind, subject))
        if pointer is None:
            return None
        # every caller finds it, since the end of the caller's job may resolve it
        return await TablesIncidents.read(self, None, pointer["incident_id"], pointer["opened_at"])

    async def settle(self, incident: Incident, settlement: Settlement, *, stays: bool = False) -> Incident:
        rows, partition = self._place(incident.home)
        row = newest_first(_ROW, incident.opened_at, incident.id)
        for _ in range(_MAX_RACES):
            entity = await rows.read(partition, row)
            if entity is None:
                raise Contended("the incident was archived before it was closed")
            operations = settles(entity, settlement)
            if not operations:
                return decode_entity(_incident_of, entity)
            if incident.home is None:
                operations += _leaves(partition, decode_entity(_incident_of, entity), settlement, stays=stays)
            with contextlib.suppress(Conflict):
                await rows.transact(operations)
        raise Contended("the incident changed at every try")

    async def list_settled(self, before: datetime, *, after: str | None, limit: int) -> list[IncidentRow]:
        # none was opened after it was closed
        first = max(newest_first(_ROW, before, ""), f"{_ROW}:{after or ''}")
        query = between(INCIDENTS_PARTITION, first, f"{_ROW};").having("settled_at lt @before", before=before)
        return await self._gates.read_decoded(query, limit, partial(_row_of, _ROW))

    async def remove(self, incident: Incident) -> None:
        rows = [incident_log_row(incident.id, seq) for seq in range(1, incident.log_seq + 1)]
        if incident.tenant is not None:
            rows.append(newest_first(_of(incident.tenant), incident.opened_at, incident.id))
        # last, since it leads to the others
        for row in [*rows, newest_first(_ROW, incident.opened_at, incident.id)]:
            await self._gates.delete(INCIDENTS_PARTITION, row)

    async def log(self, incident: Incident, *, after: int, limit: int) -> list[IncidentEntry]:
        rows, partition = self._place(incident.home)
        query = between(partition, incident_log_row(incident.id, after), f"INCIDENTLOG:{incident.id};")
        return await rows.read_decoded(query, limit, entry_of(IncidentEntry))

    def _place(self, home: str | None) -> tuple[TableRows, str]:
        return (self._gates, INCIDENTS_PARTITION) if home is None else (self._index, encode_key(home))


def incident_inserts(partition: str, job: Job) -> list[RowOperation]:
    """Makes the rows of a job's incident, if the job ended with an incident."""
    found = incident_of(job)
    if found is None:
        return []
    incident, entry = found
    return [
        upsert_row(_entity(partition, _ROW, incident)),
        upsert_row(_log_entity(partition, entry)),
    ]


async def job_incident(rows: TableRows, job: Job) -> Entity | None:
    """Reads the INCIDENT row of a job. Returns None if the job opened no incident. Raises LedgerUnavailable."""
    if not escalates(job):
        return None
    return await rows.read(encode_key(job.tenant), newest_first(_ROW, ended_at(job), job_incident_id(job.job_id)))


def settles(entity: Entity, settlement: Settlement) -> list[RowOperation]:
    """Makes the operations that close an INCIDENT row as it was read, with its log entry. Returns no operations if the
    incident is not open.
    """
    after = apply_settlement(decode_entity(_incident_of, entity), settlement)
    if after is None:
        return []
    incident, entry = after
    partition = entity["PartitionKey"]
    return [merge_row(_entity(partition, _ROW, incident), entity.etag), ("create", _log_entity(partition, entry))]


def removes(entity: Entity) -> list[RowOperation]:
    """Makes the operations that delete an INCIDENT row and its log, together with the job."""
    rows = (entity["RowKey"], *(incident_log_row(entity["id"], seq) for seq in range(1, entity["log_seq"] + 1)))
    return [delete_row(entity["PartitionKey"], row) for row in rows]


def _leaves(partition: str, incident: Incident, settlement: Settlement, *, stays: bool) -> list[RowOperation]:
    """Makes the operations on the other rows of a closed incident without a job."""
    found = apply_settlement(incident, settlement)
    gone = [_subject_row(incident.kind, incident.subject)]
    settles: list[RowOperation] = []
    if found is None or not stays:
        gone.append(newest_first(_OPEN, incident.opened_at, incident.id))
    else:
        listed = {**_entity(partition, _OPEN, found[0]), "entered_at": settlement.at}
        settles.append(upsert_row(listed))
    if found is not None and incident.tenant is not None:
        row = _entity(partition, _of(incident.tenant), found[0])
        settles.append(merge_row(row))
    return [*(delete_row(partition, row) for row in gone), *settles]


def _of(tenant: str) -> str:
    return f"OF:{encode_key(tenant)}"


def _subject_row(kind: IncidentKind, subject: str) -> str:
    return f"SUBJECT:{digest(f'{kind}:{subject}')}"


async def _rows(rows: TableRows, partition: str, prefix: str, page: PageRange) -> list[IncidentRow]:
    """Returns the rows of a page. The keys have the time in milliseconds, so the times also bound the range of keys."""
    first, end = f"{prefix}:{page['after'] or ''}", f"{prefix};"
    if (until := page.get("until")) is not None:
        first = max(first, newest_first(prefix, until + _MILLISECOND, ""))
    if (since := page.get("since")) is not None:
        end = newest_first(prefix, since - _MILLISECOND, "")
    query = between(partition, first, end)
    if until is not None:
        query = query.having("opened_at lt @until", until=until)
    if since is not None:
        query = query.having("opened_at ge @since", since=since)
    return await rows.read_decoded(query, page["limit"], partial(_row_of, prefix))


def _row_of(prefix: str, entity: Entity) -> IncidentRow:
    return IncidentRow(
        incident=_incident_of(entity),
        cursor=entity["RowKey"].removeprefix(f"{prefix}:"),
        entered_at=entity.get("entered_at"),
        etag=entity.etag,
    )


def _entity(partition: str, prefix: str, incident: Incident) -> dict[str, Any]:
    values = {name: value for name, value in vars(incident).items() if value is not None}
    row = newest_first(prefix, incident.opened_at, incident.id)
    return {**row_at(partition, row), **values, "kind": incident.kind.value, "state": incident.state.value}


def _log_entity(partition: str, entry: IncidentEntry) -> dict[str, Any]:
    return entry_entity(partition, incident_log_row(entry.incident_id, entry.seq), entry)


def _incident_of(entity: Entity) -> Incident:
    values = {name: entity.get(name) for name in ("tenant", "request_type", "detail")}
    values |= {name: entity[name] for name in ("log_seq", "log_hash")}
    return row_as(Incident, entity, kind=IncidentKind(entity["kind"]), state=IncidentState(entity["state"]), **values)
