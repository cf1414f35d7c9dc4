"""Tables for one caller (R24). Each read and write names a partition that the caller can use.

In the tables of the index and of the feed, a tenant has its own partition, whose key is the encoded tenant name.
`SHARED` lists the other partitions that a request can use through these tables. The remaining partitions need the
stores of all tenants (`Context.of_all_tenants`).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from enum import Enum
from typing import Any

from shared.adapters.scoped.reach import Reach
from shared.adapters.tables.keys import (
    BULKS_PARTITION,
    DIRECTORY_PARTITION,
    FEED_TENANTS_PARTITION,
    HOOK_TENANTS_PARTITION,
    INCIDENTS_PARTITION,
    TENANTS_PARTITION,
)
from shared.adapters.tables.table import Entity, NotThere, RowOperation, Table, Tables


class Sharing(Enum):
    """The use that a request can make of a partition without a tenant."""

    #: each row has its tenant in column `tenant`; reads leave out rows that the caller cannot see
    BY_COLUMN = "by column"
    #: checked by the stores of `shared.adapters.scoped.stores`
    OPEN = "open"


SHARED: Mapping[str, Sharing] = {
    # a request wakes its own tenant, and lists the tenants that it can see
    TENANTS_PARTITION: Sharing.BY_COLUMN,
    # the first row of a feed adds its tenant for the sweeper
    FEED_TENANTS_PARTITION: Sharing.BY_COLUMN,
    # a change of a webhook adds its tenant for the sweeper
    HOOK_TENANTS_PARTITION: Sharing.BY_COLUMN,
    # a new bulk operation adds an entry for the sweeper
    BULKS_PARTITION: Sharing.BY_COLUMN,
    # each process reads the tenants with quotas, many in one row; `TenantAdmissions` checks the writes
    DIRECTORY_PARTITION: Sharing.OPEN,
    # the end of any job can open incidents of breakers and services; `TenantIncidents` checks the other uses
    INCIDENTS_PARTITION: Sharing.OPEN,
}

#: a key with a lone `=` is not an encoded name
_NO_TENANT = re.compile(r"=(?![0-9A-F]{2})")
#: clauses that must all match; only the first names the partition
_FILTER = re.compile(r"PartitionKey eq @(\w+)(?: and (?!PartitionKey )\w+ (?:eq|ne|gt|ge|lt|le) @\w+)*")


class ScopedTables:
    """`shared.adapters.tables.table.Tables`, limited to the tenants of one caller. `shared_tables` has the names of
    tables without partitions of tenants.
    """

    def __init__(self, tables: Tables, reach: Reach, shared_tables: Collection[str | None] = ()) -> None:
        self._tables = tables
        self._reach = reach
        self._shared_tables = shared_tables

    async def table(self, name: str) -> Table:
        return ScopedTable(await self._tables.table(name), self._reach, is_shared=name in self._shared_tables)


class ScopedTable:
    """`shared.adapters.tables.table.Table`, limited to the tenants of one caller.

    Each method raises PermissionError for the partition of a tenant that the caller cannot see. A write raises
    TenantForbidden for a partition that the caller can only read.
    """

    def __init__(self, table: Table, reach: Reach, *, is_shared: bool = False) -> None:
        self._table = table
        self._reach = reach
        self._is_shared = is_shared

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        sharing = self._check_read(partition_key)
        row = await self._table.get_entity(partition_key, row_key)
        if sharing is Sharing.BY_COLUMN and not self._shows(row):
            raise NotThere("ResourceNotFound")
        return row

    def query_entities(
        self, query_filter: str, *, parameters: Mapping[str, Any] | None = None, **options: Any
    ) -> AsyncIterator[Entity]:
        if (match := _FILTER.fullmatch(query_filter)) is None:
            raise PermissionError(f"a query without a partition: {query_filter}")
        sharing = self._check_read((parameters or {})[match[1]])
        rows = self._table.query_entities(query_filter, parameters=parameters, **options)
        return self._filter(rows) if sharing is Sharing.BY_COLUMN else rows

    async def submit_transaction(self, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        for _, row, *_ in operations:
            self._check_write(row)
        return await self._table.submit_transaction(operations)

    async def write(self, operation: RowOperation) -> None:
        self._check_write(operation[1])
        await self._table.write(operation)

    def _check_read(self, partition: str) -> Sharing | None:
        sharing = self._sharing(partition)
        if sharing is None:
            self._reach.check_see_partition(partition)
        return sharing

    def _check_write(self, row: Mapping[str, Any]) -> None:
        partition = row["PartitionKey"]
        sharing = self._sharing(partition)
        if sharing is None:
            self._reach.check_move_partition(partition)
        elif sharing is Sharing.BY_COLUMN:
            self._reach.check_move(row.get("tenant"))

    def _sharing(self, partition: str) -> Sharing | None:
        """Returns the allowed use of a partition, or None for the partition of a tenant. Raises PermissionError for a
        partition that only the sweeper uses.
        """
        if not self._is_shared and _NO_TENANT.search(partition) is None:
            return None
        if partition not in SHARED:
            raise PermissionError(f"only a sweep of every tenant uses the partition {partition!r}")
        return SHARED[partition]

    def _shows(self, row: Entity) -> bool:
        return self._reach.sees(row.get("tenant"))

    async def _filter(self, rows: AsyncIterator[Entity]) -> AsyncIterator[Entity]:
        async for row in rows:
            if self._shows(row):
                yield row
