"""The incidents in this process, beside `tests.memory_twins.jobs.MemoryIndex`."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import datetime

from shared.adapters.tables.keys import newest_first
from shared.core.incidents import (
    Incident,
    IncidentEntry,
    IncidentKind,
    Settlement,
    escalates,
    incident_of,
    job_incident_id,
    settled,
)
from shared.core.jobs.job import Job
from shared.errors import Contended
from shared.ports.dead_letters import ended_at
from shared.ports.incidents import IncidentRow


class MemoryIncidents:
    """See `shared.ports.incidents.Incidents`. Those of jobs are the index's, which writes them with its own rows."""

    def __init__(self) -> None:
        #: by home and row key, as in the tables
        self._rows: dict[str | None, dict[str, Incident]] = {}
        self._open: dict[str, IncidentRow] = {}
        self._log: dict[str, list[IncidentEntry]] = {}
        self._etags = itertools.count(1)

    async def read(self, home: str | None, incident_id: str, opened_at: datetime) -> Incident | None:
        return self._rows.get(home, {}).get(_key(opened_at, incident_id))

    async def list_at(
        self,
        home: str | None,
        *,
        after: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[IncidentRow]:
        rows = [IncidentRow(incident=each, cursor=key) for key, each in self._rows.get(home, {}).items()]
        return _page(rows, after, limit, since, until)

    async def list_of_tenant(
        self,
        tenant: str,
        *,
        after: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[IncidentRow]:
        found = self._rows.get(None, {}).items()
        rows = [IncidentRow(incident=each, cursor=key) for key, each in found if each.tenant == tenant]
        return _page(rows, after, limit, since, until)

    async def list_open(
        self, *, after: str | None, limit: int, since: datetime | None = None, until: datetime | None = None
    ) -> list[IncidentRow]:
        return _page([*self._open.values()], after, limit, since, until)

    async def enter_open(self, incident: Incident, now: datetime) -> None:
        key = _key(incident.opened_at, incident.id)
        etag = str(next(self._etags))
        self._open[key] = IncidentRow(incident=incident, cursor=key, entered_at=now, etag=etag)

    async def leave_open(self, incident: Incident, *, etag: str | None = None) -> None:
        key = _key(incident.opened_at, incident.id)
        found = self._open.get(key)
        if found is not None and etag in (None, found.etag):
            del self._open[key]

    async def open(self, incident: Incident, entry: IncidentEntry, *, now: datetime | None = None) -> bool:
        is_known = await self.read(None, incident.id, incident.opened_at) is not None
        if is_known or await self.find_open(incident.kind, incident.subject) is not None:
            return False
        self._put(incident, entry)
        await self.enter_open(incident, now or incident.opened_at)
        return True

    async def find_open(self, kind: IncidentKind, subject: str) -> Incident | None:
        found = self._rows.get(None, {}).values()
        return next((each for each in found if each.is_open and (each.kind, each.subject) == (kind, subject)), None)

    async def settle(self, incident: Incident, settlement: Settlement, *, stays: bool = False) -> Incident:
        found = await self.read(incident.home, incident.id, incident.opened_at)
        if found is None:
            raise Contended("the incident was archived meanwhile")
        after = settled(found, settlement)
        if after is None:
            return found
        self._put(*after)
        if incident.home is None and stays:
            await self.enter_open(after[0], settlement.at)
        elif incident.home is None:
            await self.leave_open(incident)
        return after[0]

    async def settled_before(self, before: datetime, *, after: str | None, limit: int) -> list[IncidentRow]:
        rows = await self.list_at(None, after=after, limit=10_000)
        return [row for row in rows if row.incident.settled_at is not None and row.incident.settled_at < before][:limit]

    async def remove(self, incident: Incident) -> None:
        self._rows.get(None, {}).pop(_key(incident.opened_at, incident.id), None)
        self._log.pop(incident.id, None)

    async def log(self, incident: Incident, *, after: int, limit: int) -> list[IncidentEntry]:
        return [entry for entry in self._log.get(incident.id, []) if entry.seq > after][:limit]

    def end(self, job: Job) -> None:
        """What the end of a job opens."""
        if (found := incident_of(job)) is not None:
            self._put(*found)

    def settle_of(self, job: Job, settlement: Settlement) -> None:
        """What goes with the end of its dead letter."""
        found = self._rows.get(job.tenant, {}).get(_key(ended_at(job), job_incident_id(job.job_id)))
        if escalates(job) and found is not None and (after := settled(found, settlement)) is not None:
            self._put(*after)

    def remove_of(self, job: Job) -> None:
        """What goes with the job."""
        incident_id = job_incident_id(job.job_id)
        self._rows.get(job.tenant, {}).pop(_key(ended_at(job), incident_id), None)
        self._log.pop(incident_id, None)

    def _put(self, incident: Incident, entry: IncidentEntry) -> None:
        self._rows.setdefault(incident.home, {})[_key(incident.opened_at, incident.id)] = replace(incident)
        log = self._log.setdefault(incident.id, [])
        self._log[incident.id] = [*(each for each in log if each.seq < entry.seq), entry]


def _key(opened_at: datetime, incident_id: str) -> str:
    return newest_first("", opened_at, incident_id).removeprefix(":")


def _page(
    rows: list[IncidentRow], after: str | None, limit: int, since: datetime | None, until: datetime | None
) -> list[IncidentRow]:
    return [
        row
        for row in sorted(rows, key=lambda row: row.cursor)
        if row.cursor > (after or "")
        and (since is None or row.incident.opened_at >= since)
        and (until is None or row.incident.opened_at < until)
    ][:limit]
