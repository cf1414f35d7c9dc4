"""Restarts of a job whose orchestration ended before the job (R18), and records of repairs (R20)."""

from __future__ import annotations

from shared.core.jobs import durable_names
from shared.core.jobs.durable_names import group_instance_id, restarts
from shared.core.jobs.history import EventType, Provenance
from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import Repaired
from shared.core.jobs.outcome import Outcome, ignore, make_transition, refuse
from shared.core.jobs.reasons import IgnoreReason, Reason
from shared.core.jobs.states import JobStatus
from shared.core.jobs.transitions import JobTrigger, NoSuchTransition, cancel_in_flight, move_job

#: maximum number of restarts after orchestrations that ended before the job; restarts of silent ones are not limited
MAX_RESTARTS = 5


def instances(record: Record) -> list[str]:
    """Lists the ids of all orchestrations of the job: the first, each restart, and those of its parallel groups."""
    count = restarts(record.job.instance_id)
    own = [durable_names.instance_id(record.job.job_id, number) for number in range(count + 1)]
    grouped = [step.step_index for step in record.steps if step.group is not None]
    return own + [group_instance_id(each, index) for each in own for index in grouped]


def record_repair(record: Record, repair: Repaired, provenance: Provenance) -> Outcome:
    """Records a repair: an EVENT row with the action, the states of the steps, and the repaired state before and after
    (R20).
    """
    stands = {step.step_id: step.status.value for step in record.steps}
    data = {"steps": stands, "before": repair.before, "after": repair.after}
    return make_transition(record, record, EventType.REPAIRED, provenance, reason=repair.what, data=data)


def record_orchestration_end(record: Record, instance_id: str, provenance: Provenance, *, silent: bool) -> Outcome:
    """Gives the job a new `instance_id`, which fences off the old orchestration (R13).

    After more than `MAX_RESTARTS` orchestrations that ended before the job, the job fails permanently, and a CANCELLING
    job becomes CANCELLED. Silent orchestrations do not count, so a delay of Durable Functions never fails a job.
    """
    job = record.job
    if job.instance_id != instance_id:
        return ignore(record, IgnoreReason.RESTARTED_ALREADY)
    if job.is_staged:
        # a staged job has no orchestration
        return refuse(record, f"{JobTrigger.RESTART}_IN_{job.status}")
    count = job.orchestration_failures + (not silent)
    try:
        if count > MAX_RESTARTS:
            after = move_job(cancel_in_flight(record, provenance), JobTrigger.ORCHESTRATION_FAILED, provenance)
            if after.job.status is JobStatus.FAILED_FINAL:
                message = f"the orchestration ended {count} times before the job ended"
                after = after.with_job(error_code=Reason.ORCHESTRATION_FAILED, error_message=message)
            return make_transition(record, after, EventType.ORCHESTRATION_FAILED, provenance)
        after = move_job(
            record,
            JobTrigger.RESTART,
            provenance,
            instance_id=durable_names.instance_id(job.job_id, restarts(instance_id) + 1),
            orchestration_failures=count,
        )
    except NoSuchTransition as no:
        return refuse(record, f"{no.trigger}_IN_{no.state}")
    reason = "SILENT" if silent else None
    return make_transition(record, after, EventType.ORCHESTRATION_RESTARTED, provenance, reason=reason)
