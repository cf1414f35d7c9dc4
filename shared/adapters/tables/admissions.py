"""`AdmissionStates` over Azure Tables: GATES, WAIT, FREED and GATELOG rows in a tenant's partition.

GATES has one column for each quota (`gate_{id}`), and JSON columns for the counts and the waiting queues. A column of
an unknown kind of quota stops no job in this release, and stays unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.adapters.tables.breakers import admission_breaker_json, admission_breaker_of
from shared.adapters.tables.columns import join_json, json_text, split_json
from shared.adapters.tables.decoding import decode_entity, row_as
from shared.adapters.tables.directory import TablesDirectory
from shared.adapters.tables.gates import SET_AS_A_WHOLE, decode_instant, gate_json, gate_of, is_known
from shared.adapters.tables.keys import (
    GATES_ROW,
    active_row,
    after_line,
    due_row,
    freed_row,
    gate_log_row,
    wait_row,
)
from shared.adapters.tables.log_rows import entry_entity, entry_of
from shared.adapters.tables.places import candidate_columns, candidate_of, decode_freed, delete_freed
from shared.adapters.tables.table import Entity, RowOperation, Tables, delete_row, merge_row, replace_row, row_at
from shared.adapters.tables.table_rows import TableRows, between, from_key
from shared.adapters.tables.unknown_members import keep
from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import AdmissionState, WaitingQueue, find_epoch
from shared.core.gates.ends import Freed
from shared.core.gates.log import LogEntry
from shared.core.gates.places import PlaceState
from shared.core.gates.rules import Gate, GateKind, QuotaShare
from shared.core.records.canonical import encode_key
from shared.ports.admissions import AdmissionWrite, LogPlace, StoredAdmission

_GATE = "gate_"
_PARTS = ("inside", "inside_by_source", "lines", "shares")
#: names of the fields of a `QuotaShare` in its JSON
_SHARE_NUMBERS = {
    "slots": "keep",
    "epoch": "epoch",
    "tokens": "tokens",
    "tokens_granted": "tokens_lent",
    "slot_ms": "place_ms",
}
#: fields that are stored as JSON
_JSON = ("active_by_kind", "active_by_source", "queues", "shares", "gates")


class TablesAdmissions(TablesDirectory):
    """Implementation of `shared.ports.admissions.AdmissionStates` over Azure Tables."""

    def __init__(self, account: Tables, index_table: str, gates_table: str) -> None:
        super().__init__(account, gates_table)
        self._index = TableRows(account, index_table)

    async def read(self, tenant: str) -> StoredAdmission | None:
        return await self._index.find(encode_key(tenant), GATES_ROW, _decode_stored)

    async def first_waiting(self, tenant: str, line: int, limit: int) -> list[QueuedJob]:
        query = from_key(encode_key(tenant), wait_row(line, 0, ""), after_line(line))
        return await self._index.read_decoded(query, limit, _waiting_of)

    async def list_freed(
        self, tenant: str, *, after: Freed | None = None, limit: int, unread: list[str] | None = None
    ) -> list[Freed]:
        first = freed_row(after.job_id) if after is not None else "FREED:"
        query = between(encode_key(tenant), first, "FREED;")
        if unread is None:
            return [decode_entity(decode_freed, entity) for entity in await self._index.first(query, limit)]
        return await self._index.read_decoded(query, limit, decode_freed, unread)

    async def drop_freed(self, tenant: str, job_id: str) -> None:
        await self._index.delete(encode_key(tenant), freed_row(job_id))

    async def log(self, tenant: str, gate_id: str, *, after: int, limit: int) -> list[LogEntry]:
        query = between(encode_key(tenant), gate_log_row(gate_id, after), f"GATELOG:{gate_id};")
        return await self._index.read_decoded(query, limit, entry_of(LogEntry))

    async def log_places(self, tenant: str, *, first: LogPlace, limit: int) -> list[LogPlace]:
        key = gate_log_row(first.gate_id, first.seq) if first.gate_id else "GATELOG:"
        return await self._index.read_decoded(from_key(encode_key(tenant), key, "GATELOG;"), limit, _log_place)

    async def drop_log(self, tenant: str, places: Sequence[LogPlace]) -> None:
        partition = encode_key(tenant)
        await self._index.transact([delete_row(partition, gate_log_row(each.gate_id, each.seq)) for each in places])


def operations_of(write: AdmissionWrite) -> list[RowOperation]:
    """Makes the operations of the change, for a transaction in the tenant's partition."""
    partition = encode_key(write.after.tenant)
    admission = {**row_at(partition, GATES_ROW), **_columns_after(write)}
    operations: list[RowOperation] = [
        ("create", admission) if write.before is None else replace_row(admission, write.before.etag)
    ]
    looked_at: dict[str, Any] = {"check_at": write.check_at}
    for waiting in write.admitted:
        job_id = waiting.candidate.job_id
        due = {
            **row_at(partition, due_row(write.check_at, job_id)),
            "job_id": job_id,
            "claim": waiting.claim,
            "created_at": waiting.created_at,
            **looked_at,
        }
        active: dict[str, Any] = row_at(partition, active_row(job_id))
        active["state"] = PlaceState.ADMITTED.value
        if epoch := find_epoch(write.after, waiting.candidate.job_type):
            active["breaker_epoch"] = epoch
        operations += [
            _wait_delete(partition, waiting),
            merge_row({**active, **looked_at}),
        ]
        if (old := due_row(waiting.due_at, job_id)) == due["RowKey"]:
            # a transaction can name a row only once
            operations.append(replace_row(due))
        else:
            operations += [delete_row(partition, old), ("create", due)]
    for waiting, line in write.requeued:
        in_line = {**row_at(partition, active_row(waiting.candidate.job_id)), "line": line}
        operations += [
            _wait_delete(partition, waiting),
            ("create", wait_entity(partition, waiting, line)),
            merge_row(in_line),
        ]
    operations += [delete_freed(partition, each) for each in write.freed]
    operations += [
        ("create", entry_entity(partition, gate_log_row(entry.gate_id, entry.seq), entry)) for entry in write.log
    ]
    return operations


def _columns_after(write: AdmissionWrite) -> dict[str, Any]:
    if write.before is None or write.before.row is None:
        return _admission_columns(write.after)
    before, after, row = write.before.admission, write.after, write.before.row
    # columns of unchanged quotas stay as stored, so they are not encoded
    unchanged = {id_ for id_, state in after.gates.items() if before.gates.get(id_) is state and f"{_GATE}{id_}" in row}
    before, after = (
        replace(admission, gates={id_: state for id_, state in admission.gates.items() if id_ not in unchanged})
        for admission in (before, after)
    )
    return keep(row, _admission_columns(before), _admission_columns(after), parts=_PARTS, whole=SET_AS_A_WHOLE)


def _wait_delete(partition: str, waiting: QueuedJob) -> RowOperation:
    return delete_row(partition, wait_row(waiting.queue, waiting.candidate.rank, waiting.candidate.job_id))


def wait_entity(partition: str, waiting: QueuedJob, line: int) -> dict[str, Any]:
    """Makes the WAIT row of a job in queue number `line`."""
    candidate = waiting.candidate
    return {
        **row_at(partition, wait_row(line, candidate.rank, candidate.job_id)),
        "line": line,
        "claim": waiting.claim,
        "created_at": waiting.created_at,
        "due_at": waiting.due_at,
        "job_id": candidate.job_id,
        **candidate_columns(candidate),
    }


def _log_place(entity: Entity) -> LogPlace:
    _, gate_id, number = entity["RowKey"].split(":")
    at = entity.get("at")
    return LogPlace(gate_id, int(number), at if isinstance(at, datetime) else None)


def _waiting_of(entity: Entity) -> QueuedJob:
    return QueuedJob(candidate_of(entity), entity["line"], entity["claim"], entity["created_at"], entity["due_at"])


def _admission_columns(admission: AdmissionState) -> dict[str, Any]:
    queues = {
        str(number): [queue.job_type, queue.mode, queue.source, queue.emergency, queue.count, queue.head]
        for number, queue in admission.queues.items()
    }
    active: dict[str, dict[str, int]] = {}
    for (job_type, mode), count in admission.active_by_kind.items():
        active.setdefault(job_type, {})[mode] = count
    plain = {name: value for name, value in vars(admission).items() if name not in _JSON and value is not None}
    return {
        **plain,
        **split_json("inside", active),
        **split_json("inside_by_source", dict(admission.active_by_source)),
        **split_json("lines", queues),
        **split_json("shares", {id_: _share_json(share) for id_, share in admission.shares.items()}),
        **{f"{_GATE}{id_}": json_text(gate_json(state)) for id_, state in admission.gates.items()},
    }


def _decode_stored(entity: Entity) -> StoredAdmission:
    return StoredAdmission(_admission_of(entity), entity.etag, entity)


def _admission_of(entity: Entity) -> AdmissionState:
    queues = {
        int(number): WaitingQueue(
            job_type=job_type, mode=mode, source=source, emergency=emergency, count=count, head=head
        )
        for number, (job_type, mode, source, emergency, count, head, *_) in join_json("lines", entity).items()
    }
    gates = [json.loads(entity[name]) for name in entity if name.startswith(_GATE)]
    states = [gate_of(values) for values in gates if is_known(values)]
    return row_as(
        AdmissionState,
        entity,
        gates={state.gate.id: state for state in states},
        active_by_kind={
            (job_type, mode): count
            for job_type, modes in join_json("inside", entity).items()
            for mode, count in modes.items()
        },
        active_by_source=join_json("inside_by_source", entity),
        emergencies=entity["emergencies"],
        staged=entity["staged"],
        queues=queues,
        shares={share.gate.id: share for share in _shares_of(entity)},
    )


def _share_json(share: QuotaShare) -> dict[str, Any]:
    numbers = {stored: getattr(share, name) for name, stored in _SHARE_NUMBERS.items()}
    breaker = admission_breaker_json(share.breaker)
    return {"gate": [share.gate.kind, share.gate.name], **numbers, "at": share.at, "breaker": breaker}


def _shares_of(entity: Entity) -> Iterator[QuotaShare]:
    shares = join_json("shares", entity).values() if "shares" in entity else ()
    return (_share_of(values) for values in shares if values["gate"][0] in frozenset(GateKind))


def _share_of(values: dict[str, Any]) -> QuotaShare:
    kind, name, *_ = values["gate"]
    gate = Gate.over_all(GateKind(kind), name)
    numbers = {name: values[stored] for name, stored in _SHARE_NUMBERS.items()}
    breaker = admission_breaker_of(values.get("breaker", {}))
    return QuotaShare(gate=gate, at=decode_instant(values["at"]), breaker=breaker, **numbers)
