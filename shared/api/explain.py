"""Explains a job's state in one paragraph, and lists the possible next events.

The list comes from `apply`, which also decides on real events, with the same stored rows. The list cites the rows of
the transition tables that each event uses. The last transition cites the rows that it used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from shared.api.response import Instant, JobId, JobStatusName, Response
from shared.api.wait_reason import QuotaWait, iso, quota_wait, wait_reason
from shared.contracts.messages import Reply
from shared.core.gates.queue_position import QueuePosition
from shared.core.jobs.backlog import MAX_SHOWN
from shared.core.jobs.decide import apply
from shared.core.jobs.history import Provenance, lease_digest
from shared.core.jobs.job import Event, Job, Record, Step
from shared.core.jobs.occurrences import Control, ControlKind, DeadlinePassed, Occurrence, RecordAttempt, ReplyArrived
from shared.core.jobs.outcome import Outcome, OutcomeKind
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.transitions import JOB_TABLE, STEP_TABLE, JobTrigger, StepTrigger


class TableRow(Response):
    """Row of a transition table: in `state`, `event` leads to `to`."""

    machine: Literal["job", "step"]
    state: str
    event: str
    to: str
    source: str
    """Number and text of the rule that the row implements."""


class Move(Response):
    """Last transition of a job, from its EVENT row."""

    seq: int
    type: str
    at: Instant
    stepId: str | None
    actor: str
    source: str
    reason: str | None
    rows: list[TableRow]
    """Rows of the transition tables that decided the transition. Empty for the creation."""


class Explanation(Response):
    """Explanation of a job's state: the condition that the job waits for, the time limit, and the effect of each
    possible next event."""

    jobId: JobId
    status: JobStatusName
    text: str
    """Summary in one paragraph."""
    waits_for: str | None
    """Condition that the job waits for. Null if the job has ended."""
    quota_wait: QuotaWait | None = None
    """THROTTLED only. The parts of `waits_for`."""
    gate: Literal["PAUSED", "LANE_BACKLOG", "THROTTLED", "GATED"] | None
    """Reason for the delay of a job that has not failed.

    - PAUSED: the job is paused.
    - LANE_BACKLOG: directives or replies wait on the lane, or Service Bus is unreachable.
    - THROTTLED: a quota, or other jobs ahead in the waiting queue.
    - GATED: a dispatch limit of the step's service or lane.
    """
    stopped_by: str | None = None
    """Quota of a THROTTLED job, in words. Dispatch limit of a GATED attempt."""
    position: int | None = None
    """Position of a THROTTLED job in the waiting queue, at most 1,000. Null for a later position, or before the job is
    in the queue."""
    nextEligibleAt: Instant | None = None
    """Estimated start of a THROTTLED job. Null if time alone does not start the job; see `quota_wait`."""
    since: Instant | None
    until: Instant | None
    """End of the time limit or of the wait before a retry. For a GATED attempt, the time of the next check. Null if
    there is no time limit, or if the job has ended."""
    then: str
    """Next change of the job or, for an attempt in progress, the effect if no event arrives by `until`."""
    brought_here: Move | None
    """Last transition of the job or of a step. The states can be unchanged, for example after a HEARTBEAT."""
    what_if: dict[str, str]
    """Possible next events, by name, each with its effect. For `dispatch` and `deadline`, the effect after the present
    wait."""
    rows_if: dict[str, list[TableRow]]
    """Rows of the transition tables for each possible next event that changes the state."""


def cite(event: Event) -> tuple[TableRow, ...]:
    """Returns the transition rows that the event used, first for its step, then for its job. Returns no rows if the
    event used none.

    Raises LookupError or ValueError for a row that the tables do not have.
    """
    names = event.data.get("transitions", ()) if isinstance(event.data, Mapping) else ()
    applied = [tuple(str(name).split(" ")) for name in names]
    return tuple(
        _row("step" if machine != "job" else "job", state, trigger)
        for own in (f"step:{event.step_id}", "job")
        for machine, state, trigger in applied
        if machine == own
    )


def _row(machine: str, state: str, trigger: str) -> TableRow:
    if machine == "job":
        row = JOB_TABLE[JobStatus(state)][JobTrigger(trigger)]
        return TableRow(machine="job", state=state, event=trigger, to=row.to, source=row.source)
    row = STEP_TABLE[StepStatus(state)][StepTrigger(trigger)]
    return TableRow(machine="step", state=state, event=trigger, to=row.to, source=row.source)


#: placeholder for the lease of the attempt, which is not shown
_LEASE = "what-if"

#: maximum jobs that a text names
_NAMED = 5


def explain(
    record: Record,
    now: datetime,
    last: Event | None = None,
    *,
    directives_ahead: int | None = None,
    standing: QueuePosition | None = None,
    missing: Sequence[tuple[str, Job | None]] | None = None,
) -> Explanation:
    """Explains the condition that the job waits for, and the effect of each possible next event.

    `last` is the event of the job's last transition. `standing` is the job's queue position, or None if the job is in
    no queue. `missing` has the job's dependencies that have not ended.

    `directives_ahead` is the number of directives ahead of the job's own on the bus, or `MAX_SHOWN` for any larger
    number. `directives_ahead` is None if the job's directive is not on the bus, or if the lane was not read.
    """
    job = record.job
    step = _awaited_step(record)
    wait = quota_wait(standing.stopped_by, standing.expected_at) if standing is not None else None
    if job.status.terminal or step is None:
        since, waits_for, until, then = job.completed_at, None, None, "The state of an ended job never changes."
        text = _ended(record)
    elif job.status is JobStatus.THROTTLED:
        since, until = job.staged_at or job.created_at, job.expires_at
        waits_for = "its admission"
        if standing is not None and wait is not None:
            waits_for = wait_reason(wait, standing.position)
        then = f"After its admission the job is QUEUED and starts.{_expiry(job)}"
        text = f"Job {job.job_id} has been {job.status} since {iso(since)} and waits for {waits_for}."
    elif job.status is JobStatus.WAITING_FOR_JOBS:
        since, waits_for, until = job.created_at, _others(missing or (), len(job.dependencies or ())), job.expires_at
        then = "After the dependencies have ended, LUCIUS checks the quotas of the job."
        if job.on_dependency_failure == "fail":
            then += " If a dependency does not succeed, the job is FAILED_FINAL."
        then += _expiry(job)
        text = f"Job {job.job_id} is {job.status} and waits for {waits_for}, since {iso(since)}"
        text += f", until {iso(until)} at the latest." if until else "; there is no time limit."
    else:
        since, waits_for, until, then = _waiting(record, step, now)
        if directives_ahead is not None:
            waits_for += f"; {_ahead(directives_ahead)} ahead of the job's directive on Service Bus"
        text = f"Job {job.job_id} is {job.status} and waits for {waits_for}, since {iso(since)}"
        if until is not None and step.gated_until == until:
            text += f"; checked again at {iso(until)}."
        else:
            text += f", until {iso(until)} at the latest." if until else "; there is no time limit."
    brought_here = _brought_here(last) if last is not None else None
    outcomes = {} if job.status.terminal or step is None else _what_if(record, step, now)
    return Explanation(
        jobId=job.job_id,
        status=job.status,
        text=f"{text} {then}",
        waits_for=waits_for,
        quota_wait=wait,
        gate=_blocked_by(record, step),
        since=_seconds(since),
        until=_seconds(until),
        then=then,
        brought_here=brought_here,
        what_if={name: _describe(step, outcome) for name, outcome in outcomes.items() if step is not None},
        rows_if={name: list(cite(outcome.events[0])) for name, outcome in outcomes.items() if outcome.transitioned},
        stopped_by=_stopped_by(record, step, standing),
        position=standing.position if standing is not None else None,
        nextEligibleAt=_seconds(standing.expected_at) if standing is not None else None,
    )


def _awaited_step(record: Record) -> Step | None:
    """Returns the first step in flight of a PAUSING or CANCELLING job, which starts no other step. Returns the first
    open step of any other job, or None if every step SUCCEEDED.
    """
    steps = record.open_steps
    if record.job.status in (JobStatus.PAUSING, JobStatus.CANCELLING):
        steps = tuple(step for step in steps if step.status.in_flight) or steps
    return next(iter(steps), None)


def _others(missing: Sequence[tuple[str, Job | None]], depends_on: int) -> str:
    """Returns the text about the jobs that a job waits for. If all have ended, the job waits for the check of its
    dependencies.
    """
    whole = f"{depends_on} {'dependency' if depends_on == 1 else 'dependencies'}"
    if not missing:
        return f"the check of its {whole}"
    named = [f"{job_id} ({job.status})" for job_id, job in missing[:_NAMED] if job is not None]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return f"{len(missing)} of its {whole}: {', '.join(named)}{more}"


def _brought_here(last: Event) -> Move:
    """Returns the last transition: its EVENT row, and the rows of the transition tables that decided the transition."""
    return Move.of(last, at=_seconds(last.at), stepId=last.step_id, rows=list(cite(last)))


def _stopped_by(record: Record, step: Step | None, standing: QueuePosition | None) -> str | None:
    if standing is not None:
        return standing.stopped_by.gate.display_name
    return step.gated_by if step is not None and _blocked_by(record, step) == "GATED" else None


def _blocked_by(record: Record, step: Step | None) -> Literal["PAUSED", "LANE_BACKLOG", "THROTTLED", "GATED"] | None:
    """Returns the cause that delays the job without a failure, or None if nothing delays the job."""
    if record.job.status is JobStatus.THROTTLED:
        return "THROTTLED"
    if record.job.status is JobStatus.PAUSED:
        return "PAUSED"
    if step is not None and step.gated_since is not None and not record.job.status.terminal:
        return "GATED"
    return "LANE_BACKLOG" if step is not None and step.status.in_flight and step.backlog_since is not None else None


def _ended(record: Record) -> str:
    job = record.job
    text = f"Job {job.job_id} {job.status} at {iso(job.completed_at)}"
    if job.error_code:
        text += f" with {job.error_code}: {job.error_message or 'no message'}"
    return f"{text}, after {job.attempts_total} attempt{'' if job.attempts_total == 1 else 's'}."


def _ahead(directives: int) -> str:
    if directives >= MAX_SHOWN:
        return f"at least {MAX_SHOWN} directives are"
    return {0: "no directive is", 1: "one directive is"}.get(directives, f"{directives} directives are")


def _waiting(record: Record, step: Step, now: datetime) -> tuple[datetime, str, datetime | None, str]:
    """Returns the start of the wait, the condition that the job waits for, the time limit, and the consequence."""
    job, timings = record.job, step.timings
    attempt = f"attempt {step.attempt_no} of {timings.max_attempts} of step {step.step_id}"
    match step.status:
        case StepStatus.INITIATED if step.due_at is not None and step.due_at > now:
            return (
                step.updated_at,
                f"the sending of {attempt}",
                step.due_at,
                "Then LUCIUS sends the directive again.",
            )
        case StepStatus.INITIATED if step.silent_until is not None and step.silent_until <= now:
            # the directive may never have been sent
            waits_for = f"the orchestration, which sends or ends {attempt}"
            then = "The time limit has passed, and the sweeper repairs the job."
            return step.updated_at, waits_for, step.silent_until, then
        case StepStatus.INITIATED:
            then = _after_failure(record, step, "ACK", timings.ack_backoffs, step.ack_failures)
            return step.updated_at, f"the ACK of {attempt} by service {step.service}", step.silent_until, then
        case StepStatus.PROCESSING:
            # heartbeats cannot extend the maximum time of an attempt
            last = step.lease_expires_at is not None and step.attempt_is_over(step.lease_expires_at)
            what = "RESULT" if last else "RESULT or heartbeat"
            then = _after_failure(record, step, what, timings.execution_backoffs, step.execution_failures)
            return step.updated_at, f"the RESULT of {attempt} by service {step.service}", step.silent_until, then
        case _ if job.status is JobStatus.PAUSED:
            then = f"After a resume, step {step.step_id} continues. No attempt is in progress."
            if job.is_staged:
                waits_for = "dependencies" if job.is_dependent else "quotas"
                then = f"After a resume, the job waits for its {waits_for} again.{_expiry(job)}"
            return job.drained_at or job.updated_at, "a resume", job.expires_at if job.is_staged else None, then
        case _ if step.gated_since is not None:
            attempt = f"attempt {step.attempt_no + 1} of step {step.step_id}"
            what = f"the dispatch limit {step.gated_by}, for {attempt}"
            then = "When the dispatch limit allows the attempt, LUCIUS sends the directive."
            return step.gated_since, what, step.gated_until, then
        case StepStatus.FAILED_RETRY:
            why = f"the backoff after {step.last_error_code or step.retry_cause} in {attempt}"
            return step.updated_at, why, step.due_at, f"Then LUCIUS sends attempt {step.attempt_no + 1}."
        case _:
            return (
                job.updated_at,
                f"the dispatch of step {step.step_id}",
                record.cap_of(step),
                "The dispatch is due now. If the dispatch is late, the sweeper repairs the job.",
            )


def _expiry(job: Job) -> str:
    """Returns the sentence about `expires_at` of a job that has not started, or no text without `expires_at`."""
    if job.expires_at is None:
        return ""
    return f" If the job has not started by {iso(job.expires_at)}, the job is FAILED_FINAL."


def _after_failure(record: Record, step: Step, what: str, backoffs: tuple[float, ...], failures: int) -> str:
    """Returns the effect of silence until the end of the attempt, as `attempts.apply_deadline` decides it."""
    others = any(other.status.in_flight for other in record.steps if other.step_id != step.step_id)
    once_idle = " when its other attempts have ended" if others else ""
    if record.job.status is JobStatus.CANCELLING:
        return f"If no {what} arrives by then, the job is CANCELLED{once_idle}."
    if_silent = f"If no {what} arrives by then and the lane has no backlog,"
    if step.attempt_no >= step.timings.max_attempts:
        return f"{if_silent} the job is FAILED_FINAL, because this is the last attempt."
    wait_s = backoffs[min(failures + 1, len(backoffs)) - 1]
    cap = record.cap_of(step)
    if cap is not None and step.silent_until is not None and step.silent_until + timedelta(seconds=wait_s) >= cap:
        why = "The total timeout of the step or job ends before another attempt."
        return f"{if_silent} the job is FAILED_FINAL. {why}"
    if record.job.status is JobStatus.PAUSING:
        return f"{if_silent} the job pauses{once_idle}. Attempt {step.attempt_no + 1} follows after a resume."
    return f"{if_silent} attempt {step.attempt_no + 1} follows after about {wait_s:g} s."


def _what_if(record: Record, step: Step, now: datetime) -> dict[str, Outcome]:
    """Returns the effect of each possible next event, by `apply` without a commit."""
    after = max(now, step.silent_until or now, step.due_at or now)
    record = record.with_step(replace(step, lease_digest=lease_digest(_LEASE)))
    tried: dict[str, tuple[Occurrence, datetime]] = {"dispatch": (RecordAttempt(step.step_id, _LEASE), after)}
    if step.attempt_no:
        for name, fields in {
            "ACK": {"type": "ACK"},
            "HEARTBEAT": {"type": "HEARTBEAT"},
            "RESULT SUCCEEDED": {"type": "RESULT", "status": "SUCCEEDED"},
            "RESULT FAILED_RETRY": {"type": "RESULT", "status": "FAILED_RETRY"},
            "RESULT FAILED_FINAL": {"type": "RESULT", "status": "FAILED_FINAL"},
        }.items():
            tried[name] = (ReplyArrived(_reply(record, step, fields)), now)
        tried["deadline"] = (DeadlinePassed(step.step_id, step.attempt_no), after)
    for kind in ControlKind:
        tried[kind.value.lower()] = (Control(kind), now)
    nobody = Provenance(cause_id="what-if", actor="nobody", source="explain", at=now, salt="")
    return {name: apply(record, occurrence, replace(nobody, at=at)) for name, (occurrence, at) in tried.items()}


def _reply(record: Record, step: Step, fields: dict[str, str]) -> Reply:
    return Reply.model_validate(
        {
            "jobId": record.job.job_id,
            "stepId": step.step_id,
            "tenant_id": record.job.tenant_id,
            "attempt_no": step.attempt_no,
            "lease_id": _LEASE,
            **fields,
        }
    )


def _describe(step: Step, outcome: Outcome) -> str:
    if outcome.kind is not OutcomeKind.MOVED:
        return f"{outcome.kind}: {outcome.reason_code}"
    after = outcome.record.step(step.step_id)
    return f"step {after.status if after else step.status}, job {outcome.record.job.status}"


def _seconds(instant: datetime | None) -> datetime | None:
    return instant.replace(microsecond=0) if instant else None
