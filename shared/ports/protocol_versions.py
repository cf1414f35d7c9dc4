"""Versions of protocols as the first process that loaded them wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class StoredVersion:
    """A row of a protocol version. It is never changed."""

    protocol_id: str
    version: int
    #: `shared.core.registry.Protocol.work_digest`
    work_digest: str
    #: the protocol file
    definition: Mapping[str, Any]
    #: payload schemas by the paths that the definition names
    schemas: Mapping[str, Any]
    first_loaded_at: datetime


class ProtocolVersions(Protocol):
    """One row a version, in one partition. Each method raises LedgerUnavailable."""

    async def read(self) -> list[StoredVersion]:
        """Every version, by protocol and number. A row that cannot be decoded is left out."""

    async def add(self, version: StoredVersion) -> bool:
        """Writes the row of a new version; returns False if another process was first."""
