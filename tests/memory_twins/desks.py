"""The desks in this process, beside `tests.memory_twins.jobs.MemoryIndex`."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import datetime

from shared.adapters.tables.keys import freed_row
from shared.core.gates.admission import Waiting
from shared.core.gates.ends import Freed
from shared.core.gates.log import LogEntry
from shared.core.gates.places import PlaceState
from shared.core.gates.rules import Gate, GateState, Rule
from shared.errors import AlreadyExists, Conflict
from shared.ports.desks import DeskWrite, DirectoryRows, LogPlace, StoredDesk, joined
from shared.ports.index import ActiveRow


class MemoryDirectory:
    """See `shared.ports.desks.QuotaDirectory`. Each row is a group."""

    def __init__(self) -> None:
        self._groups: dict[str, DirectoryRows] = {}
        self._versions: dict[str, int] = {}
        self._changes = itertools.count(1)

    async def versions(self) -> dict[str, int]:
        return dict(self._versions)

    async def group(self, name: str) -> DirectoryRows:
        return self._groups.get(name, DirectoryRows())

    async def groups(self) -> dict[str, DirectoryRows]:
        return dict(self._groups)

    async def directory(self) -> DirectoryRows:
        return joined(self._groups.values())

    async def enter_tenant(self, tenant: str, since: datetime) -> None:
        if (name := f"TENANT:{tenant}") not in self._groups:
            self.put_group(name, DirectoryRows(tenants={tenant: since}))

    async def remove_tenant(self, tenant: str) -> None:
        if (name := f"TENANT:{tenant}") in self._groups:
            self.put_group(name, None)

    async def put_default(self, gate: Gate, rule: Rule | None, since: datetime) -> None:
        rows = DirectoryRows(defaults={(gate.kind, gate.name): (rule, since)}) if rule is not None else None
        self.put_group(f"DEFAULT:{gate.id}", rows)

    async def put_over_all(self, gate: Gate, state: GateState | None, since: datetime) -> None:
        rows = DirectoryRows(over_all={gate.id: (state, since)}) if state is not None else None
        self.put_group(f"OVERALL:{gate.id}", rows)

    async def note_settings(self, since: datetime | None) -> None:
        self.put_group("SETTINGS", DirectoryRows(settings_since=since) if since is not None else None)

    def put_group(self, name: str, rows: DirectoryRows | None) -> None:
        """Puts the rows of a group, or removes them, with its next version."""
        self._versions[name] = next(self._changes)
        self._groups.pop(name, None)
        if rows is not None:
            self._groups[name] = rows


class MemoryDesks(MemoryDirectory):
    """See `shared.ports.desks.Desks`. Its rows are of the index, which moves them in its own transactions too."""

    def __init__(self) -> None:
        super().__init__()
        self._desks: dict[str, StoredDesk] = {}
        self._waiting: dict[tuple[str, int], dict[tuple[int, str], Waiting]] = {}
        #: by tenant and quota, each by number
        self._log: dict[tuple[str, str], dict[int, LogEntry]] = {}
        self._freed: dict[str, dict[str, Freed]] = {}
        self._etags = itertools.count(1)

    async def read(self, tenant: str) -> StoredDesk | None:
        return self._desks.get(tenant)

    async def first_waiting(self, tenant: str, line: int, limit: int) -> list[Waiting]:
        return [waiting for _, waiting in sorted(self._waiting.get((tenant, line), {}).items())][:limit]

    async def freed(
        self, tenant: str, *, after: Freed | None = None, limit: int, unread: list[str] | None = None
    ) -> list[Freed]:
        first = freed_row(after.job_id) if after is not None else ""
        return [each for key, each in sorted(self._freed.get(tenant, {}).items()) if key > first][:limit]

    async def drop_freed(self, tenant: str, job_id: str) -> None:
        self._freed.get(tenant, {}).pop(freed_row(job_id), None)

    def free(self, tenant: str, freed: Freed) -> None:
        """A FREED row in. Raises AlreadyExists."""
        rows, key = self._freed.setdefault(tenant, {}), freed_row(freed.job_id)
        if key in rows:
            raise AlreadyExists
        rows[key] = freed

    async def log(self, tenant: str, gate_id: str, *, after: int, limit: int) -> list[LogEntry]:
        log = self._log.get((tenant, gate_id), {})
        return [entry for seq, entry in sorted(log.items()) if seq > after][:limit]

    async def log_places(self, tenant: str, *, first: LogPlace, limit: int) -> list[LogPlace]:
        places = [
            LogPlace(gate_id, seq, entry.at)
            for (whose, gate_id), log in self._log.items()
            for seq, entry in log.items()
            if whose == tenant and (gate_id, seq) >= first[:2]
        ]
        return sorted(places, key=lambda place: place[:2])[:limit]

    async def drop_log(self, tenant: str, places: Sequence[LogPlace]) -> None:
        if any(place.seq not in self._log.get((tenant, place.gate_id), {}) for place in places):
            raise Conflict
        for place in places:
            del self._log[tenant, place.gate_id][place.seq]

    def check(self, write: DeskWrite) -> None:
        """Raises Conflict, AlreadyExists."""
        found = self._desks.get(write.after.tenant)
        if write.before is None and found is not None:
            raise AlreadyExists
        if write.before is not None and (found is None or found.etag != write.before.etag):
            raise Conflict
        rows = self._freed.get(write.after.tenant, {})
        if any(freed_row(each.job_id) not in rows for each in write.freed):
            raise Conflict
        if any(entry.seq in self._log.get((write.after.tenant, entry.gate_id), {}) for entry in write.log):
            raise AlreadyExists

    def put(self, write: DeskWrite) -> None:
        self._desks[write.after.tenant] = StoredDesk(write.after, str(next(self._etags)))
        for each in write.freed:
            del self._freed[write.after.tenant][freed_row(each.job_id)]
        for entry in write.log:
            self._log.setdefault((write.after.tenant, entry.gate_id), {})[entry.seq] = entry

    def leave_line(self, row: ActiveRow) -> None:
        place = row.place
        if place is not None and place.line is not None:
            key = (place.candidate.rank, row.job_id)
            self._waiting.get((row.tenant, place.line), {}).pop(key, None)

    def stand_in_line(self, row: ActiveRow) -> None:
        place = row.place
        if place is not None and place.state is PlaceState.WAITING and place.line is not None:
            waiting = Waiting(place.candidate, place.line, row.claim, row.created_at, row.check_at)
            line = self._waiting.setdefault((row.tenant, place.line), {})
            line[place.candidate.rank, row.job_id] = waiting
