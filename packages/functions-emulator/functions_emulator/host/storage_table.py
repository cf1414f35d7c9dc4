"""Table inputs (one entity, or a query) and outputs (one entity, or a list of entities), as JSON texts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from datetime import date, datetime
from typing import Any

from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.data.tables.aio import TableClient

from functions_emulator.host.expressions import fill
from functions_emulator.host.functions import Binding
from functions_emulator.host.settings import Settings


class TableStorage:
    """Table inputs and outputs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def _open(self, binding: Binding, trigger_data: Mapping[str, Any]) -> TableClient:
        table = fill(str(binding.fields["tableName"]), trigger_data)
        return TableClient.from_connection_string(self._settings.connection(binding.connection, binding.service), table)

    async def read(self, binding: Binding, trigger_data: Mapping[str, Any]) -> str | None:
        """Returns the entity of a row key, or `None`. Without a row key, returns the entities of the partition and the
        filter, at most `take`.
        """
        partition = fill(binding.text("partitionKey") or "", trigger_data)
        row = fill(binding.text("rowKey") or "", trigger_data)
        async with self._open(binding, trigger_data) as table:
            try:
                if row:
                    return json.dumps(dict(await table.get_entity(partition, row)), default=_json_value)
                entities = []
                limit = int(binding.fields.get("take") or 0)
                async for entity in table.query_entities(self._filter(binding, partition, trigger_data)):
                    entities.append(dict(entity))
                    if limit and len(entities) >= limit:
                        break
                return json.dumps(entities, default=_json_value)
            except ResourceNotFoundError:
                return None if row else "[]"

    def _filter(self, binding: Binding, partition: str, trigger_data: Mapping[str, Any]) -> str:
        parts = []
        if partition:
            quoted = partition.replace("'", "''")
            parts.append(f"PartitionKey eq '{quoted}'")
        if given := binding.text("filter"):
            parts.append(f"({fill(given, trigger_data)})")
        return " and ".join(parts)

    async def write(self, binding: Binding, value: Any, trigger_data: Mapping[str, Any]) -> None:
        """Inserts entities. The binding's keys complete an entity without keys. An entity that exists is an error."""
        parsed = json.loads(value) if isinstance(value, str | bytes) else value
        async with self._open(binding, trigger_data) as table:
            keys = {
                "PartitionKey": fill(binding.text("partitionKey") or "", trigger_data),
                "RowKey": fill(binding.text("rowKey") or "", trigger_data),
            }
            key_fields = {key: text for key, text in keys.items() if text}
            for entity in parsed if isinstance(parsed, list) else [parsed]:
                try:
                    await table.create_entity({**key_fields, **entity})
                except ResourceNotFoundError:
                    with contextlib.suppress(ResourceExistsError):  # another writer may create it first
                        await table.create_table()
                    await table.create_entity({**key_fields, **entity})

    async def close(self) -> None:
        """Does nothing, since no connection stays open."""


def _json_value(value: Any) -> Any:
    """Returns the JSON form of a table's value that JSON does not have."""
    return value.isoformat() if isinstance(value, datetime | date) else str(value)
