"""`Allocations` over Azure Tables: BOOK and ASK rows in the table of the gates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.account import read_row
from shared.adapters.tables.breakers import breaker_json, breaker_of
from shared.adapters.tables.columns import parts, whole
from shared.adapters.tables.decoding import decoded, first_decoded
from shared.adapters.tables.keys import ASKS_PARTITION, BOOKS_PARTITION
from shared.adapters.tables.table import MAX_OPERATIONS, Entity, Operation, Tables
from shared.adapters.tables.unknown_members import keep
from shared.core.canonical import encode_key
from shared.core.gates.allocation import Account, AllocationRecord
from shared.errors import Conflict
from shared.ports.allocations import Ask, StoredAllocationRecord

_BOOK = "BOOK:"
_PARTS = ("accounts", "breaker")
_ACCOUNT = [each.name for each in fields(Account)]


class TablesAllocations:
    """See `shared.ports.allocations.Allocations`."""

    def __init__(self, account: Tables, gates_table: str) -> None:
        self._account = account
        self._gates_table = gates_table

    async def read(self, gate_id: str) -> StoredAllocationRecord | None:
        table = await self._account.table(self._gates_table)
        entity = await read_row(table, BOOKS_PARTITION, f"{_BOOK}{gate_id}")
        return (
            StoredAllocationRecord(decoded(_allocation_record_of, entity), entity.metadata["etag"] or "", entity)
            if entity is not None
            else None
        )

    async def write(self, record: AllocationRecord, *, before: StoredAllocationRecord | None) -> None:
        table = await self._account.table(self._gates_table)
        columns = _columns(record)
        if before is not None:
            columns = keep(before.row, _columns(before.record), columns, parts=_PARTS)
        row = {"PartitionKey": BOOKS_PARTITION, "RowKey": f"{_BOOK}{record.gate_id}", **columns}
        operation: Operation = ("create", row)
        if before is not None:
            under_etag = {"etag": before.etag, "match_condition": MatchConditions.IfNotModified}
            operation = ("update", row, {"mode": UpdateMode.REPLACE, **under_etag})
        await table.submit_transaction([operation])

    async def ask(self, gate_id: str, tenant: str) -> None:
        table = await self._account.table(self._gates_table)
        row = {"PartitionKey": ASKS_PARTITION, "RowKey": f"{gate_id}:{encode_key(tenant)}", "tenant": tenant}
        await table.upsert_entity(row, mode=UpdateMode.MERGE)

    async def asks(self, gate_id: str) -> list[Ask]:
        table = await self._account.table(self._gates_table)
        query = "PartitionKey eq @asks and RowKey ge @first and RowKey lt @end"
        parameters = {"asks": ASKS_PARTITION, "first": f"{gate_id}:", "end": f"{gate_id};"}
        return await first_decoded(table, query, parameters, None, _ask_of)

    async def answer(self, gate_id: str, asks: Sequence[Ask]) -> None:
        table = await self._account.table(self._gates_table)
        for first in range(0, len(asks), MAX_OPERATIONS):
            piece = asks[first : first + MAX_OPERATIONS]
            try:
                await table.submit_transaction([_removal(gate_id, ask) for ask in piece])
            except Conflict:
                # one of them asked again, or is gone
                for ask in piece:
                    await self._remove(gate_id, ask)

    async def _remove(self, gate_id: str, ask: Ask) -> None:
        table = await self._account.table(self._gates_table)
        try:
            await table.submit_transaction([_removal(gate_id, ask)])
        except Conflict:
            return


def _removal(gate_id: str, ask: Ask) -> Operation:
    row = {"PartitionKey": ASKS_PARTITION, "RowKey": f"{gate_id}:{encode_key(ask.tenant)}"}
    return ("delete", row, {"etag": ask.etag, "match_condition": MatchConditions.IfNotModified})


def _ask_of(entity: Entity) -> Ask:
    return Ask(entity["tenant"], entity.metadata["etag"] or "")


def _columns(record: AllocationRecord) -> dict[str, Any]:
    accounts = {tenant: list(vars(account).values()) for tenant, account in record.accounts.items()}
    columns: dict[str, Any] = {
        "gate_id": record.gate_id,
        "epoch": record.epoch,
        "unmet": record.unmet,
        **parts("accounts", accounts),
        **(parts("breaker", breaker_json(record.breaker)) if record.breaker is not None else {}),
        **(parts("uncounted", sorted(record.uncounted)) if record.uncounted else {}),
    }
    optional = {
        "divided_at": record.divided_at,
        "opened_at": record.opened_at,
        "opening": record.opening,
        "credit": (record.credit, "Edm.Int64") if record.credit is not None else None,
        "credit_at": record.credit_at,
    }
    return {**columns, **{name: value for name, value in optional.items() if value is not None}}


def _allocation_record_of(entity: Entity) -> AllocationRecord:
    credit = entity.get("credit")
    return AllocationRecord(
        gate_id=entity["gate_id"],
        epoch=entity["epoch"],
        accounts={tenant: _account_of(values) for tenant, values in whole("accounts", entity).items()},
        divided_at=entity.get("divided_at"),
        unmet=entity["unmet"],
        opened_at=entity.get("opened_at"),
        breaker=breaker_of(whole("breaker", entity)) if "breaker" in entity else None,
        opening=entity.get("opening"),
        uncounted=frozenset(whole("uncounted", entity)) if "uncounted" in entity else frozenset(),
        credit=int(credit) if credit is not None else None,
        credit_at=entity.get("credit_at"),
    )


def _account_of(values: list[Any]) -> Account:
    """In the order of the fields; a later release may have more."""
    return Account(**dict(zip(_ACCOUNT, values[: len(_ACCOUNT)], strict=False)))
