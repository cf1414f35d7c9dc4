"""Rows of webhooks: their state and logs, waiting deliveries and ended deliveries (R84, R85)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from shared.core.webhooks.webhooks import Delivery, DeliveryState, Hook, HookEntry
from shared.ports.feed import FeedEvent, Head

#: position of a delivery: the number of its event, and the name of its callback or ""
DeliveryPosition = tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class StoredHook:
    """A HOOK row as read."""

    hook: Hook
    etag: str
    #: stored row, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class StoredDelivery:
    """A PENDING or DELIVERY row as read."""

    delivery: Delivery
    etag: str
    #: stored row, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class HookTenant:
    """A tenant whose webhooks and deliveries the sweeper checks."""

    tenant: str
    #: time when a process last noted it
    noted_at: datetime
    etag: str


@dataclass(frozen=True, kw_only=True)
class HookWrite:
    """One transaction of webhooks, deliveries and events in a tenant's partition."""

    tenant: str
    #: HEAD, for a change of the targets of events or with a public event, together with `events` and `hooks`
    head: Head | None = None
    events: Sequence[FeedEvent] = ()
    #: number of the tenant's webhooks after the write, without `default`
    hooks: int = 0
    #: webhook as read; None if it is created
    before: StoredHook | None = None
    #: webhook after the write; None if it is deleted, or, without `before`, not written
    after: Hook | None = None
    entry: HookEntry | None = None
    #: deliveries as read (None if the delivery is new), and after the write
    deliveries: Sequence[tuple[StoredDelivery | None, Delivery]] = ()


class Hooks(Protocol):
    """Webhooks, in the same table as the feeds. Each method raises LedgerUnavailable."""

    async def read(self, tenant: str, hook_id: str) -> StoredHook | None:
        """Returns the webhook, or None if it does not exist. `default` exists only after its creation."""

    async def all_of(self, tenant: str) -> list[StoredHook]:
        """Returns all webhooks by their ids, including `default`."""

    async def write(self, write: HookWrite) -> Head | None:
        """Writes all rows or none. Returns the new HEAD if HEAD was written.

        Raises Conflict if HEAD, the webhook or a delivery has changed, or if a new row exists already. Raises
        LedgerRefused.
        """

    async def log(self, tenant: str, hook_id: str, *, after: int, limit: int) -> list[HookEntry]:
        """Returns entries in the order of their numbers, after `after`."""

    async def hooks_with_log(self, tenant: str) -> list[str]:
        """Returns the ids of webhooks with a log, including deleted webhooks."""

    async def drop_log(
        self, tenant: str, hook_id: str, *, to: int | None = None, before: datetime | None = None, limit: int
    ) -> int:
        """Deletes the first entries, up to number `to` and earlier than `before`, at most `limit` (up to 100).
        Returns their number.
        """

    async def delivery(self, tenant: str, hook_id: str, number: int, name: str) -> StoredDelivery | None:
        """Returns the delivery, waiting or ended, or None if it does not exist."""

    async def pending(
        self,
        tenant: str,
        hook_id: str | None,
        *,
        after: DeliveryPosition | None = None,
        due_before: datetime | None = None,
        limit: int,
    ) -> list[StoredDelivery]:
        """Returns waiting deliveries, the oldest event first, after `after`. Without a webhook, ignores `after` and
        returns the deliveries of every webhook, grouped by webhook.

        With `due_before`, returns only deliveries whose next try was due before that time.
        """

    async def hooks_with_pending(self, tenant: str) -> list[str]:
        """Returns the ids of webhooks with waiting deliveries, including deleted webhooks."""

    async def list_ended(
        self,
        tenant: str,
        hook_id: str,
        *,
        state: DeliveryState | None = None,
        after: DeliveryPosition | None = None,
        limit: int,
    ) -> list[StoredDelivery]:
        """Returns ended deliveries, the newest event first, after `after`."""

    async def hooks_with_ended(self, tenant: str) -> list[str]:
        """Returns the ids of webhooks with ended deliveries, including deleted webhooks."""

    async def remove(
        self, tenant: str, hook_id: str, *, before: datetime, after: DeliveryPosition, limit: int
    ) -> DeliveryPosition | None:
        """Deletes deliveries of `list_ended` that ended earlier than `before`, after the position `after`, at most
        `limit` (up to 100).

        Returns the position of the last deleted delivery, or None if no such deliveries are left.
        """

    async def drop_pending(self, tenant: str, hook_id: str, *, limit: int) -> int:
        """Deletes waiting deliveries of a deleted webhook, at most `limit` (up to 100). Returns their number."""

    async def note(self, tenant: str, now: datetime) -> None:
        """Adds the tenant to the list of tenants whose webhooks the sweeper checks."""

    async def list_noted(self) -> list[HookTenant]:
        """Returns the tenants whose webhooks the sweeper checks."""

    async def forget(self, noted: HookTenant) -> None:
        """Removes the tenant from the list of tenants whose webhooks the sweeper checks, unless the tenant was noted
        again after `noted` was read.
        """
