"""What happened to a job: events, explanation, receipt, audit bundle."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from shared.responses.response import Cursor, Instant, JobId, JobStatusName, LeaseDigest, Partial, Response


class Event(Response):
    """One event of a job's history: gapless, in order, each chained to the one before by its hash."""

    eventId: str
    """`{jobId}:{seq}`."""
    jobId: JobId
    stepId: str | None
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["RESULT"])]
    attempt_no: int | None
    lease_digest: LeaseDigest
    from_status: str | None
    """The step's status before; null where no step moved."""
    to_status: str | None
    job_from: str | None
    """The job's status before; null for the first event."""
    job_to: str
    actor: Annotated[str, Field(examples=["service:ocr"])]
    """Who did it."""
    source: Annotated[str, Field(examples=["bus"])]
    """By what way: http, bus, callback, dispatch, settle, sweeper, redrive, dead-letter."""
    reason: str | None
    at: Instant
    data: Any
    """More of it, by type; `changes` are the columns that the move changed."""
    salt: str
    """Random, so that nobody can guess `data` by its digest where it is withheld."""
    cause_id: str
    """The occurrence that made it: a message, a request, an activity."""
    rules: int
    """Which rules decided it."""
    prev_hash: str
    hash: str
    """SHA-256 over the event's row, where a digest of salt and data stands for both."""


class EventPage(Response):
    """A job's events, in order."""

    events: list[Event]
    next: Cursor


class TableRow(Response):
    """A row of a transition table: in `state`, `event` leads to `to`."""

    machine: Literal["job", "step"]
    state: str
    event: str
    to: str
    source: str
    """The rule that the row comes from."""


class Move(Response):
    """The last move of a job, by its EVENT row."""

    seq: int
    type: str
    at: Instant
    stepId: str | None
    actor: str
    source: str
    reason: str | None
    rows: list[TableRow]
    """What decided it; empty for the creation."""


class Explanation(Response):
    """What a job waits for, until when, and what each possible next occurrence would do."""

    jobId: JobId
    status: JobStatusName
    text: str
    """All of it in one paragraph."""
    waits_for: str | None
    gate: Literal["PAUSED", "LANE_BACKLOG", "THROTTLED", "GATED"] | None
    """What holds the job back though nothing has failed; THROTTLED: a gate, or others before it; GATED: a guard of the
    step's service or lane."""
    stopped_by: str | None = None
    """THROTTLED: the gate, in words; GATED: the guard."""
    position: int | None = None
    """THROTTLED: its place in its line, counted to 1,000; null: further back, or not in line yet."""
    nextEligibleAt: Instant | None = None
    """THROTTLED: an estimate, by time alone; null: only an end or a person lets it in."""
    since: Instant | None
    until: Instant | None
    """Null: there is no time limit, or the job has ended."""
    then: str
    """What happens if nothing comes by then."""
    brought_here: Move | None
    """Which move brought the job to where it is."""
    what_if: dict[str, str]
    """Possible next occurrences, by name, and what each would do now."""
    rows_if: dict[str, list[TableRow]]
    """Of those that would move the job, the rows of the transition tables that they would use."""


class Spent(Response):
    """Seconds, by what they were spent on."""

    queue_s: float
    """Nothing stood in the way but LUCIUS's own dispatch."""
    ack_s: float
    """A directive was out and no service had taken it up."""
    service_s: float
    """A service was at work, by its own word."""
    backoff_s: float
    """LUCIUS waited on purpose, before another try."""
    gated_s: float = 0.0
    """Before its first attempt it waited at its gates, or before any for a guard of its service or lane."""
    dependent_s: float = 0.0
    """Before that: jobs that it depends on had not ended."""
    paused_s: float
    """A gate: an operator had the job stand still."""
    backlog_s: float
    """A gate: a lease was over while replies or directives still waited on the lane."""


class Operation(Response):
    """How often, as counted from the rows."""

    count: int
    bound: int
    """Of jobs of as many steps without faults, limits or heartbeats."""


class Operations(Response):
    """What the work cost."""

    directives: Operation
    """Sent to the bus."""
    replies: Operation
    """Taken from the bus, or called back."""
    table_writes: Operation
    """Transactions committed, each one request."""
    table_reads: Operation
    """That those transactions needed where HTTP, durable functions and each lane are processes apart; in one process
    they are fewer. A RESULT over a minute after its ACK needs one more. What moved nothing is not counted."""
    episodes: Operation
    """Of its orchestrations: their starts, and what they heard. A timer that found nothing to do is not counted."""
    beyond: dict[str, int]
    """Events that a job without faults has not, by type: why a count is past its bound."""


class StepReceipt(Spent):
    """What one step spent."""

    stepId: str
    attempts: int
    carried: bool


class Receipt(Response):
    """Where a job's time went, step by step; steps of a parallel group spend the same hours each."""

    jobId: JobId
    status: JobStatusName
    until: Instant
    """The job's end, or now."""
    elapsed_s: float
    total: Spent
    attempts_total: int
    events: int
    replies_ignored: int
    """Late, stale and repeated replies."""
    operations: Operations
    steps: list[StepReceipt]


class ReceiptGroup(Response):
    """The same for the jobs that have one value in common."""

    jobs: int
    elapsed_s: float
    total: Spent
    attempts_total: int


class ReceiptSums(Response):
    """What a tenant's jobs spent and cost, over one page of them."""

    tenant_id: str
    since: Instant | None
    until: Instant | None
    jobs: int
    """Jobs of this page, which all numbers are sums over."""
    by_status: dict[JobStatusName, int]
    elapsed_s: float
    total: Spent
    attempts_total: int
    replies_ignored: int
    operations: Operations
    groups: dict[str, ReceiptGroup] | None = None
    """With `by`: the same sums for each type, source or priority; "" for jobs without a source."""
    next: Cursor
    partial: Partial


class AuditBundle(Response):
    """The rows of a job and all its events, with a digest over them; to be checked offline, byte for byte as it came.

    Rows have the ledger's own columns, which may grow; a column that has the value of every new row is left out.
    """

    format: Literal["lucius-audit/2"]
    taken_at: Instant
    job: dict[str, Any]
    """The JOB row."""
    steps: list[dict[str, Any]]
    """The STEP rows."""
    events: list[dict[str, Any]]
    """The EVENT rows, from the first."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """SHA-256 over the canonical JSON (RFC 8785) of all of the above."""
