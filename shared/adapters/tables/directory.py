"""The directory of quotas over Azure Tables: one partition of a table of its own."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import datetime

from azure.data.tables import UpdateMode

from shared.adapters.tables.account import TablesAccount, read_row
from shared.adapters.tables.columns import UNDECODABLE, json_text
from shared.adapters.tables.gates import gate_json, gate_of, rule_of
from shared.adapters.tables.keys import DIRECTORY_PARTITION
from shared.adapters.tables.table import Entity
from shared.core.canonical import encode_key
from shared.core.gates.rules import Gate, GateKind, GateState, Rule
from shared.ports.desks import DirectoryRows

_TENANT, _DEFAULT, _OVER_ALL, _SETTINGS = "TENANT:", "DEFAULT:", "OVERALL:", "SETTINGS"


class TablesDirectory:
    """See `shared.ports.desks.QuotaDirectory`."""

    def __init__(self, account: TablesAccount, gates_table: str) -> None:
        self._account = account
        self._gates_table = gates_table

    async def directory(self) -> DirectoryRows:
        table = await self._account.table(self._gates_table)
        rows = DirectoryRows(tenants={}, defaults={})
        since: datetime | None = None
        query = "PartitionKey eq @directory"
        unread: list[str] = []
        async for entity in table.query_entities(query, parameters={"directory": DIRECTORY_PARTITION}):
            if entity["RowKey"] == _SETTINGS:
                since = entity["since"]
                continue
            try:
                _enter_row(rows, entity)
            except UNDECODABLE:
                # a later release wrote it: the other rows count
                unread.append(entity["RowKey"])
        return replace(rows, settings_since=since, unread=tuple(unread))

    async def enter_tenant(self, tenant: str, since: datetime) -> None:
        table = await self._account.table(self._gates_table)
        if await read_row(table, DIRECTORY_PARTITION, f"{_TENANT}{encode_key(tenant)}") is None:
            row = {"RowKey": f"{_TENANT}{encode_key(tenant)}", "tenant": tenant, "since": since}
            await table.upsert_entity({"PartitionKey": DIRECTORY_PARTITION, **row}, mode=UpdateMode.REPLACE)

    async def remove_tenant(self, tenant: str) -> None:
        await self._remove(f"{_TENANT}{encode_key(tenant)}")

    async def put_default(self, gate: Gate, rule: Rule | None, since: datetime) -> None:
        if rule is None:
            await self._remove(f"{_DEFAULT}{gate.id}")
            return
        row = {
            "PartitionKey": DIRECTORY_PARTITION,
            "RowKey": f"{_DEFAULT}{gate.id}",
            "kind": gate.kind.value,
            "name": gate.name,
            "rule": json.dumps(asdict(rule)),
            "since": since,
        }
        table = await self._account.table(self._gates_table)
        await table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def put_over_all(self, gate: Gate, state: GateState | None, since: datetime) -> None:
        row = f"{_OVER_ALL}{gate.id}"
        if state is None:
            await self._remove(row)
            return
        columns = {"state": json_text(gate_json(state)), "since": since}
        table = await self._account.table(self._gates_table)
        entity = {"PartitionKey": DIRECTORY_PARTITION, "RowKey": row, **columns}
        await table.upsert_entity(entity, mode=UpdateMode.REPLACE)

    async def note_settings(self, since: datetime | None) -> None:
        if since is None:
            await self._remove(_SETTINGS)
            return
        table = await self._account.table(self._gates_table)
        row = {"PartitionKey": DIRECTORY_PARTITION, "RowKey": _SETTINGS, "since": since}
        await table.upsert_entity(row, mode=UpdateMode.REPLACE)

    async def _remove(self, row: str) -> None:
        await (await self._account.table(self._gates_table)).delete_entity(DIRECTORY_PARTITION, row)


def _enter_row(rows: DirectoryRows, entity: Entity) -> None:
    """Raises UNDECODABLE."""
    if entity["RowKey"].startswith(_TENANT):
        rows.tenants[entity["tenant"]] = entity["since"]
    elif entity["RowKey"].startswith(_OVER_ALL):
        state = gate_of(json.loads(entity["state"]))
        rows.over_all[state.gate.id] = (state, entity["since"])
    elif entity["RowKey"].startswith(_DEFAULT):
        key = (GateKind(entity["kind"]), entity["name"])
        rows.defaults[key] = (rule_of(json.loads(entity["rule"])), entity["since"])
