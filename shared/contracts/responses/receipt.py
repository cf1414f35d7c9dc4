"""Where a job's time went."""

from __future__ import annotations

from shared.contracts.responses.common import Cursor, Instant, JobId, Response
from shared.contracts.responses.job import JobStatusName


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
    paused_s: float
    """A gate: an operator had the job stand still."""
    backlog_s: float
    """A gate: a lease was over while replies or directives still waited on the lane."""


class Operation(Response):
    """How often, as far as the rows tell."""

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
    next: Cursor
