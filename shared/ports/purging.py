"""Purging: the removal of all rows of a tenant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class ListedJob:
    """A row of a tenant that leads to a job of it."""

    #: its RowKey, opaque
    row: str
    job_id: str


class Purging(Protocol):
    """The part of the index that removes a tenant. Each method raises LedgerUnavailable."""

    async def listed_jobs(self, tenant: str, *, after: str, limit: int) -> list[ListedJob]:
        """The rows that lead to jobs, past the row `after`; some lead to the same job."""

    async def drop_listed(self, tenant: str, listed: ListedJob) -> None:
        """Idempotent."""

    async def purge(self, tenant: str, *, before: datetime, spared: str, limit: int) -> int | None:
        """Deletes at most `limit` rows of a tenant that has no jobs, but the row `spared`; returns their number.

        0: there are no more. None: a job is there that lives, or was created at `before` or later, and nothing was
        deleted.
        """

    async def forget_tenant(self, tenant: str, now: datetime) -> bool:
        """Removes the tenant from `tenants`; whether it is gone. False: it posted within the last hour."""
