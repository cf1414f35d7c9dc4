"""Admits a waiting job past its quotas, once (R48, R52)."""

from __future__ import annotations

from shared.core.gates.changes import ChangeType
from shared.core.gates.log import append_entry
from shared.core.gates.places import PlaceState, mark_admitted
from shared.core.gates.queues import admit_from_queue
from shared.core.gates.rules import Directory, Gate, GateKind
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus
from shared.operations.gates import admission_turns
from shared.operations.jobs.admission import admit
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.read_archived import not_in_ledger
from shared.operations.process.context import Context
from shared.operations.quotas.quotas import By
from shared.ports.admissions import AdmissionWrite, StoredAdmission
from shared.ports.durable import Orchestrations
from shared.ports.index import FIRST_CHECK
from shared.ports.ledger import Stored
from shared.refusals import ControlNotPossible, JobTerminal


async def admit_job(context: Context, orchestrations: Orchestrations, job_id: str, by: By) -> Stored:
    """Admits the job and returns it. A job that has begun does not change.

    The job counts as an active job, and uses tokens of its quotas' rates. The log of its tenant's quota gets an entry,
    and the job's event ADMITTED has the operator and the reason. If this process dies between the log entry and the
    event, the event's actor is the system.

    Raises JobNotFound, JobArchived, JobTerminal, ArchiveGone, ArchiveInvalid, Transient, and ControlNotPossible if the
    job is paused or waits for other jobs.
    """
    stored = await context.ledger.read(job_id)
    if stored is None:
        raise await not_in_ledger(context, job_id)
    job = stored.record.job
    if job.status.terminal:
        raise JobTerminal(job_id, job.status, "admit")
    if not job.is_staged:
        return stored
    if job.status is not JobStatus.THROTTLED:
        raise ControlNotPossible(job_id, job.status, "admit")
    stored = await reconcile_place(context, orchestrations, stored)
    if await _admit_from_queue(context, job, by):
        started = await admit(context, orchestrations, job_id, actor=by.actor, reason=by.reason)
        if started is not None:
            return started
    # it may have been paused or have ended meanwhile
    stored = await context.ledger.read(job_id) or stored
    return await reconcile_place(context, orchestrations, stored)


async def _admit_from_queue(context: Context, job: Job, by: By) -> bool:
    """Returns `True` if this call admitted the job. Raises Contended, LedgerUnavailable."""

    async def act(stored: StoredAdmission, directory: Directory) -> bool:
        active, now = await context.index.read_active(job.tenant, job.job_id), context.clock.now()
        place = active.counted_place if active is not None else None
        if active is None or place is None or place.state is not PlaceState.WAITING or place.queue is None:
            # the job is active, or was paused, or has ended
            return False
        admission = admit_from_queue(stored.admission, directory, place.queue, place.candidate, now)
        state, entry = append_entry(
            admission.state(Gate(GateKind.TENANT, job.tenant)),
            ChangeType.JOB_ADMITTED,
            actor=by.actor,
            reason=by.reason,
            at=now,
            data={"job_id": job.job_id, "after": {"job_id": job.job_id}},
        )
        after = admission.with_state(state)
        admitted = mark_admitted(stored.admission, place)
        write = AdmissionWrite(before=stored, after=after, log=(entry,))
        await context.index.move_place(active, admitted, now + FIRST_CHECK, write)
        await admission_turns.send_follow_ups(context, write, directory)
        return True

    return await admission_turns.act_on_admission(context, job.tenant, act)
