"""The attempt that a RESULT records for the next step, and the age at which a recorded attempt needs a new lease
(R4).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.jobs.attempts import start
from shared.core.jobs.history import Provenance
from shared.core.jobs.job import Step
from shared.core.jobs.occurrences import NextAttempt
from shared.core.jobs.outcome import Outcome
from shared.core.jobs.states import JobStatus, StepStatus

#: maximum age of a lease at the dispatch, if a third of the ACK timeout is not shorter
_SENT_WITHIN = timedelta(seconds=10)


def start_next(outcome: Outcome, attempt: NextAttempt, provenance: Provenance) -> Outcome:
    """Returns the outcome of a RESULT, with attempt 1 of the next step if that step runs alone and can begin.

    The second EVENT row has the cause id of an attempt that `dispatch` records, so `dispatch` recognizes the row as its
    own.
    """
    record = outcome.record
    if not outcome.transitioned or record.job.status is not JobStatus.IN_PROGRESS:
        return outcome
    step = next(iter(record.open_steps))
    if step.step_id != attempt.step_id or step.status is not StepStatus.PENDING or step.group is not None:
        return outcome
    if step.timings.total_timeout_s is not None:
        # the step's total time starts with the first attempt; a late engine must not use it up, so `dispatch` records
        # the attempt
        return outcome
    cause_id = cause_of_record(record.job.instance_id, step.step_id, 1)
    recording = replace(provenance, cause_id=cause_id, actor="system", salt=attempt.salt)
    started = start(record, step.step_id, attempt.lease_id, recording)
    if not started.record.in_flight:
        # the total time of the step or job is over: `dispatch` ends it
        return outcome
    return replace(started, events=(*outcome.events, *started.events))


def cause_of_record(instance_id: str, step_id: str, attempt_no: int) -> str:
    """Returns the cause id of an attempt's ATTEMPT_RECORDED, which is the same for `dispatch` and for a RESULT."""
    return f"dispatch:{instance_id}:{step_id}:{attempt_no}"


def is_late(step: Step, now: datetime) -> bool:
    """Returns `True` if the attempt's lease must be renewed before the dispatch. The lease then began more than a third
    of the ACK timeout ago, or more than `_SENT_WITHIN` ago.

    If not, `Step.sent_at` can show the start of the lease as the time of sending.
    """
    return now - step.sent_at > min(timedelta(seconds=step.timings.ack_timeout_s / 3), _SENT_WITHIN)
