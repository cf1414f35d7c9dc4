"""`Feed` over Azure Tables: HEAD, SEEN and E rows of a tenant's partition, and the row that says which table it is."""

from __future__ import annotations

import contextlib
import itertools
import secrets
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.account import first_rows, read_row, transact
from shared.adapters.tables.decoding import decoded, first_decoded
from shared.adapters.tables.hook_rows import delivery_entity
from shared.adapters.tables.keys import (
    AFTER_FEED_EVENTS,
    FEED_PARTITION,
    FEED_ROW,
    FEED_TENANTS_PARTITION,
    HEAD_ROW,
    feed_event_row,
    seen_row,
)
from shared.adapters.tables.table import Entity, Operation, Table, Tables
from shared.core.canonical import encode_key
from shared.core.incidents import opened_of
from shared.errors import AlreadyExists, Conflict, LedgerUnavailable
from shared.ports.feed import FeedEvent, FeedIdentity, FeedWrite, Head


class TablesFeed:
    """See `shared.ports.feed.Feed`."""

    def __init__(self, account: Tables, table: str, now: Callable[[], datetime]) -> None:
        self._account = account
        self._table = table
        self._now = now
        self._identity: FeedIdentity | None = None

    async def identity(self) -> FeedIdentity:
        if self._identity is not None:
            return self._identity
        table = await self._account.table(self._table)
        for _ in range(2):
            if (row := await read_row(table, FEED_PARTITION, FEED_ROW)) is not None:
                self._identity = decoded(_identity_of, row)
                return self._identity
            new = {"PartitionKey": FEED_PARTITION, "RowKey": FEED_ROW, "feed_id": secrets.token_hex(8)}
            with contextlib.suppress(AlreadyExists):
                await transact(table, [("create", {**new, "since": self._now()})])
        raise LedgerUnavailable("the feed's table does not say which it is")

    async def head(self, tenant: str) -> Head:
        await self.identity()
        row = await read_row(await self._account.table(self._table), encode_key(tenant), HEAD_ROW)
        return decoded(_head_of, row) if row is not None else Head()

    async def seen(self, tenant: str, job_id: str) -> int:
        row = await read_row(await self._account.table(self._table), encode_key(tenant), seen_row(job_id))
        return decoded(lambda found: int(found["seq"]), row) if row is not None else 0

    async def write(self, write: FeedWrite) -> Head:
        partition = encode_key(write.tenant)
        after = replace(write.head, number=write.number)
        operations: list[Operation] = [head_operation(partition, write.head, after)]
        operations += [
            ("create" if key in write.new else "upsert", _seen_entity(partition, key, seq, write.at))
            for key, seq in write.seen.items()
        ]
        operations += [("create", event_entity(partition, event)) for event in write.events]
        operations += [("create", delivery_entity(partition, each)) for each in write.pending]
        table = await self._account.table(self._table)
        await list_tenant(table, write.tenant, write.head)
        try:
            metadata = await transact(table, operations)
        except AlreadyExists as taken:
            raise Conflict from taken
        return replace(after, etag=metadata[0]["etag"])

    async def tenants(self) -> list[str]:
        table, parameters = await self._account.table(self._table), {"partition": FEED_TENANTS_PARTITION}
        query = "PartitionKey eq @partition"
        return await first_decoded(table, query, parameters, None, lambda row: str(row["tenant"]))

    async def forget(self, tenant: str, job_id: str) -> None:
        await (await self._account.table(self._table)).delete_entity(encode_key(tenant), seen_row(job_id))

    async def forget_incidents(self, tenant: str, *, before: datetime, limit: int) -> int:
        table = await self._account.table(self._table)
        # their ids begin with the instant of their opening; those of jobs' incidents sort behind them
        parameters = {"tenant": encode_key(tenant), "first": seen_row("inc_0"), "end": seen_row("inc_:"), "at": before}
        query = "PartitionKey eq @tenant and RowKey gt @first and RowKey lt @end and at lt @at"
        rows = await first_rows(table, query, parameters, limit)
        deletes: list[Operation] = [
            (
                "delete",
                {"PartitionKey": row["PartitionKey"], "RowKey": row["RowKey"]},
                {"etag": row.metadata["etag"], "match_condition": MatchConditions.IfNotModified},
            )
            for row in rows
        ]
        if deletes:
            # another one has removed them, or one was written: the next prune looks again
            with contextlib.suppress(Conflict):
                await transact(table, deletes)
        return len(rows)

    async def remove(self, tenant: str, *, before: datetime, limit: int) -> int:
        first = await self.events(tenant, after=0, limit=limit)
        old = list(itertools.takewhile(lambda event: event.at < before, first))
        keys = [{"PartitionKey": encode_key(tenant), "RowKey": feed_event_row(event.number)} for event in old]
        if keys:
            # another one may be at it, and has removed the same
            with contextlib.suppress(Conflict):
                await transact(await self._account.table(self._table), [("delete", key) for key in keys])
        return len(keys)

    async def events(self, tenant: str, *, after: int, limit: int) -> list[FeedEvent]:
        table = await self._account.table(self._table)
        query = "PartitionKey eq @tenant and RowKey gt @after and RowKey lt @end"
        parameters = {"tenant": encode_key(tenant), "after": feed_event_row(after), "end": AFTER_FEED_EVENTS}
        # a broken event is left out, and the numbers show the gap
        return await first_decoded(table, query, parameters, limit, _event_of)


def _identity_of(row: Entity) -> FeedIdentity:
    return FeedIdentity(feed_id=row["feed_id"], since=row["since"])


def _head_of(row: Entity) -> Head:
    hooks = int(row.get("hooks", 0))
    return Head(number=int(row["number"]), sent=int(row["sent"]), hooks=hooks, etag=row.metadata["etag"] or "")


def _event_of(row: Entity) -> FeedEvent:
    return FeedEvent(
        number=int(row["RowKey"].removeprefix("E:")),
        event_id=row["event_id"],
        event_type=row["event_type"],
        job_id=row["job_id"],
        at=row["at"],
        text=row["event"],
    )


async def list_tenant(table: Table, tenant: str, head: Head) -> None:
    """Before the tenant's first HEAD: whoever looks at all feeds finds it."""
    if not head.etag:
        row = {"PartitionKey": FEED_TENANTS_PARTITION, "RowKey": encode_key(tenant), "tenant": tenant}
        await table.upsert_entity(row, mode=UpdateMode.MERGE)


def head_operation(partition: str, before: Head, after: Head) -> Operation:
    """HEAD as it is then, where it is still as it was read."""
    row: dict[str, Any] = {
        "PartitionKey": partition,
        "RowKey": HEAD_ROW,
        "number": (after.number, "Edm.Int64"),
        "sent": (after.sent, "Edm.Int64"),
    }
    # a merge takes no column out
    row |= {"hooks": after.hooks} if after.hooks or before.hooks else {}
    if not before.etag:
        return ("create", row)
    under_etag = {
        "mode": UpdateMode.MERGE,
        "etag": before.etag,
        "match_condition": MatchConditions.IfNotModified,
    }
    return ("update", row, under_etag)


def _seen_entity(partition: str, key: str, seq: int, at: datetime | None) -> dict[str, Any]:
    """Of an incident that is no job's with the instant: by its age it goes."""
    row = {"PartitionKey": partition, "RowKey": seen_row(key), "seq": seq}
    return {**row, "at": at} if at is not None and opened_of(key) is not None else row


def event_entity(partition: str, event: FeedEvent) -> dict[str, Any]:
    return {
        "PartitionKey": partition,
        "RowKey": feed_event_row(event.number),
        "event_id": event.event_id,
        "event_type": event.event_type,
        "job_id": event.job_id,
        "at": event.at,
        "event": event.text,
    }
