"""The tenants that posted, one row each with the time until which the tenant sleeps. The sweeper reads only awake
tenants.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from shared.adapters.tables.decoding import row_as
from shared.adapters.tables.keys import TENANTS_PARTITION
from shared.adapters.tables.table import Tables, delete_row, merge_row, row_at, upsert_row
from shared.adapters.tables.table_rows import TableRows, all_of
from shared.core.records.canonical import encode_key
from shared.errors import Conflict
from shared.ports.index import WAKE_LASTS, AwakeTenant

#: `wake_at` of a tenant without due work; a column has times up to the year 9999
_NEVER = datetime(9999, 1, 1, tzinfo=UTC)
#: `wake_at` of an awake tenant; the time of its POST could be after that of a sweep that lists the tenants later
AWAKE = datetime(1970, 1, 1, tzinfo=UTC)
#: maximum tenants that a process remembers as awake; a forgotten one costs another write
MAX_REMEMBERED = 10_000


class TenantRows:
    """The table of the tenants, for `shared.adapters.tables.index`."""

    def __init__(self, account: Tables, table: str) -> None:
        self._rows = TableRows(account, table)
        #: time until which this process relies on having woken a tenant
        self._woken_until: dict[str, datetime] = {}

    def over(self, scoped: Callable[[TableRows], Tables]) -> TenantRows:
        """Returns an object for the same rows over other tables. Both objects share the state of this process."""
        rows = copy.copy(self)
        rows._rows = TableRows(scoped(self._rows), self._rows.name)
        return rows

    async def wake(self, tenant: str, now: datetime) -> None:
        """Marks the tenant as awake before its rows are written, so that a sweep finds the rows. Raises
        LedgerUnavailable.
        """
        if now < self._woken_until.get(tenant, now):
            return
        row = {**row_at(TENANTS_PARTITION, encode_key(tenant)), "tenant": tenant, "posted_at": now, "wake_at": AWAKE}
        # written even if the tenant is awake: the new ETag prevents a sweep that read the old one from putting it to
        # sleep
        await self._rows.write(upsert_row(row))
        self._woken_until.pop(tenant, None)
        self._woken_until[tenant] = now + WAKE_LASTS
        if len(self._woken_until) > MAX_REMEMBERED:
            del self._woken_until[next(iter(self._woken_until))]

    async def awake(self, now: datetime) -> list[AwakeTenant]:
        """Lists the awake tenants with one query, in pages. Raises LedgerUnavailable."""
        query = all_of(TENANTS_PARTITION).having("wake_at le @now", now=now)
        return await self._rows.read_decoded(query, None, partial(row_as, AwakeTenant))

    async def sleep(self, awake: AwakeTenant, until: datetime | None) -> None:
        """Marks the tenant as asleep until `until`. None means until the tenant's next POST. Does nothing if the tenant
        has posted since (Race sleep).

        Raises LedgerUnavailable.
        """
        row = {**row_at(TENANTS_PARTITION, encode_key(awake.tenant)), "wake_at": until if until is not None else _NEVER}
        with contextlib.suppress(Conflict):
            await self._rows.write(merge_row(row, awake.etag))

    async def forget(self, tenant: str, before: datetime) -> bool:
        """Deletes the row of a tenant that last posted before `before`. Returns True if the row no longer exists.
        Raises LedgerUnavailable.
        """
        row = await self._rows.read(TENANTS_PARTITION, encode_key(tenant))
        if row is None:
            return True
        if row["posted_at"] >= before:
            return False
        try:
            await self._rows.write(delete_row(TENANTS_PARTITION, encode_key(tenant), row.etag))
        except Conflict:
            return False
        return True

    async def all(self) -> list[str]:
        """Lists all tenants, asleep or awake. Raises LedgerUnavailable."""
        return await self._rows.read_decoded(all_of(TENANTS_PARTITION), None, lambda row: str(row["tenant"]))
