"""Usage of a tenant's jobs by hour, and the sources that the jobs named (R68), as rows in the tenant's partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from shared.core.usage import Counted, Group, HourUsage

#: maximum sources that are kept of one tenant
MAX_SOURCES = 1_000


@dataclass(frozen=True)
class Folding:
    """The position of the rollup of an hour with many rows, and the counts up to this position."""

    jobs: Mapping[Group, Counted] = field(default_factory=dict)
    #: cursor of the last included LIST row; None if there is none yet
    cursor: str | None = None


@dataclass(frozen=True)
class FoldPosition:
    """The position of the rollups for a share of the tenants."""

    #: first hour without a rollup; None before the first rollup
    next: datetime | None = None
    #: next tenant of that hour
    tenant: str = ""


@dataclass(frozen=True, kw_only=True)
class SeenSource:
    """A SOURCE row: a source that jobs of the tenant named."""

    #: normalised source
    name: str
    first_job: str
    first_at: datetime
    last_job: str
    #: time of its last job, to the hour
    last_at: datetime
    #: opaque position of this row, for the next page
    cursor: str = ""


class Usage(Protocol):
    """USAGE and SOURCE rows, and positions of the sweeper's rollups. Each method raises LedgerUnavailable."""

    async def hours(self, tenant: str, first: datetime, end: datetime) -> list[HourUsage]:
        """Returns the stored rows of the hours from `first` on and before `end`, in order."""

    async def put_jobs(self, tenant: str, hour: datetime, jobs: Mapping[Group, Counted]) -> None:
        """Writes the rollup of a whole hour, which replaces an earlier rollup."""

    async def put_peaks(self, tenant: str, hour: datetime, peaks: Mapping[tuple[str, str], int]) -> None:
        """Writes the highest numbers of active jobs of the hour, which replace the stored numbers."""

    async def add_refused(self, tenant: str, hour: datetime, refused: Mapping[Group, int]) -> None:
        """Adds to the counts of refused requests. Raises Contended after a conflict at every try."""

    async def read_folding(self, tenant: str, hour: datetime) -> Folding: ...

    async def write_folding(self, tenant: str, hour: datetime, folding: Folding | None) -> None:
        """Records that the rollup is in progress. `folding` None means that the rollup is complete. Idempotent."""

    async def remove_before(self, tenant: str, hour: datetime, *, limit: int) -> None:
        """Deletes at most `limit` rows of hours before `hour`, the oldest first."""

    async def put_fold_again(self, tenant: str, hour: datetime) -> None:
        """Adds the hour for a second rollup a day later. Idempotent."""

    async def list_fold_again(self, before: datetime, *, after: str, limit: int) -> list[tuple[datetime, str, str]]:
        """Returns due hours in order: hour, tenant, and the position of the row."""

    async def delete_fold_again(self, tenant: str, hour: datetime) -> None:
        """Deletes the hour's entry for a second rollup. Idempotent."""

    async def read_position(self, share: int) -> FoldPosition: ...

    async def write_position(self, share: int, position: FoldPosition) -> None: ...

    async def see_source(self, tenant: str, source: SeenSource) -> bool:
        """Records that a job named the source, as its first and last job, or as the last job of a known source.

        A new source of a tenant with `MAX_SOURCES` (1,000) sources replaces the least recently used source, if its last
        use was in an earlier hour. Otherwise writes nothing and returns `False`.
        """

    async def sources(self, tenant: str, *, after: str, limit: int) -> list[SeenSource]:
        """Returns the sources in the order of their keys, after `after`."""
