"""Reads an archived job from its audit bundle."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared import telemetry
from shared.api.audit import history_of
from shared.archive_refusals import ArchiveGone, ArchiveInvalid, JobArchived
from shared.core.jobs.job import Event, Record
from shared.errors import DataLost, Undecodable
from shared.operations.process.context import Context
from shared.refusals import JobNotFound


@dataclass(frozen=True)
class ArchivedJob:
    """An archived job, read from its audit bundle."""

    record: Record
    events: list[Event]
    archived_at: datetime
    #: the audit bundle as written
    bundle: dict[str, Any]


async def read_archived(context: Context, job_id: str) -> ArchivedJob | None:
    """Returns the archived job, read from one row and one blob. Returns None if the job is not archived.

    Raises ArchiveGone, ArchiveInvalid, LedgerUnavailable, and Undecodable for a bundle of a later release.
    """
    row = await context.ledger.find_archived(job_id)
    if row is None:
        return None
    try:
        # one more byte reveals a blob that is too long
        written = await context.archive.read(row.blob, row.size + 1)
    except DataLost:
        raise ArchiveGone(job_id) from None
    if len(written) != row.size or hashlib.sha256(written).hexdigest() != row.sha256:
        telemetry.warn("ARCHIVE_INVALID", jobId=job_id, tenant_id=row.tenant, blob=row.blob)
        raise ArchiveInvalid(job_id)
    document = json.loads(written)
    try:
        return ArchivedJob(*history_of(document), row.archived_at, document)
    except (LookupError, TypeError, ValueError, AttributeError) as fault:
        raise Undecodable(row.blob, type(fault).__name__, row.tenant) from fault


async def not_in_ledger(context: Context, job_id: str) -> JobArchived | JobNotFound:
    """Returns the error for a change of a job that is not in the ledger. Raises LedgerUnavailable."""
    is_archived = await context.ledger.find_archived(job_id) is not None
    return JobArchived(job_id) if is_archived else JobNotFound(job_id)
