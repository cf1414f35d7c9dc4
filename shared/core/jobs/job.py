"""JOB and STEP rows as values, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from shared.core.jobs.durable_names import group_instance_id
from shared.core.jobs.states import FailureCause, JobStatus, StepStatus

JsonValue = Any
Ref = Mapping[str, JsonValue]


@dataclass(frozen=True, kw_only=True)
class Timings:
    """A step's frozen timings, in seconds."""

    ack_timeout_s: float
    #: the lease from the ACK on, restarted by each heartbeat
    lease_s: float
    #: None: the service declared none
    heartbeat_cadence_s: float | None
    max_attempts: int
    dispatch_backoffs: tuple[float, ...]
    ack_backoffs: tuple[float, ...]
    execution_backoffs: tuple[float, ...]
    #: the longest time of an attempt, from its ACK on; None: none
    attempt_max_s: float | None = None
    #: None: the step has no cap of its own
    total_timeout_s: float | None = None

    @property
    def running_lease_s(self) -> float:
        """Seconds of a lease: two missed heartbeats end it where a cadence is declared."""
        return self.lease_s if self.heartbeat_cadence_s is None else 2 * self.heartbeat_cadence_s


@dataclass(frozen=True, kw_only=True)
class Step:
    """One STEP row."""

    step_id: str
    step_index: int
    step_type: str
    service: str
    status: StepStatus
    timings: Timings
    payload: JsonValue
    #: number of its parallel group; None: it runs alone
    group: int | None = None

    #: routing, pinned at POST and never recomputed
    lane: int
    routing_key_used: str
    resolved_mode: str
    decision_source: str
    decision_reason: str

    #: 0: never dispatched
    attempt_no: int = 0
    #: the right to the current attempt: a secret of the directive's; every other reader sees its digest
    lease_id: str | None = None
    lease_digest: str | None = None
    lease_expires_at: datetime | None = None
    #: when the current attempt was recorded
    initiated_at: datetime | None = None
    #: since when our own backlog explains the attempt's silence
    backlog_since: datetime | None = None
    #: until when it does, at the next look; moved without an EVENT row, or a deep queue would fill histories
    backlog_until: datetime | None = None
    #: since when a guard of its service or lane keeps the next attempt back; any other move of the step clears these
    gated_since: datetime | None = None
    #: when that is looked at again, and which guard it was at the last look; both move without an EVENT row
    gated_until: datetime | None = None
    gated_by: str | None = None
    #: when the current attempt is over whatever its service says; None: no service has taken it up
    attempt_deadline_at: datetime | None = None
    #: the step's total time cap, from its first attempt on; moved on by what the job is PAUSED
    deadline_at: datetime | None = None
    #: FAILED_RETRY only: when the next attempt may be recorded
    due_at: datetime | None = None
    #: FAILED_RETRY only: what ended the attempt
    retry_cause: FailureCause | None = None
    #: how often each cause has failed this step; picks the backoff
    ack_failures: int = 0
    execution_failures: int = 0
    #: publish faults of the current attempt; they use up no attempt
    publish_failures: int = 0

    input_ref: Ref | None = None
    workspace_ref: Ref | None = None
    output_ref: Ref | None = None
    result_ref: Ref | None = None
    #: what the RESULT of the current attempt carried beside that: its `shared.contracts.messages.RESULT_CONTENT`
    result: Mapping[str, JsonValue] | None = None
    #: SUCCEEDED in the job that this one took up again (`redrive_of`), and not run here
    carried: bool = False
    last_error_code: str | None = None
    last_error_message: str | None = None
    progress: JsonValue = None
    #: HEARTBEAT rows of the step, of all its attempts
    heartbeats: int = 0

    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None

    @property
    def silent_until(self) -> datetime | None:
        """Returns when an attempt in flight counts as silent: the end of its lease, or later while LUCIUS's own backlog
        explains the silence.
        """
        ends = [end for end in (self.lease_expires_at, self.backlog_until) if end is not None]
        return max(ends, default=None)

    @property
    def sent_at(self) -> datetime:
        """Returns about when the current attempt was last sent, or will be sent. The lease of an INITIATED attempt
        began then.
        """
        began = self.initiated_at or self.created_at
        if self.lease_expires_at is None:
            return began
        return max(began, self.lease_expires_at - timedelta(seconds=self.timings.ack_timeout_s))

    @property
    def made(self) -> Ref | None:
        """Returns the input of the next step: the result, or the whole workspace if the RESULT named none."""
        return self.result_ref or self.workspace_ref

    @property
    def owes_publish(self) -> bool:
        """Returns whether the step is in a publish backoff: the bus did not accept the directive, and LUCIUS sends it
        again.
        """
        return self.status is StepStatus.INITIATED and self.due_at is not None

    def attempt_is_over(self, at: datetime) -> bool:
        """Returns whether the current attempt's maximum time is over at `at`."""
        return self.attempt_deadline_at is not None and self.attempt_deadline_at <= at


@dataclass(frozen=True, kw_only=True)
class Job:
    """The JOB row."""

    job_id: str
    #: as the caller wrote it
    tenant_id: str
    #: trimmed and lower-cased: for keys, routing, claims and comparison
    tenant: str
    protocol_id: str
    protocol_version: int
    #: SHA-256 of the protocol's canonical JSON
    protocol_digest: str
    request_type: str
    schema_version: str
    mode: str
    status: JobStatus
    #: the orchestration that may move this job; any other is fenced off
    instance_id: str
    #: how many of its orchestrations ended before it did
    orchestration_failures: int = 0

    idempotency_key: str | None = None
    #: RowKey of the claim, without its prefix
    idempotency_hash: str
    body_hash: str
    payload_digest: str
    input_ref: Ref
    output_ref: Ref
    #: URI under which each attempt gets a folder of its own
    workspace_base: str

    doc_id: str | None = None
    correlation_id: str
    traceparent: str | None = None
    priority: str = "normal"
    labels: Mapping[str, str]
    #: by name, the scheme and host of each: what follows may be a credential
    callback_urls: Mapping[str, str]
    #: `sha256:` of the canonical JSON (RFC 8785) of `callback_targets`; None: there are none
    callback_digest: str | None = None
    #: by name, the whole addresses, for their deliveries only
    callback_targets: Mapping[str, str] | None = None
    requested_by: str | None = None
    requested_at: datetime
    source: str | None = None

    #: since when it waits, or waited, for its gates; None: they let it in at once, or there were none
    staged_at: datetime | None = None
    #: when they let it in
    admitted_at: datetime | None = None
    #: of a staged job: the seconds that its total time has from its admission on
    total_time_s: float | None = None

    #: ids of the jobs that must have ended before it begins; None: of no job
    dependencies: list[str] | None = None
    #: what becomes of it where one of them does not succeed: `fail` or `run`
    on_dependency_failure: str = "fail"
    #: when they had all ended
    dependencies_settled_at: datetime | None = None
    #: another job waits for its end
    awaited: bool = False
    #: when it is of no use any more if it has not begun; None: always of use
    expires_at: datetime | None = None
    #: the priority that an operator set while the job waited; None: as it was created
    changed_priority: str | None = None
    #: codes that make its failure an incident; None: the usual ones (`shared.core.incidents.ESCALATED`)
    escalate: list[str] | None = None

    current_step_id: str
    current_step_index: int = 0
    attempts_total: int = 0
    error_code: str | None = None
    error_message: str | None = None
    final_output: Ref | None = None

    #: the job's total time cap; moved on by what the job is PAUSED
    deadline_at: datetime | None = None
    first_ack_at: datetime | None = None
    #: counts the times the job was parked; names the event that wakes its orchestration
    park_no: int = 0
    paused_at: datetime | None = None
    #: PAUSED only: since when nothing has been in flight
    drained_at: datetime | None = None

    #: the job that this one took up again
    redrive_of: str | None = None
    #: the first job of the chain of redrives; None: the job is not a redrive
    first_job_id: str | None = None
    #: the job that took this one up again
    redriven_by: str | None = None

    #: the job whose steps this one runs again, and why (`shared.core.jobs.replay.ReplayMode`)
    replay_of: str | None = None
    replay_mode: str | None = None

    #: the head of the EVENT rows
    event_seq: int = 0
    event_hash: str = ""
    #: ignored replies; past the limit they are counted here only
    suppressed: int = 0

    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None

    @property
    def is_staged(self) -> bool:
        """Returns whether the job is not admitted yet: it has no orchestration, and none of its steps has begun."""
        return self.staged_at is not None and self.admitted_at is None

    @property
    def current_priority(self) -> str:
        """Returns the priority with which it waits (R67). `priority` keeps the value of the creation, so that the
        history can be verified.
        """
        return self.changed_priority or self.priority

    @property
    def is_dependent(self) -> bool:
        """Jobs that it depends on may not have ended, or one of them did not succeed."""
        return self.dependencies is not None and self.dependencies_settled_at is None


_Row = TypeVar("_Row")


def with_columns(row: _Row, **columns: Any) -> _Row:
    """Returns a copy of a frozen row with other columns. `dataclasses.replace` takes thirty times as long."""
    assert columns.keys() <= vars(row).keys(), columns.keys()
    copy = object.__new__(type(row))
    vars(copy).update(vars(row), **columns)
    return copy


@dataclass(frozen=True)
class Record:
    """A job with its steps: read in one query, changed in one transaction (R1)."""

    job: Job
    steps: tuple[Step, ...]
    #: rows of the transition tables that led here since the record was read, as `step:ocr INITIATED ACK`
    applied: tuple[str, ...] = field(default=(), compare=False)

    def step(self, step_id: str) -> Step | None:
        return next((step for step in self.steps if step.step_id == step_id), None)

    def with_step(self, changed: Step) -> Record:
        steps = tuple(changed if step.step_id == changed.step_id else step for step in self.steps)
        return with_columns(self, steps=steps)

    def with_job(self, **changes: Any) -> Record:
        return with_columns(self, job=with_columns(self.job, **changes))

    def with_applied(self, row: str) -> Record:
        return with_columns(self, applied=(*self.applied, row))

    def cap_of(self, step: Step) -> datetime | None:
        """Returns the earlier of the step's and the job's total time limits. None: no limit."""
        caps = [cap for cap in (step.deadline_at, self.job.deadline_at) if cap is not None]
        return min(caps, default=None)

    def group_of(self, step: Step) -> tuple[Step, ...]:
        """Returns the steps that run at the same time as `step`, including itself."""
        if step.group is None:
            return (step,)
        return tuple(other for other in self.steps if other.group == step.group)

    def before(self, step: Step) -> tuple[Step, ...]:
        """Returns the step, or the steps of the group, that ran just before `step` and its group. Empty for the
        first.
        """
        first = self.group_of(step)[0]
        return self.group_of(self.steps[first.step_index - 1]) if first.step_index else ()

    def after(self, step: Step) -> Step | None:
        """Returns the step after `step` and its group if that one runs alone. None: a group follows, or nothing."""
        following = self.steps[self.group_of(step)[-1].step_index + 1 :][:1]
        return next((other for other in following if other.group is None), None)

    @property
    def last(self) -> tuple[Step, ...]:
        """Returns the steps whose results are the job's: the last one, or those of the last group."""
        return self.group_of(self.steps[-1])

    def instance_of(self, step: Step) -> str:
        """Returns the id of the orchestration that waits for the step's replies: the job's, or in a group the step's
        own.
        """
        return self.job.instance_id if step.group is None else group_instance_id(self.job.instance_id, step.step_index)

    @property
    def open_steps(self) -> tuple[Step, ...]:
        """Returns the current steps: the first unsettled step, with the unsettled ones of its group."""
        first = next((step for step in self.steps if step.status is not StepStatus.SUCCEEDED), None)
        if first is None:
            return ()
        return tuple(step for step in self.group_of(first) if step.status is not StepStatus.SUCCEEDED)

    @property
    def in_flight(self) -> bool:
        return any(step.status.in_flight for step in self.steps)


#: the column that only the service which runs the attempt may know
SECRET = "lease_id"
#: columns that no history or bundle has: that one, addresses that may hold credentials (their digest is in
#: `callback_digest`), and a bare count
HIDDEN = frozenset({SECRET, "callback_targets", "heartbeats"})
#: columns that no EVENT's `changes` name: the EVENT has them itself, they move without one, or they are a secret
UNTOLD = HIDDEN | {"updated_at", "event_seq", "event_hash", "backlog_until", "gated_until", "gated_by"}


@dataclass(frozen=True, kw_only=True)
class Event:
    """One EVENT row: what happened, gapless and hash-chained."""

    job_id: str
    seq: int
    type: str
    step_id: str | None
    attempt_no: int | None
    lease_digest: str | None
    from_status: str | None
    to_status: str | None
    job_from: str | None
    job_to: str
    #: `system`, `service:<step type>` or the caller
    actor: str
    #: http, bus, dispatch, settle, sweeper
    source: str
    reason: str | None
    at: datetime
    data: JsonValue
    #: 128 random bits in hex, so that no reader can guess `data` by its digest where it is withheld
    salt: str
    #: what made it happen: a message id and sequence number, an activity key, a request id
    cause_id: str
    #: which rules decided it (`shared.core.jobs.history.RULES`)
    rules: int
    prev_hash: str
    hash: str
