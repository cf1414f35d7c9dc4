"""Work in progress, for the gauges: counted from the rows, never by a counter that could drift."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime

from shared import telemetry
from shared.core.job import Record
from shared.core.states import JobStatus, StepStatus
from shared.operations.context import Context
from shared.operations.read_history import read_for_list

#: jobs that are read for one count; of more, each tenant's share is read and stands for the rest
MAX_READ = 200
#: rows that are listed of one tenant
_MAX_LISTED = 1000


@dataclass
class WorkCounts:
    """What was found; with more than `MAX_READ` active jobs, estimated."""

    active: Counter[str] = field(default_factory=Counter)
    #: by job type and tenant
    queued: Counter[tuple[str, str]] = field(default_factory=Counter)
    #: age of the oldest QUEUED job
    queued_oldest_s: float = 0.0
    #: attempts INITIATED and not ACKed
    backlog: int = 0
    oldest_s: float = 0.0

    def add(self, record: Record, times: int, now: datetime) -> None:
        """A job that stands for `times` jobs."""
        job = record.job
        if job.status.terminal:
            return
        self.active[job.status.value] += times
        if job.status is JobStatus.QUEUED:
            self.queued[(job.request_type, job.tenant)] += times
            self.queued_oldest_s = max(self.queued_oldest_s, (now - job.created_at).total_seconds())
        for step in record.steps:
            if step.status is StepStatus.INITIATED and step.initiated_at is not None:
                self.backlog += times
                self.oldest_s = max(self.oldest_s, (now - step.initiated_at).total_seconds())


async def count_work(context: Context) -> WorkCounts:
    """Raises LedgerUnavailable."""
    tenants = await context.index.tenants()
    listed = [await context.index.list_active(tenant, after=None, limit=_MAX_LISTED) for tenant in tenants]
    total = sum(len(found) for found in listed)
    now, counts = context.clock.now(), WorkCounts()
    for found in listed:
        every = math.ceil(total / MAX_READ) if total > MAX_READ else 1
        # by age, so that the oldest one is read
        read = sorted(found, key=lambda active: active.created_at)[::every]
        for place, active in enumerate(read):
            stored = await read_for_list(context.ledger, active.job_id)
            if stored is not None:
                counts.add(stored.record, min(every, len(found) - place * every), now)
    return counts


def set_gauges(counts: WorkCounts) -> None:
    """Sets the gauges; a state or a queue that is empty now is 0, not what it was."""
    for status in JobStatus:
        if not status.terminal:
            telemetry.set_gauge("job_active", counts.active[status.value], status=status.value)
    for (job_type, tenant), depth in counts.queued.most_common():
        telemetry.set_gauge("job_queue_depth", depth, jobType=job_type, tenant=tenant)
    for job_type, tenant in _shown_queues - set(counts.queued):
        telemetry.set_gauge("job_queue_depth", 0, jobType=job_type, tenant=tenant)
    _shown_queues.clear()
    _shown_queues.update(counts.queued)
    telemetry.set_gauge("job_queue_oldest_seconds", counts.queued_oldest_s)
    telemetry.set_gauge("outbox_backlog", counts.backlog)
    telemetry.set_gauge("outbox_oldest_seconds", counts.oldest_s)


#: queues that the last pass of this process showed
_shown_queues: set[tuple[str, str]] = set()
