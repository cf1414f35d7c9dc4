"""Everything that can happen to a job, for the tests that leave nothing out: a new occurrence is added here, and to
`tests.model.differential.Pair._model_says`."""

from __future__ import annotations

from collections.abc import Iterator

from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import (
    Admitted,
    Awaited,
    Control,
    ControlKind,
    DeadlinePassed,
    DependenciesSettled,
    DependencyFailed,
    Expired,
    Gated,
    LaneBacklog,
    Occurrence,
    OrchestrationEnded,
    PriorityChanged,
    PublishFailed,
    Redriven,
    RenewLease,
    Repaired,
    ReplyArrived,
    TimePassed,
)
from tests.jobs import next_attempt, recorded, reply


def to_a_job(record: Record) -> Iterator[Occurrence]:
    """Yields all possible occurrences now; one of no step's current attempt occurs once, from a stranger."""
    for step in record.steps:
        name, attempt_no = step.step_id, step.attempt_no
        yield recorded(record, name)
        yield RenewLease(name, attempt_no)
        yield PublishFailed(name, attempt_no, "the bus is away")
        yield DeadlinePassed(name, attempt_no)
        yield LaneBacklog(name, attempt_no, "unread replies wait on the lane")
        yield TimePassed(name)
        yield Gated(name, "service:ocr", "service:ocr is held: it is slow")
        if attempt_no > 1:
            yield RenewLease(name, attempt_no - 1)
            yield PublishFailed(name, attempt_no - 1, "the bus is away")
            yield DeadlinePassed(name, attempt_no - 1)
            yield ReplyArrived(reply(record, "RESULT", name, attempt_no=attempt_no - 1, lease_id="of the one before"))
        yield ReplyArrived(reply(record, "ACK", name))
        yield ReplyArrived(reply(record, "HEARTBEAT", name))
        for status in ("SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"):
            yield ReplyArrived(reply(record, "RESULT", name, status=status))
        if (following := next_attempt(record, name)) is not None:
            yield ReplyArrived(reply(record, "RESULT", name), next_attempt=following)
    for kind in ControlKind:
        yield Control(kind)
    yield from _of_waiting(record)
    yield PriorityChanged("high")
    yield OrchestrationEnded(record.job.instance_id)
    yield OrchestrationEnded(record.job.instance_id, silent=True)
    yield OrchestrationEnded(f"{record.job.job_id}.r9")
    yield Redriven("job_2")
    yield Redriven("job_3")
    yield Repaired("result:s0:1")


def _of_waiting(record: Record) -> Iterator[Occurrence]:
    """Everything that can happen to a job that waits for its quotas or other jobs."""
    yield Admitted(park_no=record.job.park_no)
    yield Admitted(park_no=record.job.park_no + 1)
    yield from (Awaited(), DependenciesSettled(), DependencyFailed("job_0"), Expired())


def around_a_step(record: Record, step_id: str) -> Iterator[Occurrence]:
    """Everything that can happen around one step: of its attempt, of another, from a stranger."""
    step = record.step(step_id)
    assert step is not None
    yield recorded(record, step_id)
    for attempt_no in (step.attempt_no, step.attempt_no + 1):
        yield RenewLease(step_id, attempt_no)
        yield PublishFailed(step_id, attempt_no, "the bus is away")
        yield DeadlinePassed(step_id, attempt_no)
        yield LaneBacklog(step_id, attempt_no, "unread replies wait on the lane")
    yield TimePassed(step_id)
    yield Gated(step_id, "service:ocr", "service:ocr is held: it is slow")
    for kind in ControlKind:
        yield Control(kind)
    yield from _of_waiting(record)
    yield PriorityChanged("high")
    for restarts in ("", ".r1", ".r5"):
        yield OrchestrationEnded(record.job.instance_id + restarts)
    yield Redriven("job_2")
    yield Repaired("result:ocr:1")
    results = [("RESULT", {"status": status}) for status in ("SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL")]
    for type_, members in [("ACK", {}), ("HEARTBEAT", {}), *results]:
        yield ReplyArrived(reply(record, type_, step_id, **members))
        yield ReplyArrived(reply(record, type_, step_id, **members, attempt_no=step.attempt_no + 1))
        yield ReplyArrived(reply(record, type_, step_id, **members, lease_id="another"))
        yield ReplyArrived(reply(record, type_, step_id, **members, tenant_id="tenant_b"))
        yield ReplyArrived(reply(record, type_, "nothing", **members))
    if (following := next_attempt(record, step_id)) is not None:
        for status in ("SUCCEEDED", "FAILED_RETRY"):
            yield ReplyArrived(reply(record, "RESULT", step_id, status=status), next_attempt=following)
