"""What the sweeps leave for other parts: the share and time of each sweep, and the work that it counted."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from shared.core.gates.tight_quotas import TightQuota, tightest


@dataclass(frozen=True)
class Share:
    """The tenants that fall to one of `of` sweepers, by the hash of their name."""

    number: int = 0
    of: int = 1

    def has(self, tenant: str) -> bool:
        return zlib.crc32(tenant.encode()) % self.of == self.number


@dataclass(frozen=True)
class Backlog:
    """Directives of one service on one lane that the service has not acknowledged yet."""

    count: int = 0
    #: when the oldest of them was sent
    since: datetime | None = None

    def __add__(self, other: Backlog) -> Backlog:
        return Backlog(self.count + other.count, earlier(self.since, other.since))


@dataclass
class WorkCounts:
    """Work in progress, counted from ACTIVE rows: exact as of the pass that compared them with their jobs."""

    #: by status
    active: Counter[str] = field(default_factory=Counter)
    #: by mode
    modes: Counter[str] = field(default_factory=Counter)
    #: POST of the oldest QUEUED job
    queued_since: datetime | None = None
    #: POST of the oldest job that waits for its gates
    waiting_since: datetime | None = None
    #: attempts INITIATED and not ACKed, and since when the oldest of them is
    unacked: int = 0
    unacked_since: datetime | None = None
    #: the same by (service, lane)
    backlogs: dict[tuple[str, int], Backlog] = field(default_factory=dict)
    #: attempts that a service has acknowledged and not ended, by service
    processing: Counter[str] = field(default_factory=Counter)
    #: by `version_name` of their protocol
    versions: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: WorkCounts) -> WorkCounts:
        return WorkCounts(
            active=self.active + other.active,
            modes=self.modes + other.modes,
            queued_since=earlier(self.queued_since, other.queued_since),
            waiting_since=earlier(self.waiting_since, other.waiting_since),
            unacked=self.unacked + other.unacked,
            unacked_since=earlier(self.unacked_since, other.unacked_since),
            backlogs={
                key: self.backlogs.get(key, Backlog()) + other.backlogs.get(key, Backlog())
                for key in {**self.backlogs, **other.backlogs}
            },
            processing=self.processing + other.processing,
            versions=self.versions + other.versions,
        )


def version_name(request_type: str, version: int) -> str:
    """The key of a version in `WorkCounts.versions`; version 0: a job of an earlier release, whose row has none."""
    return f"{request_type}:{version}"


@dataclass
class TenantCounts:
    """Living jobs of one tenant, as far as a survey has read its ACTIVE rows."""

    rows: int = 0
    #: active
    inside: int = 0
    #: accepted, not active, and in the tenant's counts
    staged: int = 0
    #: in a waiting queue
    waiting: int = 0
    #: not begun, by job type
    queued: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A read of every living job's row, which may take several passes: where it is, and what it has counted so far."""

    #: tenant and id of the last job that was read, or a tenant and "" where that tenant is the next; None: at the start
    after: tuple[str, str] | None = None
    #: it compares jobs that wait in a queue with their rows too
    is_whole: bool = False
    #: when the last whole one began
    whole_at: datetime | None = None
    counts: WorkCounts = field(default_factory=WorkCounts)
    #: of the tenant in `after`
    of_tenant: TenantCounts = field(default_factory=TenantCounts)


@dataclass(frozen=True)
class SweepPosition:
    """Where a pass stopped when its time was over; None: it came to the end."""

    #: the tenant whose due jobs come first in the next pass
    look: str | None = None
    #: the tenant whose ended jobs come first
    clear: str | None = None
    #: the tenant whose waiting jobs come first
    admit: str | None = None
    survey: Survey = field(default_factory=Survey)
    #: when the last pass began that did what is done once an hour
    hourly_at: datetime | None = None


def earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    """Returns the earlier of two times; None if there is neither."""
    return min((each for each in (one, other) if each is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class SweepMark:
    """The last pass over a share of the tenants, wherever it ran."""

    ended_at: datetime
    looked_at: int
    actions: int
    #: its time was over: there is more to do
    more: bool
    #: of the last pass that could count
    counts: WorkCounts = field(default_factory=WorkCounts)
    #: of the last pass that read every admission state
    quotas: Sequence[TightQuota] = ()
    #: suspended webhooks by tenant, of the last pass that looked at the tenant
    suspended_hooks: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Heard:
    """What is known of a platform service."""

    #: its last reply, to about a minute; None: none was ever noted
    answered_at: datetime | None = None
    #: when the sweeper found it silent; None: it never did, or told that it answers again
    silent_since: datetime | None = None

    @property
    def has_answered_since(self) -> bool:
        """Returns whether it has replied since the sweeper found it silent."""
        since, answered = self.silent_since, self.answered_at
        return since is not None and answered is not None and answered > since


class Answers(Protocol):
    """One row a platform service: when it last answered (R57). Each method raises LedgerUnavailable."""

    async def note(self, service: str, at: datetime) -> None:
        """Records a reply of the service."""

    async def mark(self, service: str, silent_since: datetime | None) -> None:
        """Records since when it is silent. None: it no longer is."""

    async def read(self) -> dict[str, Heard]:
        """Returns the marks by service."""


def merged(marks: Iterable[SweepMark]) -> SweepMark | None:
    """Merges the marks of all shares into one, as old as the oldest. None: there is none."""
    each = list(marks)
    if not each:
        return None
    return SweepMark(
        ended_at=min(mark.ended_at for mark in each),
        looked_at=sum(mark.looked_at for mark in each),
        actions=sum(mark.actions for mark in each),
        more=any(mark.more for mark in each),
        counts=sum((mark.counts for mark in each), WorkCounts()),
        quotas=tightest(quota for mark in each for quota in mark.quotas),
        suspended_hooks=sum((mark.suspended_hooks for mark in each), Counter()),
    )


class SweepMarks(Protocol):
    """Where the sweepers leave their marks, for health on any instance. Each method raises LedgerUnavailable."""

    async def write(self, share: int, mark: SweepMark) -> None: ...

    async def read(self, shares: int) -> dict[int, SweepMark]:
        """Reads the marks of the first `shares` shares, without those that were never swept."""
