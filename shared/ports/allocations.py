"""To whom a gate over all tenants is lent, and who asks for more of it (R54)."""

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
    #: as it is stored, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Ask:
    """A tenant that waits to be taken into a division, with the token of its row."""

    tenant: str
    etag: str


class Allocations(Protocol):
    """Of all tenants, and of no job. Each method raises LedgerUnavailable."""

    async def read(self, gate_id: str) -> StoredAllocationRecord | None:
        """None: the gate was never divided."""

    async def write(self, record: AllocationRecord, *, before: StoredAllocationRecord | None) -> None:
        """Raises Conflict, AlreadyExists."""

    async def ask(self, gate_id: str, tenant: str) -> None:
        """The next division takes the tenant in; again is harmless."""

    async def asks(self, gate_id: str) -> list[Ask]: ...

    async def answer(self, gate_id: str, asks: Sequence[Ask]) -> None:
        """They were taken in; who asked again meanwhile stays."""
