"""Versions of protocols, as first loaded by any process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True)
class StoredVersion:
    """A row of a protocol version, which never changes."""

    protocol_id: str
    version: int
    #: digest `shared.core.registry.Protocol.work_digest`
    work_digest: str
    #: the definition as JSON, without defaults and `ramp_percent`
    definition: Mapping[str, Any]
    #: payload schemas by the paths that the definition names
    schemas: Mapping[str, Any]
    first_loaded_at: datetime


class ProtocolVersions(Protocol):
    """Protocol versions, one row each in one partition. Each method raises LedgerUnavailable."""

    async def read(self) -> list[StoredVersion]:
        """Returns all versions by protocol and number. A row that cannot be decoded is left out."""

    async def add(self, version: StoredVersion) -> bool:
        """Writes the row of a new version. Returns `False` if another process was first."""
