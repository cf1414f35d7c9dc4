"""The lists of the index in this process: LIST, DEAD, DEP and DEPFAILED rows, for `tests.memory_twins.MemoryIndex`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.adapters.tables.keys import dead_row, list_row
from shared.core.incidents import Settlement
from shared.core.jobs.job import Job
from shared.core.jobs.routing import normalise
from shared.core.jobs.states import JobStatus
from shared.ports.dead_letters import DeadRow, LetterState, ended_at, letter_at_end
from shared.ports.index import ListRow
from tests.memory_twins.incidents import MemoryIncidents


class MemoryLists:
    """The part of `shared.ports.index.Index` that lists."""

    def __init__(self) -> None:
        #: by tenant and row key, as in the tables
        self._listed: dict[str, dict[str, ListRow]] = {}
        self._dead: dict[str, dict[str, DeadRow]] = {}
        #: DEP rows: who waits for the end of a job
        self._dependants: dict[tuple[str, str], set[str]] = {}
        #: DEPFAILED rows: who waited for a job that did not succeed
        self._failed_dependants: dict[tuple[str, str], set[str]] = {}
        #: those of jobs are in the same partition, and part of its transactions
        self.incidents = MemoryIncidents()

    async def list_jobs(
        self,
        tenant: str,
        *,
        after: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[ListRow]:
        rows = sorted(self._listed.get(tenant, {}).items())
        return [
            listed
            for row, listed in rows
            if row > (after or "")
            and (since is None or listed.created_at >= since)
            and (until is None or listed.created_at < until)
        ][:limit]

    async def delete_listing(self, job: Job) -> None:
        self._unlist(job.tenant, job.created_at, job.job_id)
        self._dead.get(job.tenant, {}).pop(dead_row(ended_at(job), job.job_id), None)
        for awaited in job.dependencies or ():
            self._failed_dependants.get((job.tenant, awaited), set()).discard(job.job_id)
        self.incidents.remove_of(job)

    async def dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        return [each for each in sorted(self._dependants.get((tenant, job_id), set())) if each > after][:limit]

    async def failed_dependants(self, tenant: str, job_id: str, *, limit: int, after: str = "") -> list[str]:
        found = sorted(self._failed_dependants.get((tenant, job_id), set()))
        return [each for each in found if each > after][:limit]

    async def is_dependant(self, tenant: str, job_id: str, dependant: str) -> bool:
        return dependant in self._dependants.get((tenant, job_id), set())

    async def drop_dependant(self, tenant: str, job_id: str, dependant: str, *, succeeded: bool = True) -> None:
        waiting = self._dependants.get((tenant, job_id), set())
        if dependant in waiting:
            waiting.discard(dependant)
            if not succeeded:
                self._failed_dependants.setdefault((tenant, job_id), set()).add(dependant)

    async def dead_letters(
        self, tenant: str, *, after: str | None, limit: int, since: datetime | None = None
    ) -> list[DeadRow]:
        rows = sorted(self._dead.get(tenant, {}).items())
        return [dead for row, dead in rows if row > (after or "") and (since is None or dead.ended_at >= since)][:limit]

    async def end_dead_letter(
        self, job: Job, state: LetterState, settlement: Settlement | None = None
    ) -> LetterState | None:
        listed = self._failed(job)
        if listed is None:
            return None
        if listed.dead_letter not in (None, LetterState.LISTED):
            return LetterState(listed.dead_letter)
        self._say(job, state)
        if settlement is not None:
            self.incidents.settle_of(job, settlement)
        return state

    def _list(self, job: Job) -> None:
        row = list_row(job.created_at, job.job_id)
        self._listed.setdefault(job.tenant, {})[row] = ListRow(
            job_id=job.job_id,
            tenant_id=job.tenant_id,
            request_type=job.request_type,
            status=job.status.value,
            current_step_id=job.current_step_id,
            labels=dict(job.labels),
            seq=job.event_seq,
            created_at=job.created_at,
            source=normalise(job.source or "") or None,
            cursor=row,
        )
        self._list_again(job)

    def _is_listed(self, job: Job) -> bool:
        return list_row(job.created_at, job.job_id) in self._listed.get(job.tenant, {})

    def _list_again(self, job: Job) -> None:
        listed, row = self._listed[job.tenant], list_row(job.created_at, job.job_id)
        step_id = job.current_step_id
        listed[row] = replace(
            listed[row],
            status=job.status.value,
            current_step_id=step_id,
            seq=job.event_seq,
            staged_at=job.staged_at,
            admitted_at=job.admitted_at,
            ended_at=job.completed_at,
        )

    def _list_end(self, job: Job) -> None:
        self._list_again(job)
        if (state := letter_at_end(job)) is not None:
            self._say(job, state)
            self.incidents.end(job)

    def _unlist(self, tenant: str, created_at: datetime, job_id: str) -> None:
        self._listed[tenant].pop(list_row(created_at, job_id), None)

    def _failed(self, job: Job) -> ListRow | None:
        listed = self._listed.get(job.tenant, {}).get(list_row(job.created_at, job.job_id))
        return listed if listed is not None and listed.status == JobStatus.FAILED_FINAL else None

    def _say(self, job: Job, state: LetterState) -> None:
        listed, row = self._listed[job.tenant], list_row(job.created_at, job.job_id)
        listed[row] = replace(listed[row], dead_letter=state.value)
        dead, key = self._dead.setdefault(job.tenant, {}), dead_row(ended_at(job), job.job_id)
        if state is not LetterState.LISTED:
            dead.pop(key, None)
            return
        dead[key] = DeadRow(
            job_id=job.job_id,
            tenant_id=job.tenant_id,
            request_type=job.request_type,
            labels=dict(job.labels),
            error_code=job.error_code,
            created_at=job.created_at,
            ended_at=ended_at(job),
            cursor=key,
        )
