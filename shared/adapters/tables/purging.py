"""The rule for each kind of row when a tenant is purged, and the deletion of a tenant's rows from the index."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from datetime import datetime
from enum import Enum

from shared.adapters.tables.keys import (
    GATES_ROW,
    GUARD_PARTITION,
    bulk_key_row,
    bulk_row,
    fold_again_row,
    list_row,
)
from shared.adapters.tables.listing import TablesLists
from shared.adapters.tables.table import MAX_OPERATIONS, Entity, RowOperation, delete_row
from shared.adapters.tables.table_rows import all_of, between
from shared.core.bulks import Bulk
from shared.core.records.canonical import encode_key
from shared.errors import Conflict
from shared.ports.purging import ListedJob


class Leaving(Enum):
    """The time at which a row of a purged tenant is deleted."""

    #: the tenant cannot be purged while it has such a row
    LIVING = "of a job that has not ended"
    #: together with its job, which a LIST, ARCHIVED or ENDED row leads to
    JOB = "with its job"
    #: after the jobs of the tenant
    TENANT = "with the tenant"
    #: not by the purge: not a row of a tenant, or without its content, or a blob that only a lifecycle rule deletes
    STAYS = "stays"


#: by the first part of the key, as in docs/contributing/stored-rows.md; for shared partitions with the partition
RULES: Mapping[str, Leaving] = {
    **dict.fromkeys(("ACTIVE", "DUE", "WAIT", "DEP"), Leaving.LIVING),
    **dict.fromkeys(("JOB", "STEP", "EVENT", "LIST", "ARCHIVED", "ENDED", "CLAIM", "CORRELATION"), Leaving.JOB),
    **dict.fromkeys(("DEAD", "DEPFAILED", "INCIDENT", "INCIDENTLOG", "incidents OPEN"), Leaving.JOB),
    **dict.fromkeys(("blob JOB/...", "blob TENANT/MONTH/JOB.DIGEST.json"), Leaving.JOB),
    **dict.fromkeys(("GATES", "GATELOG", "FREED", "USAGE", "SOURCE", "directory TENANTS"), Leaving.TENANT),
    **dict.fromkeys(("BULK", "BULKITEM", "BULKWORK", "BULKKEY", "BULKSLOT", "bulks"), Leaving.TENANT),
    **dict.fromkeys(("DAY", "COMPLETE"), Leaving.TENANT),
    **dict.fromkeys(("E", "SEEN", "HOOK", "HOOKLOG", "PENDING", "DELIVERY", "=hooks"), Leaving.TENANT),
    **dict.fromkeys(("incidents INCIDENT", "incidents INCIDENTLOG", "incidents OF"), Leaving.TENANT),
    "incidents SUBJECT": Leaving.TENANT,
    **dict.fromkeys(("rejected", "blob DAY/...", "=guard REFOLD", "tenants"), Leaving.TENANT),
    # has the numbers, so that no reader of the feed gets one twice
    **dict.fromkeys(("HEAD", "=feeds"), Leaving.STAYS),
    # counts under the tenant's name, which exist for an hour, until the next allocation, or as long as the quota over
    # all tenants
    **dict.fromkeys(("=minutes MINUTE", "asks", "books BOOK"), Leaving.STAYS),
    **dict.fromkeys(("directory DEFAULT", "directory OVERALL", "directory SETTINGS"), Leaving.STAYS),
    **dict.fromkeys(("directory VERSION", "services SERVICE", "protocols PROTOCOL", "=feed FEED"), Leaving.STAYS),
    **dict.fromkeys(("=guard SWEEP", "=guard POSITION", "=guard FOLD"), Leaving.STAYS),
    # has the tenant's name, job ids and hashes, and cannot be changed
    "blob KEPT/...": Leaving.STAYS,
    # in an account of its own, whose files LUCIUS never opens: its lifecycle rule deletes them
    "blob workspace/...": Leaving.STAYS,
}

#: kinds of rows that lead to a job
_JOBS = ("ARCHIVED", "ENDED", "LIST")


class TablesPurging(TablesLists):
    """The part of `shared.ports.index.Index` that deletes a tenant."""

    async def list_job_rows(self, tenant: str, *, after: str, limit: int) -> list[ListedJob]:
        found: list[ListedJob] = []
        for word in _JOBS:
            if after < f"{word};" and len(found) < limit:
                rows = await self._range(tenant, max(after, f"{word}:"), f"{word};", limit - len(found))
                found += [ListedJob(row=row["RowKey"], job_id=row["RowKey"].rpartition(":")[2]) for row in rows]
        return found

    async def drop_listed(self, tenant: str, listed: ListedJob) -> None:
        await self._delete(tenant, listed.row)

    async def purge(self, bulk: Bulk, *, limit: int) -> int | None:
        rows = await self._others(bulk, limit)
        if any(_is_of_job(row, bulk.created_at) for row in rows):
            return None
        for start in range(0, len(rows), MAX_OPERATIONS):
            with contextlib.suppress(Conflict):
                await self._rows.transact([_deletes(row) for row in rows[start : start + MAX_OPERATIONS]])
        if rows:
            return len(rows)
        return await self._purge_admission(bulk)

    async def _others(self, bulk: Bulk, limit: int) -> list[Entity]:
        """Returns at most `limit` rows of the tenant, without GATES and the purge's own BULK and BULKKEY rows.

        A repeated request finds the running purge by the row of its idempotency key. Without that row, two purges can
        delete each other.
        """
        spared = {GATES_ROW, bulk_row(bulk.bulk_id), bulk_key_row(bulk.key or "")}
        rows = await self._rows.first(all_of(encode_key(bulk.tenant)), limit + len(spared))
        return [row for row in rows if row["RowKey"] not in spared][:limit]

    async def _purge_admission(self, bulk: Bulk) -> int | None:
        """Deletes GATES under its ETag, since the creation of a job with quotas changes GATES. Also deletes the
        tenant's REFOLD rows, and returns 0. If other rows of the tenant remain, deletes nothing and returns None.
        """
        admission = await self._rows.read(encode_key(bulk.tenant), GATES_ROW)
        if await self._others(bulk, 1):
            return None
        if admission is not None:
            await self._delete(bulk.tenant, GATES_ROW, admission.etag)
        async for row in self._rows.query(between(GUARD_PARTITION, fold_again_row(None, ""), "REFOLD;")):
            if row["tenant"] == bulk.tenant:
                await self._rows.delete(GUARD_PARTITION, row["RowKey"])
        return 0


def _is_of_job(row: Entity, before: datetime) -> bool:
    """Returns True if the row is of a job that has not ended, or of a job that was created after the purge began."""
    word = row["RowKey"].partition(":")[0]
    if word == "CLAIM":
        return row.get("expires_at") is None
    if word == "CORRELATION":
        # its key sorts newest first
        listed = row["RowKey"].split(":", 2)[2]
        return bool(listed < list_row(before, "").partition(":")[2])
    return RULES.get(word) is Leaving.LIVING or word in _JOBS


def _deletes(row: Entity) -> RowOperation:
    is_claim = row["RowKey"].startswith("CLAIM:")
    return delete_row(row["PartitionKey"], row["RowKey"], row.etag if is_claim else None)
