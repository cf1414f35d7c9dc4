"""Where a job's time went, from its EVENT rows alone (FEATURES N9); seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from shared.core.as_of import as_created, fold
from shared.core.job import Event, Job, Record, Step
from shared.core.states import JobStatus, StepStatus

#: nothing stood in its way but our own dispatch
QUEUE = "queue_s"
#: a directive was out and no service had taken it up
ACK = "ack_s"
#: a service was at work, by its own word
SERVICE = "service_s"
#: we waited on purpose, before a new attempt or a new publish
BACKOFF = "backoff_s"
#: an operator had it stand still
PAUSED = "paused_s"

PARTS = (QUEUE, ACK, SERVICE, BACKOFF, PAUSED)


def receipt(record: Record, events: Sequence[Event], now: datetime) -> dict[str, Any]:
    """Per step and in sum; of a living job, up to `now`. Steps of a parallel group spend the same hours each."""
    end = record.job.completed_at or now
    spent = {step.step_id: dict.fromkeys(PARTS, 0.0) for step in record.steps}
    at = as_created(record, events)
    for index, event in enumerate(events):
        at = fold(at, event)
        if at.job.status.terminal:
            break
        until = events[index + 1].at if index + 1 < len(events) else end
        for step in at.open_steps:
            for part, seconds in _parts(at.job, step, event.at, until):
                spent[step.step_id][part] += seconds
    total = {part: sum(each[part] for each in spent.values()) for part in PARTS}
    return {
        "jobId": record.job.job_id,
        "status": record.job.status.value,
        "until": end.isoformat().replace("+00:00", "Z"),
        "elapsed_s": _rounded((end - record.job.created_at).total_seconds()),
        "total": {part: _rounded(seconds) for part, seconds in total.items()},
        "attempts_total": record.job.attempts_total,
        "events": record.job.event_seq,
        "replies_ignored": sum(record.job.suppressed.values()),
        "steps": [
            {
                "stepId": step.step_id,
                "attempts": step.attempt_no,
                "carried": step.carried,
                **{part: _rounded(seconds) for part, seconds in spent[step.step_id].items()},
            }
            for step in record.steps
        ],
    }


def _parts(job: Job, step: Step, start: datetime, end: datetime) -> Iterator[tuple[str, float]]:
    """How a step spent the time between two events, in which no row changed."""
    end = max(start, end)  # the clocks of two processes may differ
    waited = min(max(step.due_at or start, start), end)
    if job.status is JobStatus.PAUSED:
        yield PAUSED, (end - start).total_seconds()
        return
    match step.status:
        case StepStatus.PENDING:
            yield QUEUE, (end - start).total_seconds()
        case StepStatus.INITIATED:
            yield BACKOFF, (waited - start).total_seconds()
            yield ACK, (end - waited).total_seconds()
        case StepStatus.PROCESSING:
            yield SERVICE, (end - start).total_seconds()
        case StepStatus.FAILED_RETRY:
            yield BACKOFF, (waited - start).total_seconds()
            yield QUEUE, (end - waited).total_seconds()


def _rounded(seconds: float) -> float:
    return round(seconds, 3)
