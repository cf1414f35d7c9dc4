"""What a tenant's jobs used, hour by hour, and the sources that they named (R68): rows of the tenant's partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from shared.core.usage import Counted, Group, HourUsage

#: sources that are kept of one tenant
MAX_SOURCES = 1_000


@dataclass(frozen=True)
class Folding:
    """How far the fold of an hour with many rows is."""

    jobs: Mapping[Group, Counted] = field(default_factory=dict)
    #: of the last LIST row that is in it; None: none is
    cursor: str | None = None


@dataclass(frozen=True)
class FoldPosition:
    """How far the folds of a share of the tenants are."""

    #: the first hour that is not folded; None: none ever was
    next: datetime | None = None
    #: the tenant of that hour whose turn it is
    tenant: str = ""


@dataclass(frozen=True, kw_only=True)
class SeenSource:
    """A SOURCE row: a source that jobs of the tenant named."""

    #: normalised
    name: str
    first_job: str
    first_at: datetime
    last_job: str
    #: to the hour
    last_at: datetime
    #: opaque position of this row, for the next page
    cursor: str = ""


class Usage(Protocol):
    """USAGE and SOURCE rows, and how far the sweeper's folds are. Each method raises LedgerUnavailable."""

    async def hours(self, tenant: str, first: datetime, end: datetime) -> list[HourUsage]:
        """Returns the kept rows of the hours from `first` on and before `end`, in order."""

    async def put_jobs(self, tenant: str, hour: datetime, jobs: Mapping[Group, Counted]) -> None:
        """Writes the rollup of a whole hour, in place of an earlier one."""

    async def put_peaks(self, tenant: str, hour: datetime, peaks: Mapping[tuple[str, str], int]) -> None:
        """Writes the peaks, in place of earlier ones."""

    async def add_refused(self, tenant: str, hour: datetime, refused: Mapping[Group, int]) -> None:
        """Adds to the counts of refused requests. Raises Contended after a conflict at every try."""

    async def read_folding(self, tenant: str, hour: datetime) -> Folding: ...

    async def write_folding(self, tenant: str, hour: datetime, folding: Folding | None) -> None:
        """Records that the rollup is in progress. None: it is complete. Idempotent."""

    async def remove_before(self, tenant: str, hour: datetime, *, limit: int) -> None:
        """Rows of older hours, the oldest first."""

    async def fold_again(self, tenant: str, hour: datetime) -> None:
        """Enters the hour for a second rollup a day later. Idempotent."""

    async def to_fold_again(self, before: datetime, *, after: str, limit: int) -> list[tuple[datetime, str, str]]:
        """Hours before that instant which are, in order: hour, tenant, and the position of the row."""

    async def folded_again(self, tenant: str, hour: datetime) -> None:
        """Deletes the hour's entry for a second rollup. Idempotent."""

    async def read_position(self, share: int) -> FoldPosition: ...

    async def write_position(self, share: int, position: FoldPosition) -> None: ...

    async def see_source(self, tenant: str, source: SeenSource) -> bool:
        """Notes that a job named it: first and last job, or the last of one that is known. Where `MAX_SOURCES` are
        kept, the one that was not seen for longest gives way, if that is hours ago; else nothing is kept: False.
        """

    async def sources(self, tenant: str, *, after: str, limit: int) -> list[SeenSource]:
        """Returns the sources in the order of their keys, after `after`."""
