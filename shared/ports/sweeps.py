"""Results of sweeps that other parts of the app read: the tenants, the time and the counts of work of each sweep."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Protocol

from shared.core.gates.rules import OVER_ALL, Gate
from shared.core.gates.tight_quotas import TightQuota, tightest


@dataclass(frozen=True)
class SweeperShare:
    """The tenants of one of `of` sweepers, by the hash of their name."""

    number: int = 0
    of: int = 1

    def has(self, tenant: str) -> bool:
        return zlib.crc32(tenant.encode()) % self.of == self.number


@dataclass(frozen=True)
class Backlog:
    """Directives of one service on one lane that the service has not acknowledged."""

    count: int = 0
    #: time when the oldest of them was sent
    since: datetime | None = None

    def __add__(self, other: Backlog) -> Backlog:
        return Backlog(self.count + other.count, earlier(self.since, other.since))


@dataclass
class WorkCounts:
    """Counts of work in progress, from a survey of the ACTIVE rows and their jobs, which can take several sweeps."""

    #: number of jobs by status
    active: Counter[str] = field(default_factory=Counter)
    #: number of jobs by mode
    modes: Counter[str] = field(default_factory=Counter)
    #: earliest start of a QUEUED job: its admission, or its creation if it never waited
    queued_since: datetime | None = None
    #: creation time of the oldest job that waits for quotas
    waiting_since: datetime | None = None
    #: number of INITIATED attempts without an ACK, and the start of the oldest one
    unacked: int = 0
    unacked_since: datetime | None = None
    #: unacknowledged directives by (service, lane)
    backlogs: dict[tuple[str, int], Backlog] = field(default_factory=dict)
    #: acknowledged attempts that have not ended, by service
    processing: Counter[str] = field(default_factory=Counter)
    #: number of jobs by `version_name` of their protocol
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
    """Returns the key of a version in `WorkCounts.versions`. Version 0 means a job of an earlier release, whose row has
    no version.
    """
    return f"{request_type}:{version}"


@dataclass
class TenantCounts:
    """Living jobs of one tenant, as far as a survey has read its ACTIVE rows."""

    rows: int = 0
    #: number of active jobs
    inside: int = 0
    #: number of jobs that are accepted, not active, and in the tenant's counts
    staged: int = 0
    #: number of jobs in a waiting queue
    waiting: int = 0
    #: number of jobs that no service has acknowledged yet, by job type: QUEUED, THROTTLED and WAITING_FOR_JOBS
    queued: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A read of every living job's row, which can take several sweeps. The survey has the position and the counts so
    far.
    """

    #: tenant and id of the last job that was read, or the next tenant and ""; None means at the start
    after: tuple[str, str] | None = None
    #: `True` if it also compares jobs in a waiting queue with their rows
    is_whole: bool = False
    #: start of the last survey with `is_whole`
    whole_at: datetime | None = None
    counts: WorkCounts = field(default_factory=WorkCounts)
    #: counts of the tenant in `after`
    of_tenant: TenantCounts = field(default_factory=TenantCounts)


@dataclass(frozen=True)
class SweepPosition:
    """The position at which a sweep stopped when its time limit was reached. None means that the sweep was complete."""

    #: tenant whose due jobs come first in the next sweep
    look: str | None = None
    #: tenant whose ended jobs come first
    clear: str | None = None
    #: tenant whose waiting jobs come first
    admit: str | None = None
    survey: Survey = field(default_factory=Survey)
    #: start of the last sweep that did the hourly work
    hourly_at: datetime | None = None


def earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    """Returns the earlier of two times, or None if both are None."""
    return min((each for each in (one, other) if each is not None), default=None)


@dataclass(frozen=True, kw_only=True)
class SweepMark:
    """The last sweep of a share of the tenants, in any process."""

    ended_at: datetime
    looked_at: int
    actions: int
    #: `True` if checks or clearings of jobs, admissions, or expired rejected messages were left
    more: bool
    #: counts of the last complete survey
    counts: WorkCounts = field(default_factory=WorkCounts)
    #: tight quotas of the last sweep that read every admission state
    quotas: Sequence[TightQuota] = ()
    #: suspended webhooks by tenant, of the last sweep that checked the tenant
    suspended_hooks: Counter[str] = field(default_factory=Counter)
    #: creation time of the oldest event that an enabled webhook has not received, by tenant, of the same sweeps
    undelivered: Mapping[str, datetime] = field(default_factory=dict)


@dataclass(frozen=True)
class Heard:
    """The time of a platform service's last reply, and the time since which the service is silent."""

    #: time of its last reply, to about a minute; None if never
    answered_at: datetime | None = None
    #: time when the sweeper found it silent; None if never, or if the sweeper has then found a reply
    silent_since: datetime | None = None

    @property
    def has_answered_since(self) -> bool:
        """Returns `True` if the service has replied since the sweeper found the service silent."""
        since, answered = self.silent_since, self.answered_at
        return since is not None and answered is not None and answered > since


class Answers(Protocol):
    """Times of the last replies, one row per platform service (R57). Each method raises LedgerUnavailable."""

    async def note(self, service: str, at: datetime) -> None:
        """Records a reply of the service."""

    async def mark(self, service: str, silent_since: datetime | None) -> None:
        """Records the time since which the service is silent. `silent_since` None means that the service is no longer
        silent.
        """

    async def read(self) -> dict[str, Heard]:
        """Returns these times by service."""


def merged(marks: Iterable[SweepMark]) -> SweepMark | None:
    """Merges the marks of all shares into one mark, which is as old as the oldest mark. Returns None if no share has a
    mark.
    """
    each = list(marks)
    if not each:
        return None
    quotas: dict[Gate, TightQuota] = {}
    for quota in (quota for mark in sorted(each, key=lambda mark: mark.ended_at) for quota in mark.quotas):
        # each share counts its own tenants for a quota over all tenants; after a change of the number of sweepers, two
        # marks can have the quota of one tenant, and the later one is right
        known = quotas.get(quota.gate) if quota.gate.kind in OVER_ALL else None
        active, waiting = (known.active, known.waiting) if known is not None else (0, 0)
        quotas[quota.gate] = replace(quota, active=active + quota.active, waiting=waiting + quota.waiting)
    return SweepMark(
        ended_at=min(mark.ended_at for mark in each),
        looked_at=sum(mark.looked_at for mark in each),
        actions=sum(mark.actions for mark in each),
        more=any(mark.more for mark in each),
        counts=sum((mark.counts for mark in each), WorkCounts()),
        quotas=tightest(quotas.values()),
        suspended_hooks=sum((mark.suspended_hooks for mark in each), Counter()),
        undelivered={tenant: at for mark in each for tenant, at in mark.undelivered.items()},
    )


class SweepMarks(Protocol):
    """Marks of the sweepers, which every process reads for health. Each method raises LedgerUnavailable."""

    async def write(self, share: int, mark: SweepMark) -> None: ...

    async def read(self, shares: int) -> dict[int, SweepMark]:
        """Reads the marks of the first `shares` shares, except shares that were never swept."""
