"""`Desks` over Azure Tables: GATES, WAIT, FREED and GATELOG rows of a tenant's partition.

GATES has one column a gate (`gate_{id}`), and JSON columns for the counts and the lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared import telemetry
from shared.adapters.tables.account import TablesAccount, first_rows, read_row
from shared.adapters.tables.breakers import desk_breaker_json, desk_breaker_of
from shared.adapters.tables.columns import UNDECODABLE, json_text, parts, whole
from shared.adapters.tables.directory import TablesDirectory
from shared.adapters.tables.gates import gate_json, gate_of, instant
from shared.adapters.tables.keys import (
    GATES_ROW,
    active_row,
    after_line,
    due_row,
    freed_row,
    gate_log_row,
    wait_row,
)
from shared.adapters.tables.log_rows import entries_of, entry_entity
from shared.adapters.tables.places import candidate_columns, candidate_of, freed_delete, freed_of
from shared.adapters.tables.table import Entity, Operation
from shared.core.canonical import encode_key
from shared.core.gates.desk import Desk, Line, epoch_of
from shared.core.gates.ends import Freed
from shared.core.gates.letting import Waiting
from shared.core.gates.log import LogEntry
from shared.core.gates.places import PlaceState
from shared.core.gates.rules import DeskBreaker, Gate, GateKind, Share
from shared.errors import Undecodable
from shared.ports.desks import DeskWrite, StoredDesk

_GATE = "gate_"


class TablesDesks(TablesDirectory):
    """See `shared.ports.desks.Desks`."""

    def __init__(self, account: TablesAccount, index_table: str, gates_table: str) -> None:
        super().__init__(account, gates_table)
        self._index_table = index_table

    async def read(self, tenant: str) -> StoredDesk | None:
        entity = await read_row(await self._account.table(self._index_table), encode_key(tenant), GATES_ROW)
        if entity is None:
            return None
        try:
            return StoredDesk(_desk_of(entity), entity.metadata["etag"] or "")
        except UNDECODABLE as error:
            raise Undecodable(f"{encode_key(tenant)} {GATES_ROW}", type(error).__name__) from error

    async def first_waiting(self, tenant: str, line: int, limit: int) -> list[Waiting]:
        table = await self._account.table(self._index_table)
        query = "PartitionKey eq @tenant and RowKey ge @first and RowKey lt @end"
        parameters = {"tenant": encode_key(tenant), "first": wait_row(line, 0, ""), "end": after_line(line)}
        return [_waiting_of(entity) for entity in await first_rows(table, query, parameters, limit)]

    async def freed(self, tenant: str, *, after: Freed | None = None, limit: int) -> list[Freed]:
        table = await self._account.table(self._index_table)
        query = "PartitionKey eq @tenant and RowKey gt @first and RowKey lt @end"
        first = freed_row(after.job_id) if after is not None else "FREED:"
        parameters = {"tenant": encode_key(tenant), "first": first, "end": "FREED;"}
        found = []
        for entity in await first_rows(table, query, parameters, limit):
            try:
                found.append(freed_of(entity))
            except UNDECODABLE:
                telemetry.warn("ROW_UNDECODABLE", row=f"{encode_key(tenant)} {entity['RowKey']}")
        return found

    async def log(self, tenant: str, gate_id: str, *, after: int, limit: int) -> list[LogEntry]:
        table = await self._account.table(self._index_table)
        query = "PartitionKey eq @tenant and RowKey gt @first and RowKey lt @end"
        parameters = {
            "tenant": encode_key(tenant),
            "first": gate_log_row(gate_id, after),
            "end": f"GATELOG:{gate_id};",
        }
        found = await first_rows(table, query, parameters, limit)
        return entries_of(LogEntry, found)


def operations_of(write: DeskWrite) -> list[Operation]:
    """The rows of the change, for a transaction of the tenant's partition."""
    partition = encode_key(write.after.tenant)
    desk = {"PartitionKey": partition, "RowKey": GATES_ROW, **_desk_columns(write.after)}
    operations: list[Operation] = []
    if write.before is None:
        operations.append(("create", desk))
    else:
        under_etag = {
            "mode": UpdateMode.REPLACE,
            "etag": write.before.etag,
            "match_condition": MatchConditions.IfNotModified,
        }
        operations.append(("update", desk, under_etag))
    looked_at: dict[str, Any] = {"check_at": write.check_at}
    for waiting in write.let_in:
        job_id = waiting.candidate.job_id
        due = {
            "PartitionKey": partition,
            "RowKey": due_row(write.check_at, job_id),
            "job_id": job_id,
            "claim": waiting.claim,
            "created_at": waiting.created_at,
            **looked_at,
        }
        active: dict[str, Any] = {"PartitionKey": partition, "RowKey": active_row(job_id)}
        active["state"] = PlaceState.ADMITTED.value
        if epoch := epoch_of(write.after, waiting.candidate.job_type):
            active["breaker_epoch"] = epoch
        operations += [
            ("delete", _wait_key(partition, waiting)),
            ("update", {**active, **looked_at}, {"mode": UpdateMode.MERGE}),
            ("delete", {"PartitionKey": partition, "RowKey": due_row(waiting.due_at, job_id)}),
            ("create", due),
        ]
    for waiting, line in write.relined:
        in_line = {"PartitionKey": partition, "RowKey": active_row(waiting.candidate.job_id), "line": line}
        operations += [
            ("delete", _wait_key(partition, waiting)),
            ("create", wait_entity(partition, waiting, line)),
            ("update", in_line, {"mode": UpdateMode.MERGE}),
        ]
    operations += [freed_delete(partition, each) for each in write.freed]
    operations += [
        ("create", entry_entity(partition, gate_log_row(entry.gate_id, entry.seq), entry)) for entry in write.log
    ]
    return operations


def _wait_key(partition: str, waiting: Waiting) -> dict[str, Any]:
    row = wait_row(waiting.line, waiting.candidate.rank, waiting.candidate.job_id)
    return {"PartitionKey": partition, "RowKey": row}


def wait_entity(partition: str, waiting: Waiting, line: int) -> dict[str, Any]:
    """The WAIT row of a job in `line`."""
    candidate = waiting.candidate
    return {
        "PartitionKey": partition,
        "RowKey": wait_row(line, candidate.rank, candidate.job_id),
        "line": line,
        "claim": waiting.claim,
        "created_at": waiting.created_at,
        "due_at": waiting.due_at,
        "job_id": candidate.job_id,
        **candidate_columns(candidate),
    }


def _waiting_of(entity: Entity) -> Waiting:
    return Waiting(candidate_of(entity), entity["line"], entity["claim"], entity["created_at"], entity["due_at"])


def _desk_columns(desk: Desk) -> dict[str, Any]:
    lines = [
        [number, line.job_type, line.mode, line.source, line.emergency, line.count, line.head]
        for number, line in desk.lines.items()
    ]
    columns: dict[str, Any] = {
        "tenant": desk.tenant,
        **parts("inside", [[*key, count] for key, count in desk.inside.items()]),
        **parts("inside_by_source", dict(desk.inside_by_source)),
        "emergencies": desk.emergencies,
        "staged": desk.staged,
        **parts("lines", lines),
        **parts("shares", [_share_json(share) for share in desk.shares.values()]),
        "counted_at": desk.counted_at,
        **{f"{_GATE}{id_}": json_text(gate_json(state)) for id_, state in desk.gates.items()},
    }
    instants = {"counting_until": desk.counting_until, "wake_at": desk.wake_at}
    return {**columns, **{name: instant for name, instant in instants.items() if instant is not None}}


def _desk_of(entity: Entity) -> Desk:
    lines = {
        number: Line(job_type=job_type, mode=mode, source=source, emergency=emergency, count=count, head=head)
        for number, job_type, mode, source, emergency, count, head in whole("lines", entity)
    }
    states = [gate_of(json.loads(entity[name])) for name in entity if name.startswith(_GATE)]
    return Desk(
        tenant=entity["tenant"],
        gates={state.gate.id: state for state in states},
        inside={(job_type, mode): count for job_type, mode, count in whole("inside", entity)},
        inside_by_source=whole("inside_by_source", entity),
        emergencies=entity["emergencies"],
        staged=entity["staged"],
        lines=lines,
        shares={share.gate.id: share for share in _shares_of(entity)},
        counted_at=entity["counted_at"],
        counting_until=entity.get("counting_until"),
        wake_at=entity.get("wake_at"),
    )


def _share_json(share: Share) -> dict[str, Any]:
    values = {**asdict(replace(share, breaker=DeskBreaker())), "gate": [share.gate.kind, share.gate.name]}
    return {**values, "breaker": desk_breaker_json(share.breaker)}


def _shares_of(entity: Entity) -> Iterator[Share]:
    return map(_share_of, whole("shares", entity)) if "shares" in entity else iter(())


def _share_of(values: dict[str, Any]) -> Share:
    kind, name = values["gate"]
    gate = Gate.over_all(GateKind(kind), name)
    numbers = {each: values[each] for each in ("keep", "epoch", "tokens", "tokens_lent", "place_ms")}
    breaker = desk_breaker_of(values.get("breaker", {}))
    return Share(gate=gate, at=instant(values["at"]), breaker=breaker, **numbers)
