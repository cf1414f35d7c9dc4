"""The tenants that ever posted, a row each, and until when each sleeps: the sweeper reads only those awake."""

from __future__ import annotations

import contextlib
import copy
from datetime import UTC, datetime

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.decoding import first_decoded
from shared.adapters.tables.keys import TENANTS_PARTITION
from shared.adapters.tables.table import Entity, Tables
from shared.core.canonical import encode_key
from shared.errors import Conflict
from shared.ports.index import WAKE_LASTS, AwakeTenant

#: `wake_at` of a tenant to which nothing is owed; a column holds instants up to the year 9999
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
#: tenants that a process remembers to have woken; one that it forgets costs a write more
MAX_REMEMBERED = 10_000


class TenantRows:
    """The table of the tenants, for `shared.adapters.tables.index`."""

    def __init__(self, account: Tables, table: str) -> None:
        self._account = account
        self._table = table
        #: until when this process relies on having woken a tenant
        self._woken_until: dict[str, datetime] = {}

    def over(self, account: Tables) -> TenantRows:
        """The same rows over other tables, with what this process remembers."""
        rows = copy.copy(self)
        rows._account = account
        return rows

    async def wake(self, tenant: str, now: datetime) -> None:
        """Before the tenant's rows are written, so that a sweep finds them. Raises LedgerUnavailable."""
        if now < self._woken_until.get(tenant, now):
            return
        row = {
            "PartitionKey": TENANTS_PARTITION,
            "RowKey": encode_key(tenant),
            "tenant": tenant,
            "posted_at": now,
            "wake_at": now,
        }
        table = await self._account.table(self._table)
        # whatever the row says: its new ETag keeps a sweep that read the old one from putting the tenant to sleep
        await table.upsert_entity(row, mode=UpdateMode.MERGE)
        self._woken_until.pop(tenant, None)
        self._woken_until[tenant] = now + WAKE_LASTS
        if len(self._woken_until) > MAX_REMEMBERED:
            del self._woken_until[next(iter(self._woken_until))]

    async def awake(self, now: datetime) -> list[AwakeTenant]:
        """One query, in pages. Raises LedgerUnavailable."""
        table = await self._account.table(self._table)
        query = "PartitionKey eq @tenants and wake_at le @now"
        return await first_decoded(table, query, {"tenants": TENANTS_PARTITION, "now": now}, None, _awake_of)

    async def sleep(self, awake: AwakeTenant, until: datetime | None) -> None:
        """Until `until`, None: its next POST. Race sleep: nothing where it posted since. Raises LedgerUnavailable."""
        row = {
            "PartitionKey": TENANTS_PARTITION,
            "RowKey": encode_key(awake.tenant),
            "wake_at": until if until is not None else _NEVER,
        }
        table = await self._account.table(self._table)
        with contextlib.suppress(Conflict):
            await table.update_entity(
                row, mode=UpdateMode.MERGE, etag=awake.etag, match_condition=MatchConditions.IfNotModified
            )

    async def all(self) -> list[str]:
        """Asleep or awake. Raises LedgerUnavailable."""
        table = await self._account.table(self._table)
        query = "PartitionKey eq @tenants"
        return await first_decoded(table, query, {"tenants": TENANTS_PARTITION}, None, lambda row: str(row["tenant"]))


def _awake_of(row: Entity) -> AwakeTenant:
    return AwakeTenant(tenant=row["tenant"], posted_at=row["posted_at"], etag=row.metadata["etag"] or "")
