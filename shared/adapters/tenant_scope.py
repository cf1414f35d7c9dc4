"""The ledger as one tenant sees it: another's job is not there, whatever an operation does with its id."""

from __future__ import annotations

from collections.abc import Sequence

from shared.access.caller import Caller
from shared.core.job import Event, Record
from shared.ports.ledger import Ledger, Stored


class TenantLedger:
    """See `shared.ports.ledger.Ledger`. One a request: events are given only of jobs that this one has read."""

    def __init__(self, ledger: Ledger, caller: Caller) -> None:
        self._ledger = ledger
        self._caller = caller
        self._seen: set[str] = set()

    async def read(self, job_id: str) -> Stored | None:
        stored = await self._ledger.read(job_id)
        if stored is None or not self._caller.may_see(stored.record.job.tenant_id):
            return None
        self._seen.add(job_id)
        return stored

    async def create(self, record: Record, event: Event) -> Stored:
        self._check(self._caller.may_see(record.job.tenant_id))
        self._seen.add(record.job.job_id)
        return await self._ledger.create(record, event)

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        self._check(before.record.job.job_id in self._seen)
        return await self._ledger.commit(before, after, events)

    async def remove(self, stored: Stored) -> None:
        self._check(stored.record.job.job_id in self._seen)
        await self._ledger.remove(stored)

    async def delete_remainder(self, job_id: str) -> None:
        self._check(job_id in self._seen)
        await self._ledger.delete_remainder(job_id)

    async def find_event(self, job_id: str, cause_id: str) -> Event | None:
        return await self._ledger.find_event(job_id, cause_id) if job_id in self._seen else None

    async def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        if job_id not in self._seen:
            return []
        return await self._ledger.events(job_id, after_seq=after_seq, limit=limit)

    @staticmethod
    def _check(allowed: bool) -> None:
        if not allowed:
            # a fault of ours: no request gets this far with a job that it has not read
            raise PermissionError("a job of another tenant")
