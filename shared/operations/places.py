"""A job and its place at the desk, brought together again after every move of either (R49)."""

from __future__ import annotations

from shared.core.gates.places import Owed, owed
from shared.errors import Contended
from shared.operations import desks
from shared.operations.context import Context
from shared.operations.creation import check_not_withdrawn, start_once
from shared.operations.transition import admit, tell
from shared.ports.durable import Orchestrations
from shared.ports.ledger import Stored

#: each turn does one thing that is owed; a job that is paused and resumed meanwhile owes more than one
_MAX_TURNS = 8


async def follow(context: Context, orchestrations: Orchestrations, stored: Stored) -> Stored:
    """Does what is owed between the job and its place until nothing is; gives the job as it stands then.

    Whoever created, moved or swept the job calls it; again is harmless. A job that passed its gates is started if it
    may never have been. Raises CreationWithdrawn, LedgerUnavailable, OrchestrationUnavailable.
    """
    for _ in range(_MAX_TURNS):
        check_not_withdrawn(stored)
        job = stored.record.job
        if not job.is_staged:
            return await start_once(orchestrations, stored)
        active = await context.index.read_active(job.tenant, job.job_id)
        if active is None or job.status.terminal:
            return stored
        match owed(job, desks.place_of(active).state):
            case Owed.NOTHING:
                return stored
            case Owed.TELL:
                if (started := await admit(context, orchestrations, job.job_id)) is not None:
                    return started
            case step:
                told = await desks.move_job(context, job.tenant, job.job_id, step)
                await tell(context, orchestrations, job.tenant, told)
        again = await context.ledger.read(job.job_id)
        if again is None:
            return stored
        stored = again
    raise Contended("the job moved while its place followed")
