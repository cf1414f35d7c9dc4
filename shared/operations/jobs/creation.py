"""The steps of every creation, for new jobs, redrives and replays: idempotency record, rows, orchestration.

Because of this order, a repeated request or the sweeper can finish or withdraw an interrupted creation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from shared import telemetry
from shared.core.gates.admission_state import Candidate
from shared.core.gates.places import Decision
from shared.core.gates.rules import Gate
from shared.core.jobs.job import Event, Job, Record
from shared.core.jobs.states import JobStatus
from shared.errors import AlreadyExists, Conflict, Contended, LedgerUnavailable
from shared.operations.gates.admission_turns import AdmittedJobs, read_directory
from shared.operations.gates.allocations import allocate_for_job
from shared.operations.gates.arrivals import NeedsAllocation, NeedsTurn, reserve_slot, stage_uncounted
from shared.operations.gates.freed import take_turn_after_end
from shared.operations.jobs.admission import notify
from shared.operations.process.context import Context
from shared.ports.durable import Orchestrations
from shared.ports.index import Claim
from shared.ports.ledger import Stored
from shared.refusals import LimitReached

#: Race claim: maximum reads of an idempotency record that another request wrote first
MAX_CLAIM_RACES = 20
_CLAIM_RACE_WAIT_S = 0.2
#: maximum turns of its tenant that a request takes before it is refused; they and those that follow take about 500
#: FREED rows
_MAX_TURNS = 2
#: maximum age of another request's idempotency record at which a request waits before it finishes that creation
_JUST_TAKEN = timedelta(seconds=2)


@dataclass(frozen=True)
class Created:
    """The job of a request. `replayed` means that an earlier request created the job."""

    stored: Stored
    replayed: bool
    #: decision of the quotas at the creation; None if no quota concerned the job, or it is not new
    decision: Decision | None = None


@dataclass(frozen=True)
class Reserved:
    """The idempotency record that a job has reserved, and the decision of its quotas. The decision is None if no quota
    concerns the job.
    """

    decision: Decision | None = None
    #: jobs that the same transaction admitted before it
    entered: AdmittedJobs = field(default_factory=AdmittedJobs)

    @property
    def initial_status(self) -> JobStatus:
        """Returns the status with which the job's rows are written."""
        return self.decision.place.initial_status if self.decision is not None else JobStatus.QUEUED


def is_expired(context: Context, claim: Claim) -> bool:
    return claim.expires_at is not None and claim.expires_at <= context.clock.now()


async def reserve(
    context: Context, orchestrations: Orchestrations, record: Record, *, replacing: Claim | None
) -> Reserved | None:
    """Writes the job's idempotency record and its slot. Returns None if the caller must read the record again (Race
    claim). Raises LimitReached, Transient.
    """
    job = record.job
    claim = (job.tenant, job.idempotency_hash)
    reserved: Reserved | None = None
    try:
        try:
            is_concerned = job.dependencies is not None or (await read_directory(context)).concerns(job.tenant)
        except LedgerUnavailable as fault:
            # a quota may concern it, so the job is staged and decided later
            telemetry.record_fault(fault)
            found = await stage_uncounted(context, job, replacing=replacing)
            return Reserved(*found) if found is not None else None
        if is_concerned:
            reserved = await _at_admission(context, orchestrations, job, replacing)
        else:
            await context.index.reserve(job, replacing=replacing)
            reserved = Reserved()
    except LimitReached as full:
        await _raise_unless_duplicate(context, job, replacing, full)
        return None
    except (AlreadyExists, Conflict):
        # Race own-claim: if the existing record has our own job id, an earlier try of this write succeeded
        taken = await context.index.read_claim(*claim)
        reserved = Reserved() if taken is not None and taken.job_id == job.job_id else None
        if reserved is None and (taken is None or context.clock.now() - taken.created_at < _JUST_TAKEN):
            await context.sleep(_CLAIM_RACE_WAIT_S * context.random())
    return reserved


async def _at_admission(
    context: Context, orchestrations: Orchestrations, job: Job, replacing: Claim | None
) -> Reserved | None:
    """Reserves the job's idempotency record and its slot. Returns None if the caller must read the record again.

    If only quotas over all tenants stop the job, an allocation of each comes first. If a quota refuses the job while
    FREED rows wait, at most two turns of the tenant come first.
    """
    allocated: set[Gate] = set()
    turns = 0
    while True:
        found = await reserve_slot(
            context, job, replacing=replacing, allocated=allocated, may_need_turn=turns < _MAX_TURNS
        )
        if isinstance(found, NeedsTurn):
            turns += 1
            await notify(
                context, orchestrations, job.tenant, await take_turn_after_end(context, job.tenant, job.job_id)
            )
            continue
        if not isinstance(found, NeedsAllocation):
            return Reserved(*found) if found is not None else None
        allocated.add(found.gate)
        given = await allocate_for_job(context, found.gate, Candidate.of(job), job.tenant, rejects=found.rejects)
        for tenant, entered in given.items():
            await notify(context, orchestrations, tenant, entered)


async def initial_status_of(context: Context, tenant: str, job_id: str) -> JobStatus:
    """Returns the status with which a process that finishes a job's creation writes its rows. Raises
    LedgerUnavailable.
    """
    active = await context.index.read_active(tenant, job_id)
    return active.place.initial_status if active is not None and active.place is not None else JobStatus.QUEUED


async def _raise_unless_duplicate(context: Context, job: Job, replacing: Claim | None, full: LimitReached) -> None:
    """Returns if the request has become a duplicate, so that the caller reads the record again. Otherwise raises
    `full`. Raises Transient.

    Race duplicate: the same request took the last slot, and a duplicate is never refused.
    """
    found = await context.index.read_claim(job.tenant, job.idempotency_hash)
    if found is not None and (replacing is None or found.etag != replacing.etag):
        return
    telemetry.record_limit(job.tenant, full.limit)
    context.process.usage_buffer.refuse(job, context.clock.now())
    await context.process.usage_buffer.write_refused(context.of_all_tenants.usage, context.clock.now())
    raise full from None


async def write_rows(context: Context, record: Record, event: Event) -> Stored:
    """Writes the job's rows, or returns the rows that another creator wrote. Raises Contended, LedgerUnavailable."""
    try:
        written = await context.ledger.create(record, event)
    except AlreadyExists:
        stored = await context.ledger.read(record.job.job_id)
        if stored is None:
            raise Contended("the job's rows changed while they were created") from None
        return stored
    context.process.recent_jobs.note(written, context.clock.now())
    telemetry.record_creation(record, event)
    if context.events is not None:
        context.events.hinting.note(written.record.job, [event])
    return written
