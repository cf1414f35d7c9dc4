"""JOB and STEP rows as values, and properties derived from them."""

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
    """The timings of a step in seconds, fixed when the job is created."""

    ack_timeout_s: float
    #: duration of the lease without a declared cadence; the ACK starts the lease and a recorded heartbeat restarts it
    lease_s: float
    #: declared interval of heartbeats; None if neither the protocol nor a pack's payload declares one
    heartbeat_cadence_s: float | None
    max_attempts: int
    dispatch_backoffs: tuple[float, ...]
    ack_backoffs: tuple[float, ...]
    execution_backoffs: tuple[float, ...]
    #: maximum duration of an attempt from its ACK on; None means no limit
    attempt_max_s: float | None = None
    #: maximum duration of the step with all attempts; None means no limit
    total_timeout_s: float | None = None

    @property
    def running_lease_s(self) -> float:
        """Returns the duration of a lease in seconds. With a declared cadence, the lease ends after two missed
        heartbeats.
        """
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
    #: number of its parallel group; None if it is in no group
    group: int | None = None

    #: number of the lane, fixed at POST
    lane: int
    routing_key_used: str
    resolved_mode: str
    decision_source: str
    decision_reason: str

    #: number of the current attempt; 0: none yet
    attempt_no: int = 0
    #: secret of the directive that authorizes replies to the current attempt; other readers see its digest
    lease_id: str | None = None
    lease_digest: str | None = None
    lease_expires_at: datetime | None = None
    #: time when the current attempt was recorded
    initiated_at: datetime | None = None
    #: start of a backlog of the bus that explains why the attempt is silent
    backlog_since: datetime | None = None
    #: end of the wait for that backlog, when it is checked again. It moves without an EVENT row, so that a long backlog
    #: does not fill the history
    backlog_until: datetime | None = None
    #: start of the wait for a dispatch limit of its service or lane; any other transition of the step clears these
    #: columns
    gated_since: datetime | None = None
    #: time of the next check of the dispatch limit, and its name at the last check; both change without an EVENT row
    gated_until: datetime | None = None
    gated_by: str | None = None
    #: maximum end of the current attempt, which its service cannot extend; None if no service has acknowledged it
    attempt_deadline_at: datetime | None = None
    #: end of the step's total time, which starts with its first attempt; a resume adds the PAUSED time
    deadline_at: datetime | None = None
    #: earliest time of the next attempt (FAILED_RETRY) or of the next dispatch (INITIATED)
    due_at: datetime | None = None
    #: cause of the last attempt's end, if the step then became FAILED_RETRY; a late reply or the next attempt clears it
    retry_cause: FailureCause | None = None
    #: number of failures of this step by cause; each number selects the next backoff
    ack_failures: int = 0
    execution_failures: int = 0
    #: number of publish faults of the current attempt; they use no attempt
    publish_failures: int = 0

    input_ref: Ref | None = None
    workspace_ref: Ref | None = None
    output_ref: Ref | None = None
    result_ref: Ref | None = None
    #: other content of the current attempt's RESULT: `shared.contracts.messages.RESULT_CONTENT`
    result: Mapping[str, JsonValue] | None = None
    #: `True` if the step SUCCEEDED in the job that this one redrives (`redrive_of`), and did not run here
    carried: bool = False
    last_error_code: str | None = None
    last_error_message: str | None = None
    progress: JsonValue = None
    #: number of heartbeats, of all attempts, that were recorded while the step was PROCESSING
    heartbeats: int = 0

    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None

    @property
    def silent_until(self) -> datetime | None:
        """Returns the time at which an attempt in flight counts as silent, or None before the first attempt.

        The time is the end of the attempt's lease, or later while a backlog of the bus explains the silence.
        """
        ends = [end for end in (self.lease_expires_at, self.backlog_until) if end is not None]
        return max(ends, default=None)

    @property
    def sent_at(self) -> datetime:
        """Returns the approximate time when the current attempt was last sent or will be sent.

        The lease of an INITIATED attempt begins at that time.
        """
        began = self.initiated_at or self.created_at
        if self.lease_expires_at is None:
            return began
        return max(began, self.lease_expires_at - timedelta(seconds=self.timings.ack_timeout_s))

    @property
    def next_input(self) -> Ref | None:
        """Returns the input of the next step: the result, or the whole workspace if the RESULT has no reference.
        Returns None before the first attempt.
        """
        return self.result_ref or self.workspace_ref

    @property
    def owes_publish(self) -> bool:
        """Returns `True` if the step is in a publish backoff: the bus did not accept the directive, so LUCIUS will send
        it again.
        """
        return self.status is StepStatus.INITIATED and self.due_at is not None

    def attempt_is_over(self, at: datetime) -> bool:
        """Returns `True` if the maximum duration of the current attempt is over at `at`."""
        return self.attempt_deadline_at is not None and self.attempt_deadline_at <= at


@dataclass(frozen=True, kw_only=True)
class Job:
    """The JOB row."""

    job_id: str
    #: tenant id as the caller wrote it
    tenant_id: str
    #: tenant id, trimmed and in lower case, for keys, routing, idempotency records and comparison
    tenant: str
    protocol_id: str
    protocol_version: int
    #: SHA-256 of the protocol's canonical JSON
    protocol_digest: str
    request_type: str
    schema_version: str
    mode: str
    status: JobStatus
    #: id of the orchestration that may move this job; every other one is fenced off
    instance_id: str
    #: number of its orchestrations that ended before the job did
    orchestration_failures: int = 0

    idempotency_key: str | None = None
    #: RowKey of the idempotency record, without its prefix
    idempotency_hash: str
    body_hash: str
    payload_digest: str
    input_ref: Ref
    output_ref: Ref
    #: URI of the tenant's folder in the workspace
    workspace_base: str

    doc_id: str | None = None
    correlation_id: str
    traceparent: str | None = None
    priority: str = "normal"
    labels: Mapping[str, str]
    #: scheme, host and port of each callback URL, by name; the rest of a URL may be a credential
    callback_urls: Mapping[str, str]
    #: `sha256:` of the canonical JSON (RFC 8785) of `callback_targets`; None means no callback URLs
    callback_digest: str | None = None
    #: complete callback URLs by name, used for deliveries only
    callback_targets: Mapping[str, str] | None = None
    requested_by: str | None = None
    requested_at: datetime
    source: str | None = None

    #: time when it started to wait for its quotas or for other jobs; None if it never waited
    staged_at: datetime | None = None
    #: time of its admission after a wait; None if it did not wait, or is not admitted
    admitted_at: datetime | None = None
    #: total time in seconds from the admission on, for a staged job
    total_time_s: float | None = None

    #: ids of the jobs that must end before it begins; None means no dependencies
    dependencies: list[str] | None = None
    #: action if a dependency does not succeed: `fail` or `run`
    on_dependency_failure: str = "fail"
    #: time when JOB recorded that all dependencies had ended with the required results
    dependencies_settled_at: datetime | None = None
    #: `True` if another job waits for its end
    awaited: bool = False
    #: time until which the job must have begun; None means no limit
    expires_at: datetime | None = None
    #: priority that a caller set while the job waited; None if unchanged
    changed_priority: str | None = None
    #: codes of failures that open an incident; None means the defaults (`shared.core.incidents.ESCALATED`)
    escalate: list[str] | None = None

    current_step_id: str
    current_step_index: int = 0
    attempts_total: int = 0
    error_code: str | None = None
    error_message: str | None = None
    final_output: Ref | None = None

    #: end of the job's total time; a resume adds the PAUSED time
    deadline_at: datetime | None = None
    first_ack_at: datetime | None = None
    #: number of pauses of the job; part of the name of the event that wakes its orchestration
    park_no: int = 0
    paused_at: datetime | None = None
    #: time since which nothing is in flight, for PAUSED only
    drained_at: datetime | None = None

    #: id of the job that this one redrives
    redrive_of: str | None = None
    #: id of the first job in the chain of redrives; None if the job is not a redrive
    first_job_id: str | None = None
    #: id of the job that redrives this one
    redriven_by: str | None = None

    #: id of the job that this one replays, and the purpose (`shared.core.jobs.replay.ReplayMode`)
    replay_of: str | None = None
    replay_mode: str | None = None

    #: number and hash of the last EVENT row
    event_seq: int = 0
    event_hash: str = ""
    #: number of ignored replies; the first `shared.core.jobs.replies.MAX_IGNORED_EVENTS` also have an EVENT row
    suppressed: int = 0

    created_at: datetime
    updated_at: datetime
    completed_at: datetime | None = None

    @property
    def is_staged(self) -> bool:
        """Returns `True` if the job is not admitted yet: it has no orchestration, and none of its steps has begun."""
        return self.staged_at is not None and self.admitted_at is None

    @property
    def current_priority(self) -> str:
        """Returns the priority with which the job waits (R67). `priority` stays as created, so that the history can be
        verified.
        """
        return self.changed_priority or self.priority

    @property
    def is_dependent(self) -> bool:
        """Returns `True` if the job has dependencies, and JOB does not record that all ended with the results that the
        job requires.
        """
        return self.dependencies is not None and self.dependencies_settled_at is None


_Row = TypeVar("_Row")


def with_columns(row: _Row, **columns: Any) -> _Row:
    """Returns a copy of a frozen row with other columns, several times faster than `dataclasses.replace`."""
    assert columns.keys() <= vars(row).keys(), columns.keys()
    copy = object.__new__(type(row))
    vars(copy).update(vars(row), **columns)
    return copy


@dataclass(frozen=True)
class Record:
    """A job with its steps: read in one query, changed in one transaction (R1)."""

    job: Job
    steps: tuple[Step, ...]
    #: names of the transitions since the record was read, such as `step:ocr INITIATED ACK`
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
        """Returns the earlier end of the step's and the job's total time. None means no limit."""
        caps = [cap for cap in (step.deadline_at, self.job.deadline_at) if cap is not None]
        return min(caps, default=None)

    def group_of(self, step: Step) -> tuple[Step, ...]:
        """Returns the steps that run at the same time as `step`, including `step`."""
        if step.group is None:
            return (step,)
        return tuple(other for other in self.steps if other.group == step.group)

    def before(self, step: Step) -> tuple[Step, ...]:
        """Returns the step or group that ran immediately before the step and its group. Returns no steps for the first
        step or group.
        """
        first = self.group_of(step)[0]
        return self.group_of(self.steps[first.step_index - 1]) if first.step_index else ()

    def after(self, step: Step) -> Step | None:
        """Returns the step that follows `step` and the group of `step`. Returns None if the following step is in a
        group, and for the last step.
        """
        following = self.steps[self.group_of(step)[-1].step_index + 1 :][:1]
        return next((other for other in following if other.group is None), None)

    @property
    def last(self) -> tuple[Step, ...]:
        """Returns the steps whose results are the job's results: the last step, or the steps of the last group."""
        return self.group_of(self.steps[-1])

    def instance_of(self, step: Step) -> str:
        """Returns the id of the orchestration that waits for the step's replies: the step's own in a group, else the
        job's.
        """
        return self.job.instance_id if step.group is None else group_instance_id(self.job.instance_id, step.step_index)

    @property
    def open_steps(self) -> tuple[Step, ...]:
        """Returns the current steps: the first step that has not SUCCEEDED, with the other such steps of its group."""
        first = next((step for step in self.steps if step.status is not StepStatus.SUCCEEDED), None)
        if first is None:
            return ()
        return tuple(step for step in self.group_of(first) if step.status is not StepStatus.SUCCEEDED)

    @property
    def in_flight(self) -> bool:
        return any(step.status.in_flight for step in self.steps)


#: column that only LUCIUS and the service of the attempt may know
SECRET = "lease_id"
#: columns that no history or bundle has: the secret, URLs that may have credentials (`callback_digest` has their
#: digest), and a count without history
HIDDEN = frozenset({SECRET, "callback_targets", "heartbeats"})
#: columns that no EVENT's `changes` name: columns of the EVENT itself, columns that change without an EVENT, and
#: secrets
UNTOLD = HIDDEN | {"updated_at", "event_seq", "event_hash", "backlog_until", "gated_until", "gated_by"}


@dataclass(frozen=True, kw_only=True)
class Event:
    """An EVENT row: one occurrence, numbered without gaps and hash-chained."""

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
    #: `system`, `service:<service>`, or the caller; `service` if a reply from the bus lacks the attempt's lease
    actor: str
    #: channel, such as `http`, `bus`, `callback`, `dispatch`, `settle`, `gates` or `sweeper`
    source: str
    reason: str | None
    at: datetime
    data: JsonValue
    #: 128 random bits in hex, so that a reader cannot guess withheld `data` from its digest
    salt: str
    #: id of the cause, for example a message id and sequence number, or an activity key
    cause_id: str
    #: version of the rules that decided it (`shared.core.jobs.history.RULES`)
    rules: int
    prev_hash: str
    hash: str
