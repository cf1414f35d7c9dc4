"""Usage of a tenant's quotas by hour (R68): counts of listed jobs, refused creations, and peaks of active jobs.

A job counts in the hour of its creation. Waits are counted in buckets, so that hours add up. A percentile is the upper
limit of its bucket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

HOUR = timedelta(hours=1)
#: maximum number of pairs of type and source in one hour; further sources are counted together
MAX_GROUPS = 200
OTHERS = "(others)"
#: upper ends of the buckets in seconds; longer waits are counted in the last one
WAITS_S = (0, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 604800)


class Axis(StrEnum):
    """The property by which usage is summed."""

    TYPE = "type"
    SOURCE = "source"
    HOUR = "hour"


#: job type, and normalised source ("" for none)
Group = tuple[str, str]


@dataclass
class Counted:
    """Counts of the jobs of one group."""

    created: int = 0
    #: jobs admitted, immediately or after a wait
    admitted: int = 0
    #: jobs that waited for quotas or for other jobs
    staged: int = 0
    ended: int = 0
    #: admitted jobs by bucket of the wait
    waits: Counter[int] = field(default_factory=Counter)

    def __add__(self, other: Counted) -> Counted:
        return Counted(
            created=self.created + other.created,
            admitted=self.admitted + other.admitted,
            staged=self.staged + other.staged,
            ended=self.ended + other.ended,
            waits=self.waits + other.waits,
        )

    def add(self, staged_at: datetime | None, admitted_at: datetime | None, ended_at: datetime | None) -> None:
        """Counts one more created job. `staged_at` is None for a job that was admitted without waiting. `admitted_at`
        and `ended_at` are None for a job that was not admitted or has not ended.
        """
        self.created += 1
        self.ended += ended_at is not None
        self.staged += staged_at is not None
        if staged_at is None or admitted_at is not None:
            self.admitted += 1
            self.waits[find_wait_bucket((admitted_at or _NEVER) - (staged_at or _NEVER)) if staged_at else 0] += 1

    def wait_s(self, share: float) -> int | None:
        """Returns the seconds within which `share` (0 to 1) of the admitted jobs were admitted. Returns None if no job
        was admitted.
        """
        left = share * self.waits.total()
        for bucket in sorted(self.waits):
            left -= self.waits[bucket]
            if left <= 1e-9:
                return WAITS_S[bucket]
        return None


_NEVER = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class HourUsage:
    """The usage of a tenant in one hour, as counted so far."""

    hour: datetime
    jobs: Mapping[Group, Counted] = field(default_factory=dict)
    #: highest number of active jobs at a check once a minute: in total under ("", ""), of a type, and of a source
    peaks: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: refused creations of jobs, by group
    refused: Mapping[Group, int] = field(default_factory=dict)
    #: `True` if the whole hour is in the hourly rollup
    folded: bool = False


def hour_of(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def find_wait_bucket(wait: timedelta) -> int:
    seconds = wait.total_seconds()
    return next((number for number, end in enumerate(WAITS_S) if seconds <= end), len(WAITS_S) - 1)


def group_in(groups: Mapping[Group, object], group: Group) -> Group:
    """Returns the group that counts the job. If the limit of groups is reached, returns the job type with the source
    `OTHERS` for a new group.
    """
    return group if group in groups or len(groups) < MAX_GROUPS else (group[0], OTHERS)


def inside_by(rows: Iterable[tuple[str, str | None]]) -> Counter[tuple[str, str]]:
    """Returns the number of active jobs of each type and source, and the total under ("", "")."""
    found: Counter[tuple[str, str]] = Counter()
    for job_type, source in rows:
        found["", ""] += 1
        found[Axis.TYPE.value, job_type] += 1
        found[Axis.SOURCE.value, source or ""] += 1
    return found


def highest(one: Mapping[tuple[str, str], int], other: Mapping[tuple[str, str], int]) -> dict[tuple[str, str], int]:
    """Returns the higher peak for each type and source, at most `2 * MAX_GROUPS` peaks."""
    both = {key: max(one.get(key, 0), other.get(key, 0)) for key in [*one, *other]}
    return dict(sorted(both.items(), key=lambda each: (each[0] != ("", ""), -each[1], each[0]))[: 2 * MAX_GROUPS])


@dataclass
class Sum:
    """The summed usage of all jobs, or of one group of jobs."""

    counted: Counted = field(default_factory=Counted)
    rejected: int = 0
    active_peak: int = 0


def sum_hours(hours: Iterable[HourUsage], axis: Axis | None) -> tuple[Sum, dict[str, Sum]]:
    """Returns the sum of all hours, and the sums by the axis: type, source ("" for none), or hour (as ISO text)."""
    total, by = Sum(), dict[str, Sum]()

    def of(key: str) -> Sum:
        return by.setdefault(key, Sum())

    for hour in hours:
        name = hour.hour.isoformat().replace("+00:00", "Z")

        def key_of(group: Group, name: str = name) -> str:
            return name if axis is Axis.HOUR else group[axis is Axis.SOURCE]

        for group, counted in hour.jobs.items():
            total.counted += counted
            if axis is not None:
                of(key_of(group)).counted += counted
        for group, refused in hour.refused.items():
            total.rejected += refused
            if axis is not None:
                of(key_of(group)).rejected += refused
        for (kind, key), peak in hour.peaks.items():
            if kind == "":
                total.active_peak = max(total.active_peak, peak)
            if axis is not None and kind == ("" if axis is Axis.HOUR else axis.value):
                one = of(name if axis is Axis.HOUR else key)
                one.active_peak = max(one.active_peak, peak)
    return total, dict(sorted(by.items()))
