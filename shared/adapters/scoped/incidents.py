"""The incidents as one caller reaches them (R24)."""

from __future__ import annotations

from datetime import datetime

from shared.access.caller import Caller
from shared.adapters.scoped.reach import Reach, check_seen, sweeper_only
from shared.core.incidents import SYSTEM, Incident, IncidentEntry, IncidentKind, Settlement
from shared.ports.incidents import IncidentRow, Incidents


class TenantIncidents:
    """See `shared.ports.incidents.Incidents`. Those that are no tenant's own are for callers of all tenants."""

    def __init__(self, incidents: Incidents, caller: Caller, *, moving: bool = False) -> None:
        self._incidents = incidents
        self._reach = Reach(caller, moving)

    async def read(self, home: str | None, incident_id: str, opened_at: datetime) -> Incident | None:
        found = await self._incidents.read(home, incident_id, opened_at)
        return found if found is not None and self._reach.takes(found.tenant) else None

    async def list_at(
        self,
        home: str | None,
        *,
        after: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[IncidentRow]:
        return await self._of(home).list_at(home, after=after, limit=limit, since=since, until=until)

    async def list_of_tenant(
        self,
        tenant: str,
        *,
        after: str | None,
        limit: int,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[IncidentRow]:
        return await self._of(tenant).list_of_tenant(tenant, after=after, limit=limit, since=since, until=until)

    async def list_open(
        self, *, after: str | None, limit: int, since: datetime | None = None, until: datetime | None = None
    ) -> list[IncidentRow]:
        return await self._of(None).list_open(after=after, limit=limit, since=since, until=until)

    async def enter_open(self, incident: Incident, now: datetime) -> None:
        self._reach.check_move(incident.tenant)
        await self._incidents.enter_open(incident, now)

    async def leave_open(self, incident: Incident, *, etag: str | None = None) -> None:
        self._reach.check_move(incident.tenant)
        await self._incidents.leave_open(incident, etag=etag)

    async def open(self, incident: Incident, entry: IncidentEntry, *, now: datetime | None = None) -> bool:
        # what the end of a job makes of its gate, whoever ends it
        return await self._incidents.open(incident, entry, now=now)

    async def find_open(self, kind: IncidentKind, subject: str) -> Incident | None:
        return await self._incidents.find_open(kind, subject)

    async def settle(self, incident: Incident, settlement: Settlement, *, stays: bool = False) -> Incident:
        if settlement.actor != SYSTEM:
            self._reach.check_move(incident.tenant)
        return await self._incidents.settle(incident, settlement, stays=stays)

    async def settled_before(self, before: datetime, *, after: str | None, limit: int) -> list[IncidentRow]:
        raise sweeper_only()

    async def remove(self, incident: Incident) -> None:
        raise sweeper_only()

    async def log(self, incident: Incident, *, after: int, limit: int) -> list[IncidentEntry]:
        return await self._of(incident.tenant).log(incident, after=after, limit=limit)

    def _of(self, tenant: str | None) -> Incidents:
        check_seen(self._reach.sees(tenant))
        return self._incidents
