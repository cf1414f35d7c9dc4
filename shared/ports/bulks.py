"""The bulks of a tenant, their items and what is left to do, in the partition of its index (R65)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from shared.core.bulks import Bulk, BulkItem, Work


@dataclass(frozen=True)
class StoredBulk:
    """A bulk as read, with the token that the next write must present."""

    bulk: Bulk
    etag: str
    #: as it is stored, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class BulkKey:
    """An idempotency key: which bulk it already is, and of which body."""

    #: digest of the key
    key: str
    bulk_id: str
    body_hash: str


@dataclass(frozen=True, kw_only=True)
class BulkSlot:
    """One of a tenant's slots: each RUNNING bulk has one, and an ended bulk keeps it until another bulk takes it."""

    #: from 0 on
    number: int
    #: the bulk that took it last
    bulk_id: str
    #: "" : the slot was never taken
    etag: str = ""


@dataclass(frozen=True, kw_only=True)
class BulkWrite:
    """A bulk with rows of it; none of them is written unless all are. At most 99 rows besides the bulk's."""

    before: StoredBulk
    after: Bulk
    #: written over what is there
    items: Sequence[BulkItem] = ()
    #: of `items`, those that must not be there yet
    new_items: Sequence[BulkItem] = ()
    #: pieces of work that are done, and others that are left instead
    finished: Sequence[Work] = ()
    added: Sequence[Work] = ()


@dataclass(frozen=True, kw_only=True)
class DueBulk:
    """A row of the directory: a bulk at which the sweeper looks from `due_at` on."""

    tenant: str
    bulk_id: str
    due_at: datetime


class Bulks(Protocol):
    """Every method raises LedgerUnavailable."""

    async def create(
        self, bulk: Bulk, *, slot: BulkSlot, key: BulkKey | None, work: Sequence[Work], items: Sequence[BulkItem]
    ) -> None:
        """Creates the bulk operation with its first items, in `slot` as it was read.

        Raises AlreadyExists or Conflict if the key is used, or another bulk operation has taken the slot since.
        """

    async def slots(self, tenant: str) -> list[BulkSlot]:
        """Lists all slots, in the order of their numbers."""

    async def read(self, tenant: str, bulk_id: str) -> StoredBulk | None: ...

    async def find_key(self, tenant: str, key: str) -> BulkKey | None: ...

    async def release_key(self, bulk: Bulk) -> None:
        """The next bulk of its key is a new one; idempotent."""

    async def write(self, change: BulkWrite) -> StoredBulk:
        """Writes under the bulk operation's ETag. Raises Conflict or AlreadyExists if it, or one of the rows, has
        changed.
        """

    async def work(self, tenant: str, bulk_id: str, *, limit: int) -> list[Work]:
        """Returns the remaining items, in their order."""

    async def read_item(self, tenant: str, bulk_id: str, job_id: str) -> BulkItem | None: ...

    async def items(self, tenant: str, bulk_id: str, *, after: str | None, limit: int) -> list[BulkItem]:
        """Returns the items in the order of the jobs' ids, after the id `after`."""

    async def list_bulks(self, tenant: str, *, after: str | None, limit: int) -> list[Bulk]:
        """Returns bulk operations, newest first, after the id `after`."""

    async def remove(self, bulk: Bulk, *, limit: int) -> bool:
        """Removes up to `limit` rows of a bulk that has ended, itself last; whether all are gone."""

    async def due(self, *, now: datetime, limit: int, after: DueBulk | None = None) -> list[DueBulk]:
        """Returns the due bulk operations of all tenants, the earliest first, after `after`."""

    async def put_due(self, due: DueBulk) -> None:
        """Enters a bulk operation for the sweeper. Idempotent."""

    async def drop_due(self, due: DueBulk) -> None:
        """Deletes the sweeper's entry. Idempotent."""
