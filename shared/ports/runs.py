"""Files of runs: logs and artifacts, which the runner of packs writes and the app reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True)
class LogPart:
    """A part of a log, with the time of the last write."""

    #: bytes; empty: there are no more yet
    data: bytes
    #: time of the last write to the log; None if there are no more bytes
    written_at: datetime | None


@dataclass(frozen=True)
class RunArtifact:
    """An artifact of one attempt."""

    name: str
    #: size in bytes
    size: int
    media_type: str
    written_at: datetime


class RunFiles(Protocol):
    """Logs and artifacts by tenant (normalised), job and attempt. Each method raises RunsUnavailable."""

    async def read_log(self, tenant: str, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart | None:
        """Returns at most `limit` bytes from `offset` on, or None if the attempt has no log."""

    async def artifacts(self, tenant: str, job_id: str, attempt: int) -> list[RunArtifact]:
        """Returns the attempt's artifacts by name, at most 1,000."""

    async def link(self, tenant: str, job_id: str, attempt: int, name: str, *, until: datetime) -> str:
        """Returns a URL from which any client can download the artifact until the time `until`."""
