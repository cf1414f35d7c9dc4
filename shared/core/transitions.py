"""Every move a job or a step can make, in two literal tables.

A state is a key, terminal states have no rows, and each row names the rule that it comes from. What is not in a
table does not happen: `shared.core.decide` turns a missing row into "ignored" for what others send (it becomes an
EVENT row and changes nothing else) and into a refusal for what is asked of us (controls, recording an attempt).

One occurrence can be two events for a job: a RESULT that overtakes its ACK is ACKED and then STEP_SUCCEEDED.
The diagrams in the docs are generated from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from shared.core.states import JobStatus, StepStatus


class Row(NamedTuple):
    """Where an event leads, and the rule that says so."""

    to: str
    source: str


class StepTrigger(StrEnum):
    """What happens to a step."""

    RECORD = "RECORD"
    RENEW = "RENEW"
    LANE_BACKLOG = "LANE_BACKLOG"
    ACK = "ACK"
    HEARTBEAT = "HEARTBEAT"
    SUCCEED = "SUCCEED"
    FAIL_RETRY = "FAIL_RETRY"
    FAIL_FINAL = "FAIL_FINAL"
    CANCEL = "CANCEL"


class JobTrigger(StrEnum):
    """What happens to a job; `*_IDLE` means that no step is in flight."""

    ATTEMPT_RECORDED = "ATTEMPT_RECORDED"
    ACKED = "ACKED"
    STEP_SUCCEEDED = "STEP_SUCCEEDED"
    LAST_STEP_SUCCEEDED = "LAST_STEP_SUCCEEDED"
    STEP_FAILED_RETRY = "STEP_FAILED_RETRY"
    STEP_FAILED_FINAL = "STEP_FAILED_FINAL"
    #: a step of a parallel group ended and others of it are in flight
    SIBLINGS_IN_FLIGHT = "SIBLINGS_IN_FLIGHT"
    CANCEL = "CANCEL"
    CANCEL_IDLE = "CANCEL_IDLE"
    PAUSE = "PAUSE"
    PAUSE_IDLE = "PAUSE_IDLE"
    RESUME_UNACKED = "RESUME_UNACKED"
    RESUME_ACKED = "RESUME_ACKED"
    RESTART = "RESTART"
    ORCHESTRATION_FAILED = "ORCHESTRATION_FAILED"


_P, _I, _W, _R = StepStatus.PENDING, StepStatus.INITIATED, StepStatus.PROCESSING, StepStatus.FAILED_RETRY
_OK, _BAD, _OFF = StepStatus.SUCCEEDED, StepStatus.FAILED_FINAL, StepStatus.CANCELLED
_S = StepTrigger

STEP_TABLE: Mapping[StepStatus, Mapping[StepTrigger, Row]] = {
    _P: {
        _S.FAIL_FINAL: Row(_BAD, "CONTRACT Protocol files: the job's total time is over before the step began"),
        _S.RECORD: Row(_I, "S0 19.2: attempt and lease recorded"),
        _S.CANCEL: Row(_OFF, "LIFECYCLE Replies: CANCELLED takes all non-terminal steps with it"),
    },
    _I: {
        _S.LANE_BACKLOG: Row(_I, "FEATURES D20: our own backlog is nobody's failure"),
        _S.RENEW: Row(_I, "LIFECYCLE Dispatch: the same attempt is published again"),
        _S.ACK: Row(_W, "S0 19.2: ACK"),
        _S.HEARTBEAT: Row(_W, "LIFECYCLE Replies: a heartbeat before the ACK counts as the ACK"),
        _S.SUCCEED: Row(_OK, "FEATURES D3: RESULT before ACK accepted"),
        _S.FAIL_RETRY: Row(_R, "S2: ACK timeout, or a RESULT before the ACK; attempts left"),
        _S.FAIL_FINAL: Row(_BAD, "FEATURES D3, D8: exhausted, non-retryable, or it could not be published"),
        _S.CANCEL: Row(_OFF, "LIFECYCLE Controls: CANCELLING ends with the attempt"),
    },
    _W: {
        _S.LANE_BACKLOG: Row(_W, "FEATURES D20: its RESULT may lie among the replies that wait"),
        _S.HEARTBEAT: Row(_W, "LIFECYCLE Replies: a heartbeat restarts the lease"),
        _S.SUCCEED: Row(_OK, "S0 19.2: RESULT success"),
        _S.FAIL_RETRY: Row(_R, "S0 19.2: RESULT retryable, or the lease ran out; attempts left"),
        _S.FAIL_FINAL: Row(_BAD, "S0 19.2: RESULT final failure, or exhausted"),
        _S.CANCEL: Row(_OFF, "LIFECYCLE Controls: CANCELLING ends with the attempt"),
    },
    _R: {
        _S.RECORD: Row(_I, "S2: retry dispatch, new attempt_no and lease_id"),
        _S.ACK: Row(_W, "LIFECYCLE Replies: revived, the attempt had only timed out"),
        _S.HEARTBEAT: Row(_W, "LIFECYCLE Replies: revived, the attempt had only timed out"),
        _S.SUCCEED: Row(_OK, "LIFECYCLE Replies: revived, taken"),
        _S.FAIL_RETRY: Row(_R, "LIFECYCLE Replies: revived, taken; the attempt is used up by its RESULT"),
        _S.FAIL_FINAL: Row(_BAD, "LIFECYCLE Replies: revived, taken"),
        _S.CANCEL: Row(_OFF, "LIFECYCLE Controls: nothing in flight, CANCELLED at once"),
    },
    _OK: {},
    _BAD: {},
    _OFF: {},
}

_Q, _RUN, _PING, _PD = JobStatus.QUEUED, JobStatus.IN_PROGRESS, JobStatus.PAUSING, JobStatus.PAUSED
_CING, _DONE, _FAIL, _CD = JobStatus.CANCELLING, JobStatus.SUCCEEDED, JobStatus.FAILED_FINAL, JobStatus.CANCELLED
_J = JobTrigger

JOB_TABLE: Mapping[JobStatus, Mapping[JobTrigger, Row]] = {
    _Q: {
        _J.ATTEMPT_RECORDED: Row(_Q, "DESIGN 4: QUEUED until the first ACK"),
        _J.ACKED: Row(_RUN, "S0 19.1: on first ACK"),
        _J.STEP_FAILED_RETRY: Row(_Q, "S2: ACK timeout, re-dispatched"),
        _J.STEP_FAILED_FINAL: Row(_FAIL, "S2: step failed final"),
        _J.CANCEL: Row(_CING, "S2: cancel request; the attempt in flight may end"),
        _J.CANCEL_IDLE: Row(_CD, "LIFECYCLE Controls: no step in flight"),
        _J.PAUSE: Row(_PING, "S0 18.1: two-phase pause"),
        _J.PAUSE_IDLE: Row(_PD, "LIFECYCLE Controls: PAUSED means drained"),
        _J.RESTART: Row(_Q, "LIFECYCLE Sweeper: instance terminal and job live"),
        _J.ORCHESTRATION_FAILED: Row(_FAIL, "LIFECYCLE Sweeper: given up after five restarts"),
        _J.SIBLINGS_IN_FLIGHT: Row(_Q, "LIFECYCLE Parallel groups: the group goes on"),
    },
    _RUN: {
        _J.ATTEMPT_RECORDED: Row(_RUN, "S2: step N+1 activated"),
        _J.ACKED: Row(_RUN, "S2: the job is in progress already"),
        _J.STEP_SUCCEEDED: Row(_RUN, "S2: step N succeeded"),
        _J.LAST_STEP_SUCCEEDED: Row(_DONE, "S0 19.1: final step success"),
        _J.STEP_FAILED_RETRY: Row(_RUN, "S2: retry dispatch"),
        _J.STEP_FAILED_FINAL: Row(_FAIL, "S0 19.1: final failure"),
        _J.CANCEL: Row(_CING, "S2: cancel request"),
        _J.CANCEL_IDLE: Row(_CD, "LIFECYCLE Controls: no step in flight"),
        _J.PAUSE: Row(_PING, "S0 18.1: two-phase pause"),
        _J.PAUSE_IDLE: Row(_PD, "LIFECYCLE Controls: PAUSED means drained"),
        _J.RESTART: Row(_RUN, "LIFECYCLE Sweeper: instance terminal and job live"),
        _J.ORCHESTRATION_FAILED: Row(_FAIL, "LIFECYCLE Sweeper: given up after five restarts"),
        _J.SIBLINGS_IN_FLIGHT: Row(_RUN, "LIFECYCLE Parallel groups: the group goes on"),
    },
    _PING: {
        _J.ACKED: Row(_PING, "LIFECYCLE Replies: step moves, job does not"),
        _J.STEP_SUCCEEDED: Row(_PD, "LIFECYCLE Replies: the attempt in flight ended"),
        _J.LAST_STEP_SUCCEEDED: Row(_DONE, "LIFECYCLE Replies: it was the last step and succeeded"),
        _J.STEP_FAILED_RETRY: Row(_PD, "LIFECYCLE Controls: the new attempt comes after resume"),
        _J.STEP_FAILED_FINAL: Row(_FAIL, "S0 19.1: final failure"),
        _J.CANCEL: Row(_CING, "LIFECYCLE Controls: cancel overrides pause"),
        _J.PAUSE: Row(_PING, "LIFECYCLE Controls: repeated, changes nothing"),
        _J.RESUME_UNACKED: Row(_Q, "LIFECYCLE Controls: takes the pause back"),
        _J.RESUME_ACKED: Row(_RUN, "LIFECYCLE Controls: takes the pause back"),
        _J.RESTART: Row(_PING, "LIFECYCLE Sweeper: instance terminal and job live"),
        _J.ORCHESTRATION_FAILED: Row(_FAIL, "LIFECYCLE Sweeper: given up after five restarts"),
        _J.SIBLINGS_IN_FLIGHT: Row(_PING, "LIFECYCLE Parallel groups: drained means no sibling in flight"),
    },
    _PD: {
        _J.ACKED: Row(_PD, "LIFECYCLE Replies: revived while paused, by a RESULT"),
        _J.STEP_SUCCEEDED: Row(_PD, "LIFECYCLE Replies: revived while paused"),
        _J.LAST_STEP_SUCCEEDED: Row(_DONE, "LIFECYCLE Replies: revived while paused, it was the last step"),
        _J.STEP_FAILED_RETRY: Row(_PD, "LIFECYCLE Replies: revived while paused"),
        _J.STEP_FAILED_FINAL: Row(_FAIL, "LIFECYCLE Replies: revived while paused"),
        _J.CANCEL_IDLE: Row(_CD, "LIFECYCLE Controls: also PAUSED, CANCELLED at once"),
        _J.PAUSE_IDLE: Row(_PD, "LIFECYCLE Controls: repeated, changes nothing"),
        _J.RESUME_UNACKED: Row(_Q, "LIFECYCLE Controls: QUEUED if no ACK was seen"),
        _J.RESUME_ACKED: Row(_RUN, "LIFECYCLE Controls: IN_PROGRESS if first_ack_at is set"),
        _J.RESTART: Row(_PD, "LIFECYCLE Sweeper: instance terminal and job live"),
        _J.ORCHESTRATION_FAILED: Row(_FAIL, "LIFECYCLE Sweeper: given up after five restarts"),
    },
    _CING: {
        _J.ACKED: Row(_CING, "LIFECYCLE Replies: step moves, job does not"),
        _J.STEP_SUCCEEDED: Row(_CD, "S3 1.5: current step reached a terminal state"),
        _J.LAST_STEP_SUCCEEDED: Row(_CD, "LIFECYCLE Replies: job CANCELLED"),
        _J.STEP_FAILED_RETRY: Row(_CD, "LIFECYCLE Controls: until that attempt ends"),
        _J.STEP_FAILED_FINAL: Row(_CD, "S2: active step terminal"),
        _J.CANCEL: Row(_CING, "LIFECYCLE Controls: repeated, changes nothing"),
        _J.RESTART: Row(_CING, "LIFECYCLE Sweeper: instance terminal and job live"),
        _J.ORCHESTRATION_FAILED: Row(_CD, "LIFECYCLE Sweeper: given up, and the job was to be cancelled"),
        _J.SIBLINGS_IN_FLIGHT: Row(_CING, "LIFECYCLE Parallel groups: cancelled when the last attempt in flight ends"),
    },
    _DONE: {},
    _FAIL: {},
    _CD: {},
}
