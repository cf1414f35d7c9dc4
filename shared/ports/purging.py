"""The deletion of all rows of a tenant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.core.bulks import Bulk


@dataclass(frozen=True, kw_only=True)
class ListedJob:
    """A row of a tenant that leads to one of its jobs."""

    #: RowKey, opaque
    row: str
    job_id: str


class Purging(Protocol):
    """The part of the index that deletes a tenant. Each method raises LedgerUnavailable."""

    async def list_job_rows(self, tenant: str, *, after: str, limit: int) -> list[ListedJob]:
        """Returns the rows that lead to jobs, after the row `after`. Several rows can lead to the same job."""

    async def drop_listed(self, tenant: str, listed: ListedJob) -> None:
        """Deletes a row that leads to a job. Idempotent."""

    async def purge(self, bulk: Bulk, *, limit: int) -> int | None:
        """Deletes at most `limit` rows of a tenant without jobs, except rows of the purge. Returns their number.

        Returns 0 if there are no more rows. Returns None and deletes nothing if the tenant has a job that is living,
        still listed, or not older than the purge.
        """

    async def forget_tenant(self, tenant: str, now: datetime) -> bool:
        """Deletes the tenant from `tenants`. Returns `True` if the tenant is deleted, and `False` if the tenant posted
        within the last hour.
        """
