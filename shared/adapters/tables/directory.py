"""The directory of quotas over Azure Tables: one partition with a bounded number of rows for tenants.

| row | content | group |
|---|---|---|
| `TENANTS:00` to `TENANTS:1f` | tenants with quotas of their own, by a hash of the name: {tenant: [since]} | the row |
| `DEFAULT:{gate id}` | default quota limits for every tenant | `DEFAULT` rows whose ids have the same first digit |
| `OVERALL:{gate id}` | settings of a quota over all tenants | `OVERALL` rows whose ids have the same first digit |
| `SETTINGS` | time since which a limit of the settings concerns every tenant | the row |
| `VERSION` | a column for each group: a random number that each change of the group replaces | |

More rows of tenants make VERSION longer, which each process reads every ten seconds. Fewer rows make each row longer,
and each process reads a row after each change of the row. For a thousand tenants, 32 rows cost nearly the minimum of
bytes read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from shared.adapters.tables.columns import UNDECODABLE, join_json, json_text, split_json
from shared.adapters.tables.gates import SET_AS_A_WHOLE, gate_json, gate_of, rule_of
from shared.adapters.tables.keys import DIRECTORY_PARTITION
from shared.adapters.tables.table import (
    Entity,
    NotThere,
    RowOperation,
    Tables,
    delete_row,
    merge_row,
    row_at,
    upsert_row,
)
from shared.adapters.tables.table_rows import TableRows, all_of, from_key
from shared.adapters.tables.unknown_members import keep
from shared.core.gates.rules import Gate, GateKind, GateState, Rule
from shared.core.records.canonical import digest
from shared.errors import AlreadyExists, Conflict, Contended, Undecodable
from shared.ports.admissions import DirectoryRows, joined

_TENANTS, _DEFAULT, _OVER_ALL, _SETTINGS, _VERSION = "TENANTS", "DEFAULT", "OVERALL", "SETTINGS", "VERSION"
#: number of rows with tenants, of at most 1 MiB each: 15,000 tenants with names of 128 characters need a quarter of
#: that. A writer reads only the row of its tenant, so another number needs all rows to be written again
_SHARDS = 32
#: maximum tries of a change while other processes change the same row
_MAX_RACES = 8
_FIRST_WAIT_S = 0.02

#: entries of a row by tenant
_Entries = dict[str, Any]
_COLUMN = "tenants"


class TablesDirectory:
    """Implementation of `shared.ports.admissions.QuotaDirectory` over Azure Tables."""

    def __init__(self, account: Tables, gates_table: str) -> None:
        self._gates = TableRows(account, gates_table)

    async def versions(self) -> dict[str, int]:
        entity = await self._gates.read(DIRECTORY_PARTITION, _VERSION)
        return {
            name.replace("_", ":", 1): number
            for name, number in (entity or {}).items()
            if name.partition("_")[0] in (_TENANTS, _DEFAULT, _OVER_ALL, _SETTINGS)
        }

    async def group(self, name: str) -> DirectoryRows:
        return _rows_of([row async for row in self._gates.query(from_key(DIRECTORY_PARTITION, name, f"{name}~"))])

    async def groups(self) -> dict[str, DirectoryRows]:
        found: dict[str, list[Entity]] = defaultdict(list)
        async for entity in self._gates.query(all_of(DIRECTORY_PARTITION)):
            found[_group_of(entity["RowKey"])].append(entity)
        return {name: _rows_of(entities) for name, entities in found.items() if name != _VERSION}

    async def directory(self) -> DirectoryRows:
        return joined((await self.groups()).values())

    async def enter_tenant(self, tenant: str, since: datetime) -> None:
        await self._change_tenants(lambda entries: {tenant: [since], **entries}, tenant)

    async def remove_tenant(self, tenant: str) -> None:
        await self._change_tenants(
            lambda entries: {name: entry for name, entry in entries.items() if name != tenant}, tenant
        )

    async def put_default(self, gate: Gate, rule: Rule | None, since: datetime) -> None:
        row, columns = f"{_DEFAULT}:{gate.id}", None
        if rule is not None:
            columns = {"kind": gate.kind.value, "name": gate.name, "rule": json_text(asdict(rule)), "since": since}
            columns = await self._keep_members(row, columns, "rule", lambda values: asdict(rule_of(values)))
        await self._put(row, columns)

    async def put_over_all(self, gate: Gate, state: GateState | None, since: datetime) -> None:
        row, columns = f"{_OVER_ALL}:{gate.id}", None
        if state is not None:
            columns = {"state": json_text(gate_json(state)), "since": since}
            columns = await self._keep_members(row, columns, "state", lambda values: gate_json(gate_of(values)))
        await self._put(row, columns)

    async def _keep_members(
        self, row: str, columns: dict[str, Any], name: str, known: Callable[[dict[str, Any]], dict[str, Any]]
    ) -> dict[str, Any]:
        """Returns the columns to write. Column `name` also gets the stored fields of a later release.

        `known` returns the fields that this release knows.
        """
        entity = await self._gates.read(DIRECTORY_PARTITION, row)
        try:
            before = {name: json_text(known(json.loads(entity[name])))} if entity is not None else {}
        except UNDECODABLE:
            return columns
        return keep(entity, {**columns, **before}, columns, whole=SET_AS_A_WHOLE)

    async def note_settings(self, since: datetime | None) -> None:
        await self._put(_SETTINGS, {"since": since} if since is not None else None)

    async def _change_tenants(self, change: Callable[[_Entries], _Entries], tenant: str) -> None:
        """Changes the tenant's row under its ETag. Writes nothing if `change` changes nothing. Raises Undecodable for a
        broken row.
        """
        row = row_of_tenant(tenant)

        async def attempt() -> None:
            entity = await self._gates.read(DIRECTORY_PARTITION, row)
            try:
                before = _entries(entity) if entity is not None else {}
            except UNDECODABLE as error:
                # the row would lose its tenants if it were written again
                raise Undecodable(f"{DIRECTORY_PARTITION} {row}", type(error).__name__) from error
            after = change(before)
            if after == before:
                return
            columns = {**row_at(DIRECTORY_PARTITION, row), **split_json(_COLUMN, after)}
            operation: RowOperation = ("create", columns)
            if entity is not None:
                emptied = {name: "" for name in entity if name.startswith(_COLUMN)}
                # merged, since a later release may have more columns
                operation = merge_row({**emptied, **columns}, entity.etag)
            await self._change(row, operation)

        await _repeat(attempt)

    async def _put(self, row: str, columns: Mapping[str, Any] | None) -> None:
        async def attempt() -> None:
            if columns is not None:
                await self._change(row, upsert_row({**row_at(DIRECTORY_PARTITION, row), **columns}))
                return
            with contextlib.suppress(NotThere):
                await self._change(row, delete_row(DIRECTORY_PARTITION, row))

        # a store may also refuse an upsert during another transaction on its row
        await _repeat(attempt)

    async def _change(self, row: str, operation: RowOperation) -> None:
        # random, so that a version restored from a backup never equals a present one
        version = {_group_of(row).replace(":", "_"): random.getrandbits(31)}
        versions = {**row_at(DIRECTORY_PARTITION, _VERSION), **version}
        await self._gates.transact([operation, upsert_row(versions)])


async def _repeat(attempt: Callable[[], Awaitable[None]]) -> None:
    """Calls `attempt` until no concurrent write refuses the attempt. Raises Contended after `_MAX_RACES` calls."""
    for race in range(_MAX_RACES):
        try:
            return await attempt()
        except (Conflict, AlreadyExists):
            await asyncio.sleep(_FIRST_WAIT_S * 2**race * random.random())
    raise Contended("concurrent writers changed the directory of quotas at every try")


def row_of_tenant(tenant: str) -> str:
    """Returns the key of the row that has the tenant."""
    return f"{_TENANTS}:{int(digest(tenant)[:8], 16) % _SHARDS:02x}"


def _group_of(row: str) -> str:
    kind, _, id_ = row.partition(":")
    return f"{kind}:{id_[:1]}" if kind in (_DEFAULT, _OVER_ALL) else row


def _rows_of(entities: Iterable[Entity]) -> DirectoryRows:
    """Returns the content of the rows. `unread` of the result has the keys of rows that are broken or of a later
    release.
    """
    found = []
    for entity in entities:
        try:
            found.append(_row_of(entity))
        except UNDECODABLE:
            found.append(DirectoryRows(unread=(entity["RowKey"],)))
    return joined(found)


def _row_of(entity: Entity) -> DirectoryRows:
    """Decodes a row. Raises UNDECODABLE."""
    match entity["RowKey"].partition(":")[0]:
        case "TENANTS":
            return _tenants_of(entity)
        case "DEFAULT":
            key = (GateKind(entity["kind"]), entity["name"])
            return DirectoryRows(defaults={key: (rule_of(json.loads(entity["rule"])), entity["since"])})
        case "OVERALL":
            state = gate_of(json.loads(entity["state"]))
            return DirectoryRows(over_all={state.gate.id: (state, entity["since"])})
        case "SETTINGS":
            return DirectoryRows(settings_since=entity["since"])
    return DirectoryRows()


def _tenants_of(entity: Entity) -> DirectoryRows:
    """Decodes a row of tenants. Raises UNDECODABLE."""
    tenants: dict[str, datetime] = {}
    unread = []
    for tenant, entry in _entries(entity).items():
        try:
            # a later release may have more values in the entry
            tenants[tenant] = datetime.fromisoformat(entry[0])
        except (*UNDECODABLE, IndexError):
            unread.append(f"{entity['RowKey']} {tenant}")
    return DirectoryRows(tenants=tenants, unread=tuple(unread))


def _entries(entity: Entity) -> _Entries:
    """Decodes the entries of a row. Raises UNDECODABLE."""
    entries = join_json(_COLUMN, entity)
    if not isinstance(entries, dict):
        raise TypeError
    return entries
