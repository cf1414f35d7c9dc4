"""The allocations of a quota over all tenants: the tenants with grants, and the tenants with requests (R54)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from shared.core.gates.allocation import AllocationRecord


@dataclass(frozen=True)
class StoredAllocationRecord:
    """An allocation record as read, with the token that the next write must present."""

    record: AllocationRecord
    etag: str
    #: stored row, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Ask:
    """A tenant's request for more of a quota, with the token of its row."""

    tenant: str
    etag: str


class Allocations(Protocol):
    """Allocation records and requests, over all tenants. Each method raises LedgerUnavailable."""

    async def read(self, gate_id: str) -> StoredAllocationRecord | None:
        """Reads the record. Returns None if the quota was never allocated."""

    async def write(self, record: AllocationRecord, *, before: StoredAllocationRecord | None) -> None:
        """Writes the record. Raises Conflict, AlreadyExists."""

    async def ask(self, gate_id: str, tenant: str) -> None:
        """Requests that the next allocation includes the tenant. Idempotent."""

    async def asks(self, gate_id: str) -> list[Ask]: ...

    async def answer(self, gate_id: str, asks: Sequence[Ask]) -> None:
        """Deletes the requests of the tenants that were included. A newer request stays."""
