"""Moves waiting jobs in their tenant's admission state: within a waiting queue, and out of it (R48, R49).

Every change is one transaction in the tenant's partition, under the admission state's ETag.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.core.gates import places
from shared.core.gates.admission import MAX_ADMITTED
from shared.core.gates.admission_state import Candidate
from shared.core.gates.places import Owed, PlaceState, QueueFull, admit_or_queue, set_aside
from shared.core.gates.queues import remove_waiting
from shared.core.gates.rules import Directory, Gate, GateKind
from shared.errors import Contended
from shared.operations.gates.admission_turns import (
    COUNTS_PATIENCE,
    AdmittedJobs,
    act_on_admission,
    get_admitted,
    prepare_write,
    read_directory,
    select_admissions,
    send_follow_ups,
)
from shared.operations.process.context import Context
from shared.ports.admissions import AdmissionWrite, StoredAdmission
from shared.ports.index import FIRST_CHECK


async def count_active(context: Context, tenant: str) -> tuple[int | None, int | None]:
    """Returns the number of the tenant's active jobs, and `max_active`. Both are None if no quota concerns the tenant.
    `max_active` is also None if the tenant has no such limit.

    Raises Contended, LedgerUnavailable.
    """
    if not (await read_directory(context)).concerns(tenant):
        return None, None

    async def act(stored: StoredAdmission, directory: Directory) -> tuple[int | None, int | None]:
        rule = directory.find_rule(stored.admission.state(Gate(GateKind.TENANT, tenant)))
        return stored.admission.active, rule.max_active if rule is not None else None

    return await act_on_admission(context, tenant, act)


async def move_in_queue(
    context: Context,
    tenant: str,
    job_id: str,
    owed: Owed,
    due_at: datetime,
    *,
    candidate: Candidate | None = None,
) -> AdmittedJobs:
    """Applies REORDER or STEP_OUT if that change is still due. `due_at`: next check of a waiting job by the sweeper.

    `candidate`: the job's present fields for its quotas. Raises BeingCounted, Contended, LedgerUnavailable.
    """

    async def act(stored: StoredAdmission, directory: Directory) -> AdmittedJobs:
        active, now = await context.index.read_active(tenant, job_id), context.clock.now()
        if active is None:
            return AdmittedJobs()
        place = active.counted_place
        if place.state is not PlaceState.ARRIVING and owed is Owed.STEP_OUT:
            # Race place: a process that changed the job since may have moved its place. A later change and this write
            # conflict, since `holds_slot` writes the admission state
            found = await context.ledger.read(job_id)
            if found is None or places.find_owed(found.record.job, place) is not owed:
                return AdmittedJobs()
        if owed is Owed.REORDER and place.queue is not None and candidate != place.candidate:
            admission = remove_waiting(stored.admission, place.queue)
            # waiting jobs go first
            selected = await select_admissions(context, admission, directory, MAX_ADMITTED, leaving=job_id)
            try:
                admission, place = admit_or_queue(
                    selected.admission, directory, replace(place, candidate=candidate or place.candidate), now
                )
            except QueueFull as full:
                raise Contended(f"the tenant has {full.limit} waiting queues, the maximum") from None
            selected = replace(selected, admission=admission)
        elif owed is Owed.STEP_OUT and place.state is not PlaceState.OFF:
            admission, place = set_aside(stored.admission, place)
            selected = await select_admissions(context, admission, directory, MAX_ADMITTED, leaving=job_id)
        else:
            return AdmittedJobs()
        check_at = due_at if place.state in (PlaceState.WAITING, PlaceState.OFF) else now + FIRST_CHECK
        write = await prepare_write(context, stored, directory, selected)
        await context.index.move_place(active, place, check_at, write)
        await send_follow_ups(context, write, directory)
        return get_admitted(selected)

    return await act_on_admission(context, tenant, act, counts_patience=COUNTS_PATIENCE)


async def holds_slot(context: Context, tenant: str, job_id: str) -> bool:
    """Returns `True` if a job that was paused is active now, and then writes the admission state unchanged.

    Race place: another process may have read the job while it was paused, and removes its place. This write makes that
    process's write fail. Raises Contended, LedgerUnavailable.
    """

    async def act(stored: StoredAdmission, directory: Directory) -> bool:
        active = await context.index.read_active(tenant, job_id)
        if active is None or active.counted_place.is_staged:
            return False
        await context.index.write_admission(AdmissionWrite(before=stored, after=stored.admission))
        return True

    return await act_on_admission(context, tenant, act)
