"""`Feed` over Azure Tables: HEAD, SEEN and E rows of a tenant, the list of tenants with feeds, and the row with the
table's identity.

A write of the feed also creates PENDING and DAY rows, which `hooks` and `heads` read.
"""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from shared.adapters.tables.decoding import row_as
from shared.adapters.tables.hook_rows import delivery_entity
from shared.adapters.tables.keys import (
    AFTER_FEED_EVENTS,
    FEED_PARTITION,
    FEED_ROW,
    FEED_TENANTS_PARTITION,
    HEAD_ROW,
    feed_event_row,
    head_row,
    seen_row,
)
from shared.adapters.tables.table import (
    Entity,
    RowOperation,
    Tables,
    delete_row,
    merge_row,
    put_row,
    row_at,
    upsert_row,
)
from shared.adapters.tables.table_rows import TableRows, all_of, between
from shared.core.audit.heads import DayHead
from shared.core.incidents import find_opening_time
from shared.core.records.canonical import encode_key
from shared.errors import AlreadyExists, Conflict, LedgerUnavailable
from shared.ports.feed import FeedEvent, FeedIdentity, FeedWrite, Head


class TablesFeed:
    """Implementation of `shared.ports.feed.Feed` over Azure Tables."""

    def __init__(self, account: Tables, table: str, now: Callable[[], datetime]) -> None:
        self._rows = TableRows(account, table)
        self._now = now
        self._identity: FeedIdentity | None = None

    async def identity(self) -> FeedIdentity:
        if self._identity is not None:
            return self._identity
        for _ in range(2):
            self._identity = await self._rows.find(FEED_PARTITION, FEED_ROW, partial(row_as, FeedIdentity))
            if self._identity is not None:
                return self._identity
            new = {**row_at(FEED_PARTITION, FEED_ROW), "feed_id": secrets.token_hex(8)}
            with contextlib.suppress(AlreadyExists):
                await self._rows.transact([("create", {**new, "since": self._now()})])
        raise LedgerUnavailable("the id of the feeds cannot be read or written")

    async def head(self, tenant: str) -> Head:
        await self.identity()
        return await self._rows.find(encode_key(tenant), HEAD_ROW, _head_of) or Head()

    async def read_seen(self, tenant: str, job_id: str) -> int:
        return await self._rows.find(encode_key(tenant), seen_row(job_id), lambda row: int(row["seq"])) or 0

    async def write(self, write: FeedWrite) -> Head:
        partition = encode_key(write.tenant)
        after = replace(write.head, number=write.number, heads_since=write.heads_since)
        operations: list[RowOperation] = [head_operation(partition, write.head, after)]
        operations += [
            ("create" if key in write.new else "upsert", _seen_entity(partition, key, seq, write.at))
            for key, seq in write.seen.items()
        ]
        operations += [("create", feed_event_entity(partition, event)) for event in write.events]
        operations += [("create", delivery_entity(partition, each)) for each in write.pending]
        operations += [put_row(_head_entity(partition, each)) for each in write.heads]
        await list_tenant(self._rows, write.tenant, write.head)
        try:
            metadata = await self._rows.transact(operations)
        except AlreadyExists as taken:
            raise Conflict from taken
        return replace(after, etag=metadata[0]["etag"])

    async def tenants(self) -> list[str]:
        return await self._rows.read_decoded(all_of(FEED_TENANTS_PARTITION), None, lambda row: str(row["tenant"]))

    async def forget(self, tenant: str, job_id: str) -> None:
        await self._rows.delete(encode_key(tenant), seen_row(job_id))

    async def forget_incidents(self, tenant: str, *, before: datetime, limit: int) -> int:
        # their ids begin with the time of their opening; incidents of jobs sort after them
        query = between(encode_key(tenant), seen_row("inc_0"), seen_row("inc_:")).having("at lt @at", at=before)
        rows = await self._rows.first(query, limit)
        if rows:
            # another process deleted them, or wrote one: the next prune checks again
            with contextlib.suppress(Conflict):
                await self._rows.transact([delete_row(row["PartitionKey"], row["RowKey"], row.etag) for row in rows])
        return len(rows)

    async def remove(self, tenant: str, *, before: datetime, limit: int) -> int:
        first = await self.events(tenant, after=0, limit=limit)
        old = list(itertools.takewhile(lambda event: event.at < before, first))
        return await self._rows.delete_all(row_at(encode_key(tenant), feed_event_row(event.number)) for event in old)

    async def purge(self, tenant: str, *, limit: int) -> int:
        partition, head = encode_key(tenant), await self.head(tenant)
        if head.heads_since is not None:
            # first, so that no earlier period can be signed without its heads
            with contextlib.suppress(Conflict):
                await self._rows.write(merge_row({**row_at(partition, HEAD_ROW), "heads_since": ""}, head.etag))
            return 1
        found = await self._rows.first(all_of(partition), limit + 1)
        return await self._rows.delete_all([row for row in found if row["RowKey"] != HEAD_ROW][:limit])

    async def events(self, tenant: str, *, after: int, limit: int) -> list[FeedEvent]:
        query = between(encode_key(tenant), feed_event_row(after), AFTER_FEED_EVENTS)
        # a broken event is left out, and the numbers show the gap
        return await self._rows.read_decoded(query, limit, _event_of)


def _head_of(row: Entity) -> Head:
    hooks = int(row.get("hooks", 0))
    return Head(
        number=int(row["number"]),
        sent=int(row["sent"]),
        hooks=hooks,
        heads_since=row.get("heads_since") or None,
        etag=row.etag,
    )


def _event_of(row: Entity) -> FeedEvent:
    return row_as(FeedEvent, row, number=int(row["RowKey"].removeprefix("E:")), text=row["event"])


async def list_tenant(rows: TableRows, tenant: str, head: Head) -> None:
    """Adds the tenant to the list of feeds, before the tenant's first HEAD is written."""
    if not head.etag:
        row = {**row_at(FEED_TENANTS_PARTITION, encode_key(tenant)), "tenant": tenant}
        await rows.write(upsert_row(row))


def head_operation(partition: str, before: Head, after: Head) -> RowOperation:
    """Returns the operation that writes HEAD. The operation fails if HEAD has changed since it was read."""
    row: dict[str, Any] = {
        **row_at(partition, HEAD_ROW),
        "number": (after.number, "Edm.Int64"),
        "sent": (after.sent, "Edm.Int64"),
    }
    # a merge cannot remove a column
    row |= {"hooks": after.hooks} if after.hooks or before.hooks else {}
    row |= {"heads_since": after.heads_since or ""} if after.heads_since != before.heads_since else {}
    return merge_row(row, before.etag) if before.etag else ("create", row)


def _head_entity(partition: str, head: DayHead) -> dict[str, Any]:
    return {**row_at(partition, head_row(head.day, head.name)), "seq": head.seq, "hash": head.hash}


def _seen_entity(partition: str, key: str, seq: int, at: datetime | None) -> dict[str, Any]:
    """Makes a SEEN row. For an incident without a job, the row has the time that `forget_incidents` compares."""
    row = {**row_at(partition, seen_row(key)), "seq": seq}
    return {**row, "at": at} if at is not None and find_opening_time(key) is not None else row


def feed_event_entity(partition: str, event: FeedEvent) -> dict[str, Any]:
    return {
        **row_at(partition, feed_event_row(event.number)),
        "event_id": event.event_id,
        "event_type": event.event_type,
        "job_id": event.job_id,
        "at": event.at,
        "event": event.text,
    }
