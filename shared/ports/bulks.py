"""A tenant's bulk operations, their items and their remaining work, in the partition of the tenant's index (R65)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from shared.core.bulks import Bulk, BulkItem, Work


@dataclass(frozen=True)
class StoredBulk:
    """A bulk operation as read, with the token that the next write must present."""

    bulk: Bulk
    etag: str
    #: stored row, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class BulkKey:
    """An idempotency key, with its bulk operation and the digest of the body."""

    #: digest of the idempotency key
    key: str
    bulk_id: str
    body_hash: str


@dataclass(frozen=True, kw_only=True)
class BulkSlot:
    """One of a tenant's slots. A new bulk operation takes a slot that no RUNNING bulk operation has. The slot stays
    until another bulk operation takes it, or a purge deletes it.
    """

    #: number of the slot, from 0 on
    number: int
    #: id of the last bulk operation in the slot
    bulk_id: str
    #: ETag; "" if the slot was never used
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class BulkWrite:
    """A bulk operation and changed rows, written in one transaction. The transaction has at most 99 rows besides the
    operation's own row.
    """

    before: StoredBulk
    after: Bulk
    #: items to write, replacing existing ones
    items: Sequence[BulkItem] = ()
    #: further items, which must not exist yet
    new_items: Sequence[BulkItem] = ()
    #: finished units of work, and further ones
    finished: Sequence[Work] = ()
    added: Sequence[Work] = ()
    #: `True` to delete its idempotency key, so that the next request with the key creates a new bulk operation
    releases_key: bool = False


@dataclass(frozen=True, kw_only=True)
class DueBulk:
    """An entry of the sweeper's list: a bulk operation that the sweeper checks from `due_at` on."""

    tenant: str
    bulk_id: str
    due_at: datetime


class Bulks(Protocol):
    """Bulk operations. Every method raises LedgerUnavailable."""

    async def create(
        self, bulk: Bulk, *, slot: BulkSlot, key: BulkKey | None, work: Sequence[Work], items: Sequence[BulkItem]
    ) -> None:
        """Creates the bulk operation with its first items, in `slot` as it was read.

        Raises AlreadyExists or Conflict if the key is used, or if another bulk operation has taken the slot since the
        read.
        """

    async def slots(self, tenant: str) -> list[BulkSlot]:
        """Lists the slots that were used since the last purge, in the order of their numbers."""

    async def read(self, tenant: str, bulk_id: str) -> StoredBulk | None: ...

    async def find_key(self, tenant: str, key: str) -> BulkKey | None: ...

    async def write(self, change: BulkWrite) -> StoredBulk:
        """Writes under the bulk operation's ETag. Raises Conflict or AlreadyExists if the bulk operation or one of the
        rows has changed.
        """

    async def work(self, tenant: str, bulk_id: str, *, limit: int) -> list[Work]:
        """Returns the remaining work, in order."""

    async def read_item(self, tenant: str, bulk_id: str, job_id: str) -> BulkItem | None: ...

    async def items(self, tenant: str, bulk_id: str, *, after: str | None, limit: int) -> list[BulkItem]:
        """Returns the items in the order of the job ids, after the id `after`."""

    async def list_bulks(self, tenant: str, *, after: str | None, limit: int) -> list[Bulk]:
        """Returns bulk operations, newest first, after the id `after`."""

    async def remove(self, bulk: Bulk, *, limit: int) -> bool:
        """Deletes up to `limit` rows of an ended bulk operation, its own row last. Returns `True` if all rows are
        deleted.
        """

    async def due(self, *, now: datetime, limit: int, after: DueBulk | None = None) -> list[DueBulk]:
        """Returns the due bulk operations of all tenants, the earliest first, after `after`."""

    async def put_due(self, due: DueBulk) -> None:
        """Adds a bulk operation to the sweeper's list. Idempotent."""

    async def drop_due(self, due: DueBulk) -> None:
        """Deletes a bulk operation from the sweeper's list. Idempotent."""

    async def drop_due_before(self, bulk: Bulk) -> None:
        """Deletes the sweeper's entries of the tenant's earlier bulk operations. Idempotent."""
