"""Adds accepted jobs to their tenant's waiting queue, after their rows exist (R48, R49).

Jobs of one tenant that wait in one process are decided in order and written in one transaction.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.core.gates import places
from shared.core.gates.admission_state import Candidate
from shared.core.gates.places import Owed, Place, PlaceState, QueueFull, admit_or_queue
from shared.core.gates.rules import Directory
from shared.errors import Contended, LedgerRefused
from shared.operations.gates.admission_turns import (
    COUNTS_PATIENCE,
    MAX_JOBS,
    AdmittedJobs,
    QuotasUnknown,
    act_on_admission,
    count_admission_room,
    get_admitted,
    prepare_write,
    select_admissions,
    send_follow_ups,
)
from shared.operations.process.concurrency import run_concurrently
from shared.operations.process.context import Context
from shared.ports.admissions import StoredAdmission
from shared.ports.index import FIRST_CHECK, ActiveRow, PlaceMove

#: operations for each joining job
_OPERATIONS_OF_JOIN = 4


@dataclass(eq=False, kw_only=True)
class Join:
    """A job that waits in this process to join its tenant's waiting queue."""

    job_id: str
    #: the job as its quotas see it now; None if unchanged
    candidate: Candidate | None
    #: time of the sweeper's next check of the waiting job
    due_at: datetime
    is_done: bool = False
    entered: AdmittedJobs = field(default_factory=AdmittedJobs)
    #: set if the tenant has too many queues, or its quotas or counts are not known now
    refused: Contended | None = None

    def end(self, entered: AdmittedJobs | None = None, refused: Contended | None = None) -> None:
        self.is_done, self.entered, self.refused = True, entered or AdmittedJobs(), refused


async def join_queue(
    context: Context, tenant: str, job_id: str, due_at: datetime, *, candidate: Candidate | None
) -> AdmittedJobs:
    """Adds the job to its waiting queue, or admits the job, if JOIN_QUEUE is still due.

    Returns the waiting jobs that the transaction admitted, which the caller starts. If several callers share the
    transaction, only one of them gets these jobs. Raises BeingCounted, Contended, LedgerUnavailable.
    """
    turn = context.process.gate_directory.turn(tenant)
    own = Join(job_id=job_id, candidate=candidate, due_at=due_at)
    joins: list[Join] = turn.joins
    joins.append(own)

    async def act(stored: StoredAdmission, directory: Directory) -> None:
        if not own.is_done:
            await _Together(context, stored, directory).join(_select_together([own, *joins]))

    try:
        async with turn.joining:
            if not own.is_done:
                await act_on_admission(context, tenant, act, counts_patience=COUNTS_PATIENCE)
    except QuotasUnknown as unknown:
        for each in (each for each in joins if not each.is_done):
            each.end(refused=unknown)
    finally:
        joins.remove(own)
    if own.refused is not None:
        raise own.refused
    return own.entered


def _select_together(joins: Sequence[Join]) -> list[Join]:
    """Selects the jobs of one transaction, each job once."""
    found = {each.job_id: each for each in reversed(joins) if not each.is_done}
    first = joins[0]
    others = (each for each in found.values() if each.job_id != first.job_id)
    return [first, *itertools.islice(others, MAX_JOBS - 1)]


@dataclass(frozen=True)
class _Together:
    """One turn of a tenant's joining jobs."""

    context: Context
    stored: StoredAdmission
    directory: Directory

    async def join(self, joins: Sequence[Join]) -> None:
        """Joins the jobs that fit into one transaction, at least the first.

        Raises Conflict and AlreadyExists if the admission state or a row changed, LedgerRefused, LedgerUnavailable.
        """
        try:
            await self._join(joins)
        except LedgerRefused:
            if len(joins) == 1:
                raise
            # a row of one job must not stop the others
            await self._join(joins[:1])

    async def _join(self, joins: Sequence[Join]) -> None:
        context, directory = self.context, self.directory
        now = context.clock.now()
        found = await run_concurrently(joins, self._read_owed)
        # waiting jobs go first
        selected = await select_admissions(
            context, self.stored.admission, directory, count_admission_room(_OPERATIONS_OF_JOIN * len(joins))
        )
        admission = selected.admission
        changed: list[tuple[Join, PlaceMove]] = []
        ended: list[tuple[Join, Contended | None]] = []
        for each, owing in zip(joins, found, strict=True):
            if owing is None:
                ended.append((each, None))
                continue
            active, place = owing
            try:
                admission, place = admit_or_queue(
                    admission, directory, replace(place, candidate=each.candidate or place.candidate), now
                )
            except QueueFull as full:
                ended.append((each, Contended(f"the tenant has {full.limit} waiting queues, the maximum")))
                continue
            check_at = each.due_at if place.state is PlaceState.WAITING else now + FIRST_CHECK
            changed.append((each, PlaceMove(active, place, check_at)))
        if changed:
            write = await prepare_write(context, self.stored, directory, replace(selected, admission=admission))
            await context.index.move_places([move for _, move in changed], write)
            await send_follow_ups(context, write, directory)
        entered = get_admitted(selected)
        for each, _ in changed:
            each.end(entered)
            # the first one starts the admitted jobs
            entered = AdmittedJobs()
        for each, refused in ended:
            each.end(refused=refused)

    async def _read_owed(self, join: Join) -> tuple[ActiveRow, Place] | None:
        """Returns the job's row and place if it must still join the queue, else None."""
        tenant = self.stored.admission.tenant
        active = await self.context.index.read_active(tenant, join.job_id)
        if active is None:
            return None
        place = active.counted_place
        if place.state is PlaceState.ARRIVING:
            return active, place
        if place.state is not PlaceState.OFF:
            return None
        # Race place: a process that changed the job since may have moved its place
        stored = await self.context.ledger.read(join.job_id)
        if stored is None or places.find_owed(stored.record.job, place) is not Owed.JOIN_QUEUE:
            return None
        return active, place
