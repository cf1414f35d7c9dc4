"""`ProtocolVersions` over Azure Tables: one partition of the table of the quotas."""

from __future__ import annotations

from shared.adapters.tables.columns import join_json, split_json
from shared.adapters.tables.decoding import row_as
from shared.adapters.tables.keys import PROTOCOLS_PARTITION, protocol_row
from shared.adapters.tables.table import Entity, Tables, row_at
from shared.adapters.tables.table_rows import TableRows, all_of
from shared.errors import AlreadyExists
from shared.ports.protocol_versions import StoredVersion

_JSON = ("definition", "schemas")


class TablesProtocolVersions:
    """Implementation of `shared.ports.protocol_versions.ProtocolVersions` over Azure Tables."""

    def __init__(self, account: Tables, gates_table: str) -> None:
        self._gates = TableRows(account, gates_table)

    async def read(self) -> list[StoredVersion]:
        return await self._gates.read_decoded(all_of(PROTOCOLS_PARTITION), None, _decode)

    async def add(self, version: StoredVersion) -> bool:
        row = row_at(PROTOCOLS_PARTITION, protocol_row(version.protocol_id, version.version))
        columns = {name: value for name, value in vars(version).items() if name not in _JSON}
        for name in _JSON:
            columns |= split_json(name, getattr(version, name))
        try:
            await self._gates.transact([("create", {**row, **columns})])
        except AlreadyExists:
            return False
        return True


def _decode(entity: Entity) -> StoredVersion:
    return row_as(StoredVersion, entity, **{name: join_json(name, entity) for name in _JSON})
