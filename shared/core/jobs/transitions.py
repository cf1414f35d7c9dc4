"""Every transition of a job and of a step: two literal tables, and the functions that apply a row of them.

A job and its steps are two state machines that change together. The keys of a table are the states. Each row of a state
has a trigger, a target state and a rule (docs/contributing/rules.md).

Terminal states have no rows. A missing row means "ignored" for a message of a service (at most an EVENT row). For a
request of a caller or a function, a missing row means "refused".

The machines are coupled in these ways:

- `move_step` applies a step's trigger and `move_job` the job's. Both note the row that they used in `Record.applied`,
  and `shared.core.jobs.outcome.make_transition` writes those rows into the EVENT row. So `explain` and the audit cite
  the rows that decided, not rows that look alike.
- One occurrence can trigger a job twice: a RESULT that overtakes its ACK is ACKED, then STEP_SUCCEEDED.
- The steps in flight decide the trigger of a control: CANCEL and PAUSE if a step is in flight, CANCEL_IDLE and
  PAUSE_IDLE if none is. For a cancel, a step whose directive the bus did not accept is not in flight (R11).
- RESUME_WAITING and RESUME_STAGED apply if the job never began, RESUME_ACKED if a service has ACKed it before, else
  RESUME_UNACKED (`shared.core.jobs.controls`).
- When a step ends, the other steps decide the job's trigger: LAST_STEP_SUCCEEDED if all have succeeded. The trigger is
  SIBLINGS_IN_FLIGHT if steps of the same parallel group are in flight, so that the group continues (R12). Else it is
  STEP_SUCCEEDED, STEP_FAILED_RETRY or STEP_FAILED_FINAL (`shared.core.jobs.attempts`, `shared.core.jobs.replies`).
- A final failure ends the job with STEP_FAILED_FINAL and cancels the steps that are in flight or FAILED_RETRY. Only a
  CANCELLING job first waits for the steps in flight, with SIBLINGS_IN_FLIGHT.
- `move_job` applies the effects of a new state, and no other function does. PAUSED counts a pause and stops the job's
  clocks. A terminal state sets `completed_at`. CANCELLED cancels every step that has not ended.
- In `move_step`, every transition of a step but GATED ends the step's wait for a dispatch limit.

The diagrams in the docs are generated from these tables. A test removes or changes each row. The core must then differ
from the model of the tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from shared.core.jobs.history import Provenance
from shared.core.jobs.job import Record, Step, with_columns
from shared.core.jobs.states import JobStatus, StepStatus


class TargetState(NamedTuple):
    """The target state of a transition, and its rule: an id of docs/contributing/rules.md, then a description."""

    to: str
    source: str


class StepTrigger(StrEnum):
    """The triggers of a step's transitions."""

    RECORD = "RECORD"
    RENEW = "RENEW"
    LANE_BACKLOG = "LANE_BACKLOG"
    GATED = "GATED"
    ACK = "ACK"
    HEARTBEAT = "HEARTBEAT"
    SUCCEED = "SUCCEED"
    FAIL_RETRY = "FAIL_RETRY"
    FAIL_FINAL = "FAIL_FINAL"
    CANCEL = "CANCEL"


class JobTrigger(StrEnum):
    """The triggers of a job's transitions. A name with `_IDLE` applies if no step is in flight."""

    DEPENDENCIES_SETTLED = "DEPENDENCIES_SETTLED"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    ADMITTED = "ADMITTED"
    EXPIRED = "EXPIRED"
    ATTEMPT_RECORDED = "ATTEMPT_RECORDED"
    ACKED = "ACKED"
    STEP_SUCCEEDED = "STEP_SUCCEEDED"
    LAST_STEP_SUCCEEDED = "LAST_STEP_SUCCEEDED"
    STEP_FAILED_RETRY = "STEP_FAILED_RETRY"
    STEP_FAILED_FINAL = "STEP_FAILED_FINAL"
    #: a step of a parallel group ended while others of the group are in flight
    SIBLINGS_IN_FLIGHT = "SIBLINGS_IN_FLIGHT"
    CANCEL = "CANCEL"
    CANCEL_IDLE = "CANCEL_IDLE"
    PAUSE = "PAUSE"
    PAUSE_IDLE = "PAUSE_IDLE"
    RESUME_UNACKED = "RESUME_UNACKED"
    RESUME_ACKED = "RESUME_ACKED"
    #: resume of a job that waits for its quotas
    RESUME_STAGED = "RESUME_STAGED"
    #: resume of a job that waits for other jobs
    RESUME_WAITING = "RESUME_WAITING"
    RESTART = "RESTART"
    ORCHESTRATION_FAILED = "ORCHESTRATION_FAILED"


_S, _T = StepStatus, StepTrigger

STEP_TABLE: Mapping[StepStatus, Mapping[StepTrigger, TargetState]] = {
    _S.PENDING: {
        _T.FAIL_FINAL: TargetState(
            _S.FAILED_FINAL, "R10: the job reached its maximum total time before the step started"
        ),
        _T.GATED: TargetState(_S.PENDING, "R56: a dispatch limit of the service or lane delays the step"),
        _T.RECORD: TargetState(_S.INITIATED, "R4: LUCIUS recorded the attempt and its lease"),
        _T.CANCEL: TargetState(_S.CANCELLED, "R11: a cancelled job cancels its unfinished steps"),
    },
    _S.INITIATED: {
        _T.LANE_BACKLOG: TargetState(
            _S.INITIATED, "R8: the directive or a reply can wait on the lane, or LUCIUS cannot read the lane"
        ),
        _T.RENEW: TargetState(_S.INITIATED, "R4: LUCIUS publishes the recorded attempt late or again"),
        _T.ACK: TargetState(_S.PROCESSING, "R5: a service acknowledged the attempt"),
        _T.HEARTBEAT: TargetState(_S.PROCESSING, "R6: a heartbeat before the ACK counts as the ACK"),
        _T.SUCCEED: TargetState(_S.SUCCEEDED, "R6: a RESULT can arrive before the ACK"),
        _T.FAIL_RETRY: TargetState(
            _S.FAILED_RETRY, "R8: ACK timeout, or a retryable RESULT before the ACK; attempts remain"
        ),
        _T.FAIL_FINAL: TargetState(
            _S.FAILED_FINAL,
            "R8: the failure is final, no attempts or no time remain, or Service Bus refused the directive",
        ),
        _T.CANCEL: TargetState(
            _S.CANCELLED,
            "R11: the directive was never sent, another step of the group failed, or the orchestration failed",
        ),
    },
    _S.PROCESSING: {
        _T.LANE_BACKLOG: TargetState(
            _S.PROCESSING, "R8: unread replies on the lane can contain the RESULT, or LUCIUS cannot read the lane"
        ),
        _T.HEARTBEAT: TargetState(_S.PROCESSING, "R5: a heartbeat renews the lease"),
        _T.SUCCEED: TargetState(_S.SUCCEEDED, "R6: the first RESULT of an attempt is final"),
        _T.FAIL_RETRY: TargetState(_S.FAILED_RETRY, "R8: a retryable RESULT, or the lease expired; attempts remain"),
        _T.FAIL_FINAL: TargetState(_S.FAILED_FINAL, "R8: the failure is final, or no attempts or no time remain"),
        _T.CANCEL: TargetState(_S.CANCELLED, "R12: another step of the group failed, or the orchestration failed"),
    },
    _S.FAILED_RETRY: {
        _T.GATED: TargetState(_S.FAILED_RETRY, "R56: a dispatch limit of the service or lane delays the step"),
        _T.RECORD: TargetState(_S.INITIATED, "R4: the next attempt, with a new lease"),
        _T.ACK: TargetState(_S.PROCESSING, "R7: the service replied after the attempt timed out"),
        _T.HEARTBEAT: TargetState(_S.PROCESSING, "R7: the service replied after the attempt timed out"),
        _T.SUCCEED: TargetState(_S.SUCCEEDED, "R7: the RESULT arrived after the attempt timed out"),
        _T.FAIL_RETRY: TargetState(_S.FAILED_RETRY, "R7: a retryable RESULT arrived after the attempt timed out"),
        _T.FAIL_FINAL: TargetState(
            _S.FAILED_FINAL, "R7: a RESULT arrived after the attempt timed out, or no time remains"
        ),
        _T.CANCEL: TargetState(
            _S.CANCELLED, "R11: the job was cancelled, another step of the group failed, or the orchestration failed"
        ),
    },
    _S.SUCCEEDED: {},
    _S.FAILED_FINAL: {},
    _S.CANCELLED: {},
}

_J, _E = JobStatus, JobTrigger

#: the states in which a job is created, by name. The first EVENT row of the first three is JOB_CREATED
JOB_CREATION: Mapping[str, TargetState] = {
    "JOB_CREATED": TargetState(_J.QUEUED, "R15: LUCIUS wrote the idempotency record first, then the rows"),
    "JOB_STAGED": TargetState(_J.THROTTLED, "R48: a quota does not admit the job, or earlier jobs wait"),
    "JOB_DEPENDENT": TargetState(_J.WAITING_FOR_JOBS, "R53: the job depends on other jobs"),
    "JOB_WITHDRAWN": TargetState(_J.CANCELLED, "R14: LUCIUS withdrew the job because its creation did not finish"),
}

JOB_TABLE: Mapping[JobStatus, Mapping[JobTrigger, TargetState]] = {
    _J.WAITING_FOR_JOBS: {
        _E.DEPENDENCIES_SETTLED: TargetState(
            _J.THROTTLED, "R53: all dependencies ended; the job enters its waiting queue"
        ),
        _E.DEPENDENCY_FAILED: TargetState(_J.FAILED_FINAL, "R53: a dependency did not succeed"),
        _E.CANCEL_IDLE: TargetState(_J.CANCELLED, "R11: no attempt is in flight"),
        _E.PAUSE_IDLE: TargetState(_J.PAUSED, "R53: LUCIUS still counts the dependencies that end"),
        _E.EXPIRED: TargetState(_J.FAILED_FINAL, "R53: the job did not start before `expires_at`"),
    },
    _J.THROTTLED: {
        _E.EXPIRED: TargetState(_J.FAILED_FINAL, "R53: the job did not start before `expires_at`"),
        _E.ADMITTED: TargetState(_J.QUEUED, "R48: all quotas of the job admit it, or an operator admitted it"),
        _E.CANCEL_IDLE: TargetState(_J.CANCELLED, "R11: no attempt is in flight"),
        _E.PAUSE_IDLE: TargetState(_J.PAUSED, "R49: the job leaves its waiting queue and keeps its age"),
    },
    _J.QUEUED: {
        _E.ATTEMPT_RECORDED: TargetState(_J.QUEUED, "R4: the job is QUEUED until the first ACK"),
        _E.ACKED: TargetState(_J.IN_PROGRESS, "R5: the first ACK, or another reply that arrived first"),
        _E.STEP_FAILED_RETRY: TargetState(_J.QUEUED, "R8: another attempt follows"),
        _E.STEP_FAILED_FINAL: TargetState(_J.FAILED_FINAL, "R8: a step failed permanently"),
        _E.CANCEL: TargetState(_J.CANCELLING, "R11: the attempt in flight can still end"),
        _E.CANCEL_IDLE: TargetState(
            _J.CANCELLED, "R11: no attempt is in flight, or Service Bus did not accept its directive"
        ),
        _E.PAUSE: TargetState(_J.PAUSING, "R11: the job pauses when the attempt in flight ends"),
        _E.PAUSE_IDLE: TargetState(_J.PAUSED, "R11: no attempt is in flight"),
        _E.RESTART: TargetState(_J.QUEUED, "R18: the orchestration ended before the job, or ignored its checks"),
        _E.ORCHESTRATION_FAILED: TargetState(_J.FAILED_FINAL, "R18: the maximum of five restarts is reached"),
        _E.SIBLINGS_IN_FLIGHT: TargetState(_J.QUEUED, "R12: other steps of the parallel group are in flight"),
    },
    _J.IN_PROGRESS: {
        _E.ATTEMPT_RECORDED: TargetState(_J.IN_PROGRESS, "R4: the next step, or the next attempt"),
        _E.ACKED: TargetState(_J.IN_PROGRESS, "R5: the job is already in progress"),
        _E.STEP_SUCCEEDED: TargetState(_J.IN_PROGRESS, "R6: another step follows"),
        _E.LAST_STEP_SUCCEEDED: TargetState(_J.SUCCEEDED, "R6: every step has succeeded"),
        _E.STEP_FAILED_RETRY: TargetState(_J.IN_PROGRESS, "R8: another attempt follows"),
        _E.STEP_FAILED_FINAL: TargetState(_J.FAILED_FINAL, "R8: a step failed permanently"),
        _E.CANCEL: TargetState(_J.CANCELLING, "R11: the attempt in flight can still end"),
        _E.CANCEL_IDLE: TargetState(
            _J.CANCELLED, "R11: no attempt is in flight, or Service Bus did not accept its directive"
        ),
        _E.PAUSE: TargetState(_J.PAUSING, "R11: the job pauses when the attempt in flight ends"),
        _E.PAUSE_IDLE: TargetState(_J.PAUSED, "R11: no attempt is in flight"),
        _E.RESTART: TargetState(_J.IN_PROGRESS, "R18: the orchestration ended before the job, or ignored its checks"),
        _E.ORCHESTRATION_FAILED: TargetState(_J.FAILED_FINAL, "R18: the maximum of five restarts is reached"),
        _E.SIBLINGS_IN_FLIGHT: TargetState(_J.IN_PROGRESS, "R12: other steps of the parallel group are in flight"),
    },
    _J.PAUSING: {
        _E.ACKED: TargetState(_J.PAUSING, "R11: only the step changes"),
        _E.STEP_SUCCEEDED: TargetState(_J.PAUSED, "R11: the attempt in flight ended"),
        _E.LAST_STEP_SUCCEEDED: TargetState(_J.SUCCEEDED, "R6: the last step succeeded"),
        _E.STEP_FAILED_RETRY: TargetState(_J.PAUSED, "R11: the next attempt starts after a resume"),
        _E.STEP_FAILED_FINAL: TargetState(_J.FAILED_FINAL, "R8: a step failed permanently"),
        _E.CANCEL: TargetState(_J.CANCELLING, "R11: a cancel overrides a pause"),
        _E.CANCEL_IDLE: TargetState(
            _J.CANCELLED, "R11: Service Bus did not accept the directive of the attempt in flight"
        ),
        _E.PAUSE: TargetState(_J.PAUSING, "R11: idempotent; a repeated request changes nothing"),
        _E.RESUME_UNACKED: TargetState(_J.QUEUED, "R11: a resume revokes the pause"),
        _E.RESUME_ACKED: TargetState(_J.IN_PROGRESS, "R11: a resume revokes the pause"),
        _E.RESTART: TargetState(_J.PAUSING, "R18: the orchestration ended before the job, or ignored its checks"),
        _E.ORCHESTRATION_FAILED: TargetState(_J.FAILED_FINAL, "R18: the maximum of five restarts is reached"),
        _E.SIBLINGS_IN_FLIGHT: TargetState(_J.PAUSING, "R12: the job pauses when the last attempt in flight ends"),
    },
    _J.PAUSED: {
        _E.ACKED: TargetState(_J.PAUSED, "R7: a RESULT arrived while the job was paused"),
        _E.STEP_SUCCEEDED: TargetState(_J.PAUSED, "R7: a RESULT arrived while the job was paused"),
        _E.LAST_STEP_SUCCEEDED: TargetState(
            _J.SUCCEEDED, "R7: the RESULT of the last step arrived while the job was paused"
        ),
        _E.STEP_FAILED_RETRY: TargetState(_J.PAUSED, "R7: a RESULT arrived while the job was paused"),
        _E.STEP_FAILED_FINAL: TargetState(_J.FAILED_FINAL, "R7: a RESULT arrived while the job was paused"),
        _E.CANCEL_IDLE: TargetState(_J.CANCELLED, "R11: no attempt is in flight"),
        _E.PAUSE_IDLE: TargetState(_J.PAUSED, "R11: idempotent; a repeated request changes nothing"),
        _E.RESUME_UNACKED: TargetState(_J.QUEUED, "R11: `first_ack_at` is not set"),
        _E.RESUME_ACKED: TargetState(_J.IN_PROGRESS, "R11: `first_ack_at` is set"),
        _E.RESUME_STAGED: TargetState(_J.THROTTLED, "R49: the job enters its waiting queue at the position of its age"),
        _E.RESUME_WAITING: TargetState(_J.WAITING_FOR_JOBS, "R53: a dependency of the job can still be unfinished"),
        _E.EXPIRED: TargetState(_J.FAILED_FINAL, "R53: the job did not start before `expires_at`"),
        _E.RESTART: TargetState(_J.PAUSED, "R18: the orchestration ended before the job, or ignored its checks"),
        _E.ORCHESTRATION_FAILED: TargetState(_J.FAILED_FINAL, "R18: the maximum of five restarts is reached"),
    },
    _J.CANCELLING: {
        _E.ACKED: TargetState(_J.CANCELLING, "R11: only the step changes"),
        _E.STEP_SUCCEEDED: TargetState(_J.CANCELLED, "R11: the attempt in flight ended"),
        _E.LAST_STEP_SUCCEEDED: TargetState(_J.CANCELLED, "R11: the attempt in flight ended"),
        _E.STEP_FAILED_RETRY: TargetState(_J.CANCELLED, "R11: the attempt in flight ended"),
        _E.STEP_FAILED_FINAL: TargetState(_J.CANCELLED, "R11: the attempt in flight ended"),
        _E.CANCEL: TargetState(_J.CANCELLING, "R11: idempotent; a repeated request changes nothing"),
        _E.RESTART: TargetState(_J.CANCELLING, "R18: the orchestration ended before the job, or ignored its checks"),
        _E.ORCHESTRATION_FAILED: TargetState(
            _J.CANCELLED, "R18: the maximum of five restarts is reached, and a cancel was requested"
        ),
        _E.SIBLINGS_IN_FLIGHT: TargetState(
            _J.CANCELLING, "R12: LUCIUS cancels the job when the last attempt in flight ends"
        ),
    },
    _J.SUCCEEDED: {},
    _J.FAILED_FINAL: {},
    _J.CANCELLED: {},
}


class NoSuchTransition(Exception):
    """The table has no row for this trigger in this state."""

    def __init__(self, state: str, trigger: str) -> None:
        super().__init__(f"no transition for trigger {trigger} in state {state}")
        self.state = state
        self.trigger = trigger


def move_step(record: Record, step: Step, trigger: StepTrigger, provenance: Provenance, **columns: Any) -> Record:
    """Returns the record with `step` after `trigger` and with the given columns. Raises NoSuchTransition.

    `step` may be newer than the step in `record`.
    """
    row = STEP_TABLE[step.status].get(trigger)
    if row is None:
        raise NoSuchTransition(step.status, trigger)
    status = StepStatus(row.to)
    completed_at = provenance.at if status.terminal else None
    if trigger is not StepTrigger.GATED and step.gated_since is not None:
        columns |= {"gated_since": None, "gated_until": None, "gated_by": None}
    changed = with_columns(step, status=status, updated_at=provenance.at, completed_at=completed_at, **columns)
    return record.with_step(changed).with_applied(f"step:{step.step_id} {step.status} {trigger}")


def move_job(record: Record, trigger: JobTrigger, provenance: Provenance, **columns: Any) -> Record:
    """Returns the record with its job after `trigger`, and with the effects of the new state. Raises
    NoSuchTransition.
    """
    job = record.job
    row = JOB_TABLE[job.status].get(trigger)
    if row is None:
        raise NoSuchTransition(job.status, trigger)
    status = JobStatus(row.to)
    record = record.with_job(status=status, **columns).with_applied(f"job {job.status} {trigger}")
    if status is JobStatus.PAUSED and job.status is not JobStatus.PAUSED:
        record = record.with_job(park_no=job.park_no + 1, paused_at=provenance.at, drained_at=provenance.at)
    if status.terminal:
        record = record.with_job(completed_at=provenance.at, paused_at=None, drained_at=None)
    if status is JobStatus.CANCELLED:
        for step in record.steps:
            if not step.status.terminal:
                record = move_step(record, step, StepTrigger.CANCEL, provenance)
    return record


def cancel_in_flight(record: Record, provenance: Provenance) -> Record:
    """Cancels the steps of a job that ends, if they are in flight or FAILED_RETRY. Other steps keep their states."""
    for step in record.steps:
        if step.status.in_flight or step.status is StepStatus.FAILED_RETRY:
            record = move_step(record, step, StepTrigger.CANCEL, provenance)
    return record
