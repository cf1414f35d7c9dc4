"""The ledger: one partition a job; and the archive that takes ended jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from shared.core.jobs.job import Event, Record


@dataclass(frozen=True)
class Stored:
    """A job as read, with the token that its next transaction must present."""

    record: Record
    etag: str
    #: by row, the stored rows in which a later release has columns of its own; for the adapter alone
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class ArchivedRow:
    """The row that replaces the rows of an archived job, and leads to its audit bundle."""

    job_id: str
    #: normalised
    tenant: str
    #: name of the blob
    blob: str
    #: SHA-256, in hex, and number of the bytes of the blob
    sha256: str
    size: int
    archived_at: datetime


class Ledger(Protocol):
    """One partition a job: JOB, STEP and EVENT rows, moved in one transaction. Each method raises LedgerUnavailable."""

    async def read(self, job_id: str) -> Stored | None:
        """Reads JOB and STEPs in one query. None: there is no such job. Raises DataLost if a part of it is lost."""

    async def end_of(self, job_id: str) -> tuple[int, bool] | None:
        """Returns the number of the job's last event, and whether the job has ended; None if there is no such job.

        It reads two columns of one row.
        """

    async def create(self, record: Record, event: Event) -> Stored:
        """Inserts all rows of a new job. Raises AlreadyExists, LedgerRefused."""

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        """Writes JOB, the steps that changed, and the events, under JOB's ETag.

        Raises Conflict if the job moved since `before`, LedgerRefused.
        """

    async def remove(self, stored: Stored, archived: ArchivedRow | None = None) -> None:
        """Deletes JOB and STEPs, under JOB's ETag, then all else of the partition. `archived` replaces them.

        Raises Conflict.
        """

    async def find_archived(self, job_id: str) -> ArchivedRow | None:
        """Returns the row of an archived job; None: the job is not archived."""

    async def delete_remainder(self, job_id: str, *, with_archived: bool = False) -> None:
        """Deletes all rows and long texts of a job whose JOB row is gone, `with_archived` its ARCHIVED row too.

        Idempotent.
        """

    async def find_event(self, job_id: str, cause_id: str) -> Event | None:
        """Returns the event that `cause_id` made if it committed."""

    async def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        """Events in order, from `after_seq` exclusive."""


class Archive(Protocol):
    """Audit bundles of archived jobs. Each method raises LedgerUnavailable."""

    async def put(self, name: str, text: str) -> None:
        """Writes a blob, or replaces it."""

    async def read(self, name: str, limit: int) -> bytes:
        """Returns the first `limit` bytes of a blob. Raises DataLost if there is no such blob."""

    async def remove(self, prefix: str, *, limit: int) -> bool:
        """Deletes at most `limit` blobs whose names begin so; returns whether there may be more. Idempotent."""
