"""Counts of one minute: ended jobs, and latencies of services from the record of an attempt to its ACK and to its
RESULT.

Latencies are counted in buckets, so that the counts of processes and minutes add up. A percentile is the upper limit of
its bucket.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from shared.core.jobs.history import REPLY_EVENTS, EventType
from shared.core.jobs.job import Event, Record, Step
from shared.core.jobs.states import JobStatus, StepStatus

MINUTE = timedelta(minutes=1)
#: retention of the counts of a minute
KEPT_FOR = timedelta(hours=1)
#: maximum number of pairs of tenant and end, and of service and phase, in one minute; further ones are counted together
MAX_GROUPS = 100
OTHERS = "(others)"
ACK, RESULT = "ack", "result"
#: upper ends of the buckets in milliseconds; longer latencies are counted in the last one
LATENCIES_MS = (
    *(10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000),
    *(1_800_000, 3_600_000, 7_200_000, 14_400_000, 28_800_000, 86_400_000),
)

#: tenant, terminal state, and error code ("" if the job has none)
EndKey = tuple[str, str, str]
#: service, and `ack` or `result`
Phase = tuple[str, str]


@dataclass
class MinuteCounts:
    """Counts of one minute, or the sum of several."""

    ends: Counter[EndKey] = field(default_factory=Counter)
    #: counts by bucket
    latencies: dict[Phase, Counter[int]] = field(default_factory=dict)
    #: number of living jobs by state, as the sweeper counted them; None if it did not
    active: Mapping[str, int] | None = None

    def __add__(self, other: MinuteCounts) -> MinuteCounts:
        found = MinuteCounts(active=other.active if other.active is not None else self.active)
        for one in (self, other):
            for end, count in one.ends.items():
                found._add_end(end, count)
            for phase, buckets in one.latencies.items():
                found._latency(phase).update(buckets)
        return found

    def note(self, before: Record, after: Record, event: Event) -> None:
        """Counts a committed transition."""
        for step, phase, waited in reply_latencies(before, after, event):
            self._latency((step.service, phase))[find_latency_bucket(waited)] += 1
        job = after.job
        if job.status.terminal and not before.job.status.terminal:
            reason = "" if job.status is JobStatus.SUCCEEDED else _short(job.error_code or "")
            self._add_end((job.tenant, job.status.value, reason), 1)

    def latency(self, phase: str, service: str | None = None) -> Counter[int]:
        """Returns the buckets of a phase, for one service or for all."""
        found: Counter[int] = Counter()
        for (name, known), buckets in self.latencies.items():
            if known == phase and service in (None, name):
                found.update(buckets)
        return found

    def _add_end(self, end: EndKey, count: int) -> None:
        is_full = end not in self.ends and len(self.ends) >= MAX_GROUPS
        self.ends[(OTHERS, end[1], "") if is_full else end] += count

    def _latency(self, phase: Phase) -> Counter[int]:
        is_full = phase not in self.latencies and len(self.latencies) >= MAX_GROUPS
        return self.latencies.setdefault((OTHERS, phase[1]) if is_full else phase, Counter())


def reply_latencies(before: Record, after: Record, event: Event) -> Iterator[tuple[Step, str, timedelta]]:
    """Yields the latencies in a committed transition: step, `ack` or `result`, and the time from the record of the
    attempt to the reply.
    """
    for old, new in zip(before.steps, after.steps, strict=True):
        if old is new or old.step_id != event.step_id or new.initiated_at is None:
            continue
        if old.status is StepStatus.INITIATED and event.type in REPLY_EVENTS:
            yield new, ACK, event.at - new.initiated_at
        if event.type == EventType.RESULT:
            yield new, RESULT, event.at - new.initiated_at


def minute_of(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(second=0, microsecond=0)


def find_latency_bucket(waited: timedelta) -> int:
    milliseconds = waited / timedelta(milliseconds=1)
    return next((number for number, end in enumerate(LATENCIES_MS) if milliseconds <= end), len(LATENCIES_MS) - 1)


def percentile_ms(buckets: Counter[int], share: float) -> int | None:
    """Returns the milliseconds within which `share` (0 to 1) of the latencies are. Returns None if there are no
    latencies.
    """
    left = share * buckets.total()
    for bucket in sorted(buckets):
        left -= buckets[bucket]
        if left <= 1e-9:
            return LATENCIES_MS[bucket]
    return None


def _short(code: str) -> str:
    """Returns the code, cut to 64 characters, since a service can send a code of any length."""
    return code[:64]
