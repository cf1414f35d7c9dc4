"""Work in progress as gauges: the counts of the sweeper's passes, never a counter that could drift."""

from __future__ import annotations

from datetime import datetime

from shared import telemetry
from shared.core.states import JobStatus
from shared.ports.sweeps import Share, WorkCounts


def set_queue_gauges(share: Share, counts: WorkCounts) -> None:
    """The queues of this share's tenants; one that is empty now is 0, not what it was."""
    for (job_type, tenant), depth in counts.queued.most_common():
        telemetry.set_gauge("job_queue_depth", depth, jobType=job_type, tenant=tenant)
    shown = _shown_queues.setdefault(share, set())
    for job_type, tenant in shown - set(counts.queued):
        telemetry.set_gauge("job_queue_depth", 0, jobType=job_type, tenant=tenant)
    _shown_queues[share] = set(counts.queued)


def set_work_gauges(counts: WorkCounts, now: datetime) -> None:
    """The counts over all shares; a state that is empty now is 0."""
    for status in JobStatus:
        if not status.terminal:
            telemetry.set_gauge("job_active", counts.active[status.value], status=status.value)
    telemetry.set_gauge("job_queue_oldest_seconds", age_s(counts.queued_since, now))
    telemetry.set_gauge("outbox_backlog", counts.unacked)
    telemetry.set_gauge("outbox_oldest_seconds", age_s(counts.unacked_since, now))


def age_s(since: datetime | None, now: datetime) -> float:
    """0 where nothing waits."""
    return max((now - since).total_seconds(), 0.0) if since is not None else 0.0


#: queues that the last pass over each share showed in this process
_shown_queues: dict[Share, set[tuple[str, str]]] = {}
