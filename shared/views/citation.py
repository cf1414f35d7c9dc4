"""Which rows of the transition tables a move used, told by its EVENT row (FEATURES N2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.job import Event, Record
from shared.core.states import JobStatus, StepStatus
from shared.core.transitions import JOB_TABLE, STEP_TABLE, JobTrigger, StepTrigger

#: EVENT rows that tell of something and move nothing
NO_TRANSITION = frozenset({"REPLY_IGNORED", "REPAIRED", "JOB_REDRIVEN", "JOB_CREATED", "JOB_WITHDRAWN"})

#: of an attempt's end, by where its step stands then; one that was cancelled with its job had failed for now
_ENDS = {
    StepStatus.SUCCEEDED: StepTrigger.SUCCEED,
    StepStatus.FAILED_RETRY: StepTrigger.FAIL_RETRY,
    StepStatus.CANCELLED: StepTrigger.FAIL_RETRY,
    StepStatus.FAILED_FINAL: StepTrigger.FAIL_FINAL,
}
_STEP_EVENTS = {
    "ATTEMPT_RECORDED": StepTrigger.RECORD,
    "LEASE_RENEWED": StepTrigger.RENEW,
    "LANE_BACKLOG": StepTrigger.LANE_BACKLOG,
    "ACK": StepTrigger.ACK,
    "HEARTBEAT": StepTrigger.HEARTBEAT,
}
#: of a control, by where the job stands then
_CONTROLS = {
    JobStatus.CANCELLING: JobTrigger.CANCEL,
    JobStatus.CANCELLED: JobTrigger.CANCEL_IDLE,
    JobStatus.PAUSING: JobTrigger.PAUSE,
    JobStatus.PAUSED: JobTrigger.PAUSE_IDLE,
    JobStatus.QUEUED: JobTrigger.RESUME_UNACKED,
    JobStatus.IN_PROGRESS: JobTrigger.RESUME_ACKED,
}
_JOB_EVENTS = {
    "ATTEMPT_RECORDED": JobTrigger.ATTEMPT_RECORDED,
    "ORCHESTRATION_RESTARTED": JobTrigger.RESTART,
    "ORCHESTRATION_FAILED": JobTrigger.ORCHESTRATION_FAILED,
}


@dataclass(frozen=True)
class Cited:
    """One row of a table: in `state`, `event` leads to `to`, by the rule that `source` names."""

    #: "job" or "step"
    machine: str
    state: str
    event: str
    to: str
    source: str


def cite(event: Event, after: Record) -> tuple[Cited, ...]:
    """The rows that led from before `event` to `after`, the step's first; none where nothing moved.

    `after` is the job as the event left it, or as it is while nothing has moved since.
    """
    if event.type in NO_TRANSITION:
        return ()
    found: list[Cited] = []
    if event.from_status is not None and event.to_status is not None:
        found += _walk("step", STEP_TABLE, StepStatus(event.from_status), _step_events(event))
    if event.job_from is not None:
        found += _walk("job", JOB_TABLE, JobStatus(event.job_from), _job_events(event, after))
    return tuple(found)


def _walk(machine: str, table: Mapping[Any, Mapping[Any, Any]], state: Any, events: Iterator[Any]) -> Iterator[Cited]:
    for event in events:
        row = table[state][event]
        yield Cited(machine, str(state), str(event), row.to, row.source)
        state = type(state)(row.to)


def _step_events(event: Event) -> Iterator[StepTrigger]:
    to = StepStatus(event.to_status or "")
    if event.type == "PUBLISH_FAILED" and to is StepStatus.INITIATED:
        yield StepTrigger.RENEW
    elif event.type in _STEP_EVENTS:
        yield _STEP_EVENTS[event.type]
    elif to in _ENDS:
        yield _ENDS[to]
        if to is StepStatus.CANCELLED:
            yield StepTrigger.CANCEL


def _job_events(event: Event, after: Record) -> Iterator[JobTrigger]:
    if event.type in _JOB_EVENTS:
        yield _JOB_EVENTS[event.type]
    elif event.type.endswith("_REQUESTED"):
        yield _CONTROLS[JobStatus(event.job_to)]
    if event.type in ("ACK", "RESULT") or (event.type == "HEARTBEAT" and event.from_status != StepStatus.PROCESSING):
        yield JobTrigger.ACKED
    if event.type in _STEP_EVENTS or event.to_status is None:
        return
    match StepStatus(event.to_status):
        case StepStatus.SUCCEEDED if all(step.status is StepStatus.SUCCEEDED for step in after.steps):
            yield JobTrigger.LAST_STEP_SUCCEEDED
        case StepStatus.SUCCEEDED:
            yield JobTrigger.SIBLINGS_IN_FLIGHT if after.in_flight else JobTrigger.STEP_SUCCEEDED
        case StepStatus.FAILED_RETRY | StepStatus.CANCELLED:
            yield JobTrigger.SIBLINGS_IN_FLIGHT if after.in_flight else JobTrigger.STEP_FAILED_RETRY
        case StepStatus.FAILED_FINAL:
            yield JobTrigger.SIBLINGS_IN_FLIGHT if after.in_flight else JobTrigger.STEP_FAILED_FINAL
