"""`Allocations` over Azure Tables: BOOK and ASK rows in the table of the quotas."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from shared.adapters.tables.breakers import breaker_json, breaker_of
from shared.adapters.tables.columns import join_json, split_json
from shared.adapters.tables.decoding import row_as
from shared.adapters.tables.keys import ASKS_PARTITION, BOOKS_PARTITION
from shared.adapters.tables.table import (
    MAX_OPERATIONS,
    Entity,
    RowOperation,
    Tables,
    delete_row,
    replace_row,
    row_at,
    upsert_row,
)
from shared.adapters.tables.table_rows import TableRows, from_key
from shared.adapters.tables.unknown_members import keep
from shared.core.gates.allocation import Account, AllocationRecord
from shared.core.records.canonical import encode_key
from shared.errors import Conflict
from shared.ports.allocations import Ask, StoredAllocationRecord

_BOOK = "BOOK:"
_PARTS = ("accounts", "breaker")
_JSON = (*_PARTS, "uncounted", "allocated_at")
_ACCOUNT = [each.name for each in fields(Account)]


class TablesAllocations:
    """Implementation of `shared.ports.allocations.Allocations` over Azure Tables."""

    def __init__(self, account: Tables, gates_table: str) -> None:
        self._gates = TableRows(account, gates_table)

    async def read(self, gate_id: str) -> StoredAllocationRecord | None:
        return await self._gates.find(BOOKS_PARTITION, f"{_BOOK}{gate_id}", _decode_stored)

    async def write(self, record: AllocationRecord, *, before: StoredAllocationRecord | None) -> None:
        columns = _columns(record)
        if before is not None:
            columns = keep(before.row, _columns(before.record), columns, parts=_PARTS)
        row = {**row_at(BOOKS_PARTITION, f"{_BOOK}{record.gate_id}"), **columns}
        operation = ("create", row) if before is None else replace_row(row, before.etag)
        await self._gates.transact([operation])

    async def ask(self, gate_id: str, tenant: str) -> None:
        row = {**row_at(ASKS_PARTITION, f"{gate_id}:{encode_key(tenant)}"), "tenant": tenant}
        await self._gates.write(upsert_row(row))

    async def asks(self, gate_id: str) -> list[Ask]:
        query = from_key(ASKS_PARTITION, f"{gate_id}:", f"{gate_id};")
        return await self._gates.read_decoded(query, None, partial(row_as, Ask))

    async def answer(self, gate_id: str, asks: Sequence[Ask]) -> None:
        for first in range(0, len(asks), MAX_OPERATIONS):
            piece = [_removal(gate_id, ask) for ask in asks[first : first + MAX_OPERATIONS]]
            try:
                await self._gates.transact(piece)
            except Conflict:
                # the tenant requested again, or its row is deleted
                for removal in piece:
                    with contextlib.suppress(Conflict):
                        await self._gates.transact([removal])


def _removal(gate_id: str, ask: Ask) -> RowOperation:
    return delete_row(ASKS_PARTITION, f"{gate_id}:{encode_key(ask.tenant)}", ask.etag)


def _columns(record: AllocationRecord) -> dict[str, Any]:
    accounts = {tenant: list(vars(account).values()) for tenant, account in record.accounts.items()}
    plain = {name: value for name, value in vars(record).items() if name not in _JSON and value is not None}
    return {
        **plain,
        **split_json("accounts", accounts),
        **(split_json("breaker", breaker_json(record.breaker)) if record.breaker is not None else {}),
        **(split_json("uncounted", sorted(record.uncounted)) if record.uncounted else {}),
        **({"divided_at": record.allocated_at} if record.allocated_at is not None else {}),
        **({"credit": (record.credit, "Edm.Int64")} if record.credit is not None else {}),
    }


def _decode_stored(entity: Entity) -> StoredAllocationRecord:
    return StoredAllocationRecord(_allocation_record_of(entity), entity.etag, entity)


def _allocation_record_of(entity: Entity) -> AllocationRecord:
    credit = entity.get("credit")
    return row_as(
        AllocationRecord,
        entity,
        epoch=entity["epoch"],
        unmet=entity["unmet"],
        allocated_at=entity.get("divided_at"),
        accounts={tenant: _account_of(values) for tenant, values in join_json("accounts", entity).items()},
        breaker=breaker_of(join_json("breaker", entity)) if "breaker" in entity else None,
        uncounted=frozenset(join_json("uncounted", entity)) if "uncounted" in entity else frozenset(),
        credit=int(credit) if credit is not None else None,
    )


def _account_of(values: list[Any]) -> Account:
    """Decodes an account from values in the order of its fields. A later release can have more values."""
    return Account(**dict(zip(_ACCOUNT, values[: len(_ACCOUNT)], strict=False)))
