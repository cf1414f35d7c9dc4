"""The ledger, with one partition per job, and the archive of ended jobs."""

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
    #: stored rows with columns of a later release, by row; for the adapter alone
    rows: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class ArchivedRow:
    """The row that replaces the rows of an archived job, and leads to the job's audit bundle."""

    job_id: str
    #: normalised tenant id
    tenant: str
    #: name of the blob with the bundle
    blob: str
    #: SHA-256 of the blob in hex, and its number of bytes
    sha256: str
    size: int
    archived_at: datetime


class Ledger(Protocol):
    """The ledger: JOB, STEP and EVENT rows of a job in one partition, changed in one transaction.

    Each method raises LedgerUnavailable.
    """

    async def read(self, job_id: str) -> Stored | None:
        """Reads JOB and STEPs in one query. Returns None if the job does not exist. Raises DataLost if a part of the
        job is lost, Undecodable for a broken row, and UnknownStatus for a status of a later release.
        """

    async def end_of(self, job_id: str) -> tuple[int, bool] | None:
        """Returns the number of the job's last event, and `True` if the job has ended. Returns None if the job does not
        exist.

        Reads two columns of one row.
        """

    async def create(self, record: Record, event: Event) -> Stored:
        """Inserts all rows of a new job. Raises AlreadyExists, LedgerRefused."""

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        """Writes JOB, the changed steps, and the events, under JOB's ETag.

        Raises Conflict if the job changed since `before`. Raises LedgerRefused.
        """

    async def remove(self, stored: Stored, archived: ArchivedRow | None = None) -> None:
        """Deletes JOB and STEPs under JOB's ETag, then all other rows of the partition. `archived` replaces the deleted
        rows.

        Raises Conflict.
        """

    async def find_archived(self, job_id: str) -> ArchivedRow | None:
        """Returns the row of an archived job, or None if the job is not archived."""

    async def delete_remainder(self, job_id: str, *, with_archived: bool = False) -> None:
        """Deletes all rows and long texts of a job whose JOB row is deleted. With `with_archived`, also deletes its
        ARCHIVED row.

        Idempotent.
        """

    async def find_event(self, job_id: str, cause_id: str) -> Event | None:
        """Returns the event with this `cause_id`. Returns None if no such event was committed."""

    async def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        """Returns events in order, after number `after_seq`. Raises DataLost if a long text of an event is lost."""


class Archive(Protocol):
    """Audit bundles of archived jobs. Each method raises LedgerUnavailable."""

    async def put(self, name: str, text: str) -> None:
        """Writes a blob, or replaces it."""

    async def read(self, name: str, limit: int) -> bytes:
        """Returns the first `limit` bytes of a blob. Raises DataLost if the blob does not exist."""

    async def remove(self, prefix: str, *, limit: int) -> bool:
        """Deletes at most `limit` blobs with this prefix. Returns `True` if more blobs can be left. Idempotent."""
