"""The time and operations breakdown of a job, computed from its rows alone, with times in seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from shared.api.response import Cursor, Instant, JobId, JobStatusName, Partial, Response
from shared.core.jobs.as_of import apply_event, rebuild_created
from shared.core.jobs.history import REPLY_EVENTS, EventType
from shared.core.jobs.job import Event, Job, Record, Step
from shared.core.jobs.replies import MAX_IGNORED_EVENTS
from shared.core.jobs.states import JobStatus, StepStatus


class Spent(Response):
    """Seconds of a job or step, by use."""

    queue_s: float
    """Seconds in which only LUCIUS's own dispatch was outstanding."""
    ack_s: float
    """Seconds in which a sent directive had no ACK."""
    service_s: float
    """Seconds from a service's ACK to its RESULT, or to the end of an attempt without a RESULT."""
    backoff_s: float
    """Seconds of backoff before a retry."""
    gated_s: float = 0.0
    """Seconds waiting for quotas before the first attempt, or for a dispatch limit of a service or lane before any
    attempt."""
    dependent_s: float = 0.0
    """Seconds waiting for the job's dependencies."""
    paused_s: float
    """Seconds for which the job was paused."""
    backlog_s: float
    """Seconds after the end of a lease while replies or directives still waited on the lane, or while Service Bus was
    unreachable."""


class Operation(Response):
    """Number of operations, counted from the rows."""

    count: int
    bound: int
    """Upper bound for jobs with the same number of steps and without faults, limits or heartbeats."""


class Operations(Response):
    """Numbers of Service Bus, table and orchestration operations of a job."""

    directives: Operation
    """Number of directives sent to the bus."""
    replies: Operation
    """Number of recorded replies from the bus or by callback. LUCIUS does not record a heartbeat that changes
    nothing."""
    table_writes: Operation
    """Number of committed transactions, each of which is one request. Transactions that only extend a wait do not
    count."""
    table_reads: Operation
    """Number of reads that the job's transactions need if HTTP, Durable Functions and each lane are separate
    processes. One process needs fewer reads. A RESULT more than one minute after its ACK needs one more read.
    Reads without a transaction do not count."""
    episodes: Operation
    """Number of orchestration episodes, which are starts and received events. A timer without work does not count."""
    beyond: dict[str, int]
    """Number of events that a job without faults does not have, by type. These events explain a count above its
    bound."""


class StepReceipt(Spent):
    """Time breakdown of one step."""

    stepId: str
    attempts: int
    carried: bool


class Receipt(Response):
    """Time and operations breakdown of a job. If steps run in parallel, each step counts the shared time in full."""

    jobId: JobId
    status: JobStatusName
    until: Instant
    """Time when the job ended, or the current time."""
    elapsed_s: float
    total: Spent
    attempts_total: int
    events: int
    replies_ignored: int
    """Number of late, stale and repeated replies."""
    operations: Operations
    steps: list[StepReceipt]


class ReceiptGroup(Response):
    """Sums for the jobs of one job type, source or priority."""

    jobs: int
    elapsed_s: float
    total: Spent
    attempts_total: int


class ReceiptSums(Response):
    """Sums of time and operations over one page of a tenant's jobs."""

    tenant_id: str
    since: Instant | None
    until: Instant | None
    jobs: int
    """Number of jobs in the sums of this page."""
    unreadable: int
    """Number of jobs that are not in the sums of this page, because LUCIUS cannot read their rows or archived
    bundles."""
    by_status: dict[JobStatusName, int]
    elapsed_s: float
    total: Spent
    attempts_total: int
    replies_ignored: int
    operations: Operations
    groups: dict[str, ReceiptGroup] | None = None
    """With `by` only. Sums per job type, source or priority. The key "" has the jobs without a source."""
    next: Cursor
    partial: Partial


#: time in which only LUCIUS's own dispatch was pending
QUEUE = "queue_s"

#: time in which a directive was sent and not acknowledged
ACK = "ack_s"

#: time in which a service was working, by its own replies
SERVICE = "service_s"

#: intended wait before a new attempt or a new publish
BACKOFF = "backoff_s"

#: time in which quotas delayed the first attempt, or a dispatch limit any attempt
GATED = "gated_s"

#: time in which dependencies had not ended
DEPENDENT = "dependent_s"

#: time in which the job was paused
PAUSED = "paused_s"

#: time in which a lease was over, and messages on the lane or an unreachable bus could explain the silence
BACKLOG = "backlog_s"

#: all parts; in the last four nothing had failed, and the job was delayed
PARTS = (QUEUE, ACK, SERVICE, BACKOFF, GATED, DEPENDENT, PAUSED, BACKLOG)

#: number of reads before the event, if HTTP, durable functions and each lane are separate processes; default 1. A fault
#: of the bus comes in the activity whose attempt was recorded, and a late reply is looked up among the events
_READS = {EventType.JOB_CREATED: 0, EventType.PUBLISH_FAILED: 0, EventType.REPLY_IGNORED: 2}

#: number of runs of an orchestration for the event, with the timer that led to it or follows it
_EPISODES = {
    EventType.ATTEMPT_RECORDED: 1,
    EventType.LEASE_RENEWED: 1,
    EventType.PUBLISH_FAILED: 1,
    EventType.ACK: 1,
    EventType.RESULT: 1,
    EventType.ACK_TIMEOUT: 2,
    EventType.LEASE_EXPIRED: 2,
    EventType.GATED: 1,
    EventType.TIME_EXCEEDED: 2,
}

#: time within which a process decides on its own last commit without a read (`shared.operations.process.recent_jobs`)
_RECENT = timedelta(seconds=60)

_REPLIES = REPLY_EVENTS | {EventType.REPLY_IGNORED}

#: events of each step of a job without faults
_PLAIN = (EventType.ATTEMPT_RECORDED, EventType.ACK, EventType.RESULT)


def receipt(record: Record, events: Sequence[Event], now: datetime) -> Receipt:
    """Sums up the job's time by use, for each step and in total. A job that has not ended is summed up to `now`.

    `events` has all events of the job. Each step of a parallel group counts the shared time in full.
    """
    end = record.job.completed_at or now
    spent = {step.step_id: dict.fromkeys(PARTS, 0.0) for step in record.steps}
    at = rebuild_created(record, events)
    for index, event in enumerate(events):
        at = apply_event(at, event)
        if at.job.status.terminal:
            break
        until = events[index + 1].at if index + 1 < len(events) else end
        for step in at.open_steps:
            for part, seconds in _parts(at.job, step, event.at, until):
                spent[step.step_id][part] += seconds
    total = {part: sum(each[part] for each in spent.values()) for part in PARTS}
    return Receipt(
        jobId=record.job.job_id,
        status=record.job.status,
        until=end,
        elapsed_s=_rounded((end - record.job.created_at).total_seconds()),
        total=_spent(total),
        attempts_total=record.job.attempts_total,
        events=record.job.event_seq,
        replies_ignored=record.job.suppressed,
        operations=operations(record, events),
        steps=[
            StepReceipt(
                stepId=step.step_id,
                attempts=step.attempt_no,
                carried=step.carried,
                **_spent(spent[step.step_id]).model_dump(),
            )
            for step in record.steps
        ],
    )


def operations(record: Record, events: Sequence[Event]) -> Operations:
    """Counts the directives, replies, table requests and episodes of the job, each with the bound for a job without
    faults.

    Committed transactions are counted, except those in which the sweeper changed only `check_at`. Replies are counted
    by their EVENT rows, and late replies past the limit of EVENT rows by JOB. A heartbeat without an EVENT row is not
    counted. Only the first accepted call for a directive is counted, since the bus drops a second directive with the
    same message id.

    Reads and episodes leave no row, so the number that the events needed is counted. `beyond` has the events that a job
    without faults does not have.
    """
    steps = sum(not step.carried for step in record.steps)
    seen = Counter(event.type for event in events)
    # past the limit, a late reply is a count on JOB, written without an event
    only_counted = max(0, record.job.suppressed - MAX_IGNORED_EVENTS)
    directives = _count_sent(events)
    replies = sum(seen[type_] for type_ in _REPLIES) + only_counted
    # attempts in a RESULT's transaction: only for steps without a dispatch limit and without a total time of their own
    by_result = sum(map(_by_result, events))
    writes = (2 if record.job.status.terminal else 1) + seen.total() - by_result + only_counted
    reads = 2 * only_counted + sum(map(_reads, (None, *events), events))
    # each step of a group has its own orchestration, whose end the job's orchestration receives
    grouped = 2 * sum(len(record.group_of(step)) > 1 and not step.carried for step in record.steps)
    episodes = 1 + grouped + sum(_EPISODES.get(EventType(type_), 0) * count for type_, count in seen.items())
    beyond = {
        type_: over
        for type_, count in sorted(seen.items())
        if (over := count - (steps if type_ in _PLAIN else type_ == EventType.JOB_CREATED)) > 0
    }
    return Operations(
        directives=Operation(count=directives, bound=steps),
        replies=Operation(count=replies, bound=2 * steps),
        table_writes=Operation(count=writes, bound=3 + 3 * steps - by_result),
        table_reads=Operation(count=reads, bound=2 * steps - by_result),
        episodes=Operation(count=episodes, bound=1 + grouped + 3 * steps),
        beyond=beyond,
    )


def _count_sent(events: Sequence[Event]) -> int:
    """Returns the number of attempts, without those whose last send the bus did not accept."""
    sent: set[tuple[str | None, int | None]] = set()
    for event in events:
        if event.type in (EventType.ATTEMPT_RECORDED, EventType.LEASE_RENEWED):
            sent.add((event.step_id, event.attempt_no))
        elif event.type == EventType.PUBLISH_FAILED:
            sent.discard((event.step_id, event.attempt_no))
    return len(sent)


def _reads(before: Event | None, event: Event) -> int:
    """Returns the number of reads for the event after `before`. The number is 0 if a reply follows a commit of the same
    process in less than `_RECENT`.
    """
    known = before is not None and (before.type in REPLY_EVENTS or _by_result(before))
    if known and before is not None and event.type in REPLY_EVENTS and event.at - before.at < _RECENT:
        return 0
    # for an attempt that a RESULT recorded, this is the read before its directive is sent
    return _READS.get(EventType(event.type), 1)


def _by_result(event: Event) -> bool:
    """Returns True if the event recorded an attempt in a RESULT's transaction."""
    return event.type == EventType.ATTEMPT_RECORDED and event.source != "dispatch"


def add_up(receipts: Sequence[Receipt]) -> dict[str, Any]:
    """Makes the sums of ReceiptSums: jobs by status, seconds by part, attempts, and operations."""
    beyond: Counter[str] = Counter()
    for each in receipts:
        beyond.update(each.operations.beyond)

    def operation(name: str) -> Operation:
        counted = [getattr(each.operations, name) for each in receipts]
        return Operation(count=sum(one.count for one in counted), bound=sum(one.bound for one in counted))

    return {
        "jobs": len(receipts),
        "by_status": dict(sorted(Counter(each.status for each in receipts).items())),
        "elapsed_s": _rounded(sum(each.elapsed_s for each in receipts)),
        "total": _spent({part: sum(getattr(each.total, part) for each in receipts) for part in PARTS}),
        "attempts_total": sum(each.attempts_total for each in receipts),
        "replies_ignored": sum(each.replies_ignored for each in receipts),
        "operations": Operations(
            **{name: operation(name) for name in Operations.model_fields if name != "beyond"},
            beyond=dict(sorted(beyond.items())),
        ),
    }


def grouped(receipts: Iterable[tuple[str, Receipt]]) -> dict[str, ReceiptGroup]:
    """Makes the sums of ReceiptGroup, by the key of each receipt."""
    by_key: dict[str, list[Receipt]] = {}
    for key, each in receipts:
        by_key.setdefault(key, []).append(each)
    return {key: ReceiptGroup.model_validate(add_up(found)) for key, found in sorted(by_key.items())}


def _spent(seconds: Mapping[str, float]) -> Spent:
    return Spent(**{part: _rounded(seconds[part]) for part in PARTS})


def _parts(job: Job, step: Step, start: datetime, end: datetime) -> Iterator[tuple[str, float]]:
    """Splits the time of a step between two events, and yields pairs of use and seconds. No row changes in this
    time.
    """
    end = max(start, end)  # the clocks of two processes may differ
    waited = min(max(step.due_at or start, start), end)
    if job.status is JobStatus.PAUSED:
        yield PAUSED, (end - start).total_seconds()
        return
    if job.status is JobStatus.THROTTLED or step.gated_since is not None:
        yield GATED, (end - start).total_seconds()
        return
    if job.status is JobStatus.WAITING_FOR_JOBS:
        yield DEPENDENT, (end - start).total_seconds()
        return
    if step.status.in_flight and step.backlog_since is not None:
        yield BACKLOG, (end - start).total_seconds()
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
