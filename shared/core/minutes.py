"""What ended in a minute, and how long services took to acknowledge and to answer: counts that add up.

Latencies are kept in buckets, so that the counts of processes and of minutes add up; what is read from them is the end
of a bucket, "at most".
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
#: how long the counts of a minute are kept
KEPT_FOR = timedelta(hours=1)
#: pairs of tenant and end, and of service and phase, of one minute; those beyond are counted together
MAX_GROUPS = 100
OTHERS = "(others)"
ACK, RESULT = "ack", "result"
#: ends of the buckets in milliseconds; what took longer than the last counts as that
LATENCIES_MS = (
    *(10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000),
    *(1_800_000, 3_600_000, 7_200_000, 14_400_000, 28_800_000, 86_400_000),
)

#: tenant, terminal state, and reason ("" if it succeeded)
End = tuple[str, str, str]
#: service, and ACK or RESULT
Phase = tuple[str, str]


@dataclass
class MinuteCounts:
    """Counts of one minute, or of several together."""

    ends: Counter[End] = field(default_factory=Counter)
    #: by bucket
    latencies: dict[Phase, Counter[int]] = field(default_factory=dict)
    #: jobs that had not ended, by state, as the sweeper counted them; None: it did not
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
            self._latency((step.service, phase))[bucket_of(waited)] += 1
        job = after.job
        if job.status.terminal and not before.job.status.terminal:
            reason = "" if job.status is JobStatus.SUCCEEDED else _short(job.error_code or "")
            self._add_end((job.tenant, job.status.value, reason), 1)

    def latency(self, phase: str, service: str | None = None) -> Counter[int]:
        """Returns the buckets of a phase: of one service, or of all."""
        found: Counter[int] = Counter()
        for (name, known), buckets in self.latencies.items():
            if known == phase and service in (None, name):
                found.update(buckets)
        return found

    def _add_end(self, end: End, count: int) -> None:
        is_full = end not in self.ends and len(self.ends) >= MAX_GROUPS
        self.ends[(OTHERS, end[1], "") if is_full else end] += count

    def _latency(self, phase: Phase) -> Counter[int]:
        is_full = phase not in self.latencies and len(self.latencies) >= MAX_GROUPS
        return self.latencies.setdefault((OTHERS, phase[1]) if is_full else phase, Counter())


def reply_latencies(before: Record, after: Record, event: Event) -> Iterator[tuple[Step, str, timedelta]]:
    """Returns the ACK and the RESULT that a committed transition stands for: step, `ack` or `result`, and the time
    since the attempt was recorded.
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


def bucket_of(waited: timedelta) -> int:
    milliseconds = waited / timedelta(milliseconds=1)
    return next((number for number, end in enumerate(LATENCIES_MS) if milliseconds <= end), len(LATENCIES_MS) - 1)


def percentile_ms(buckets: Counter[int], share: float) -> int | None:
    """Returns the milliseconds within which `share` (0 to 1) of the latencies are. None: there are none."""
    left = share * buckets.total()
    for bucket in sorted(buckets):
        left -= buckets[bucket]
        if left <= 1e-9:
            return LATENCIES_MS[bucket]
    return None


def _short(code: str) -> str:
    """A service may name any code."""
    return code[:64]
