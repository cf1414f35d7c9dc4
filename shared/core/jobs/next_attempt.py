"""The attempt that a RESULT records for the next step, and when a recorded attempt is late (R4)."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.jobs.attempts import start
from shared.core.jobs.history import Provenance
from shared.core.jobs.job import Step
from shared.core.jobs.occurrences import NextAttempt
from shared.core.jobs.outcome import Outcome
from shared.core.jobs.states import JobStatus, StepStatus

#: an attempt is sent under the lease that it has for a third of its ACK timeout, and no longer than this
_SENT_WITHIN = timedelta(seconds=10)


def start_next(outcome: Outcome, attempt: NextAttempt, provenance: Provenance) -> Outcome:
    """Returns the outcome of a RESULT, with attempt 1 of the step that may begin by it if that step runs alone.

    The second EVENT row has the cause id that `dispatch` would give it, so `dispatch` recognizes it as its own.
    """
    record = outcome.record
    if not outcome.transitioned or record.job.status is not JobStatus.IN_PROGRESS:
        return outcome
    step = next(iter(record.open_steps))
    if step.step_id != attempt.step_id or step.status is not StepStatus.PENDING or step.group is not None:
        return outcome
    if step.timings.total_timeout_s is not None:
        # it begins with the first attempt: an engine that is late must not use it up, so `dispatch` records that
        return outcome
    cause_id = cause_of_record(record.job.instance_id, step.step_id, 1)
    recording = replace(provenance, cause_id=cause_id, actor="system", salt=attempt.salt)
    started = start(record, step.step_id, attempt.lease_id, recording)
    if not started.record.in_flight:
        # its total time, or the job's, is over: `dispatch` ends it
        return outcome
    return replace(started, events=(*outcome.events, *started.events))


def cause_of_record(instance_id: str, step_id: str, attempt_no: int) -> str:
    """Returns the cause id of an attempt's ATTEMPT_RECORDED: the same whether `dispatch` or a RESULT records it."""
    return f"dispatch:{instance_id}:{step_id}:{attempt_no}"


def is_late(step: Step, now: datetime) -> bool:
    """Returns whether the attempt's lease must be renewed before its directive is sent, since its service would have
    little time left.

    Otherwise the directive is sent so soon after the lease began that `Step.sent_at` may stand for the instant.
    """
    return now - step.sent_at > min(timedelta(seconds=step.timings.ack_timeout_s / 3), _SENT_WITHIN)
