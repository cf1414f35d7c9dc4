"""Limits the stores to one caller (R24). Jobs and messages that the caller cannot see do not exist for the caller.

A caller that sees every tenant may lack the right to change the tenants' jobs. So each write checks the tenant again. A
request that changes a job (`Route.moves`) is refused at its first read of a job that the caller can only see.

`ScopedTables` checks rows in a tenant's partition, which most tables have. This module checks rows in other partitions:
the ledger's, the rejected messages', the directory of quotas and the incidents without a job.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, NoReturn, TypeVar

from shared.access.caller import Caller
from shared.adapters.scoped.reach import Reach, check_seen
from shared.adapters.scoped.table import ScopedTables
from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.heads import TablesHeads
from shared.adapters.tables.hooks import TablesHooks
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.table_rows import TableRows
from shared.adapters.tables.usage import TablesUsage
from shared.core.gates.rules import EVERY, Gate, GateState, Rule
from shared.core.incidents import SYSTEM, Incident, IncidentEntry, Settlement
from shared.core.jobs.job import Event, Record
from shared.errors import DataLost, Undecodable, UnknownStatus
from shared.ports.feed import Feed, FeedIdentity
from shared.ports.incidents import IncidentRow
from shared.ports.ledger import ArchivedRow, Ledger, Stored
from shared.ports.rejected import RejectedMessage, RejectedMessages, Rejection
from shared.ports.runs import LogPart, RunArtifact, RunFiles

T = TypeVar("T")


class TenantLedger:
    """`shared.ports.ledger.Ledger`, limited to the tenants of one caller. Each request has its own ledger, which
    returns events only of jobs that the request has read or created.
    """

    def __init__(self, ledger: Ledger, caller: Caller, *, moving: bool = False) -> None:
        self._ledger = ledger
        self._reach = Reach(caller, moving)
        #: tenant of each job that was read or created, by job id
        self._seen: dict[str, str] = {}

    async def read(self, job_id: str) -> Stored | None:
        try:
            stored = await self._ledger.read(job_id)
        except (DataLost, Undecodable, UnknownStatus) as lost:
            if self._reach.takes(lost.tenant_id):
                raise
            return None
        if stored is None or not self._reach.takes(stored.record.job.tenant_id):
            return None
        self._seen[job_id] = stored.record.job.tenant_id
        return stored

    async def end_of(self, job_id: str) -> tuple[int, bool] | None:
        return await self._ledger.end_of(job_id) if job_id in self._seen else None

    async def create(self, record: Record, event: Event) -> Stored:
        self._reach.check_move(record.job.tenant_id)
        stored = await self._ledger.create(record, event)
        self._seen[record.job.job_id] = record.job.tenant_id
        return stored

    async def commit(self, before: Stored, after: Record, events: Sequence[Event]) -> Stored:
        self._check_move(before.record.job.job_id)
        return await self._ledger.commit(before, after, events)

    async def remove(self, stored: Stored, archived: ArchivedRow | None = None) -> None:
        self._check_move(stored.record.job.job_id)
        await self._ledger.remove(stored, archived)

    async def find_archived(self, job_id: str) -> ArchivedRow | None:
        try:
            row = await self._ledger.find_archived(job_id)
        except Undecodable as lost:
            if self._reach.takes(lost.tenant_id):
                raise
            return None
        return row if row is not None and self._reach.takes(row.tenant) else None

    async def delete_remainder(self, job_id: str, *, with_archived: bool = False) -> None:
        self._check_move(job_id)
        await self._ledger.delete_remainder(job_id, with_archived=with_archived)

    async def find_event(self, job_id: str, cause_id: str) -> Event | None:
        return await self._ledger.find_event(job_id, cause_id) if job_id in self._seen else None

    async def events(self, job_id: str, *, after_seq: int = 0, limit: int = 1000) -> list[Event]:
        if job_id not in self._seen:
            return []
        return await self._ledger.events(job_id, after_seq=after_seq, limit=limit)

    def _check_move(self, job_id: str) -> None:
        check_seen(job_id in self._seen)
        self._reach.check_move(self._seen[job_id])


class TenantRejected:
    """`shared.ports.rejected.RejectedMessages`, limited to the tenants of one caller. Each request has its own store,
    which marks only messages that the request has read.
    """

    def __init__(self, rejected: RejectedMessages, caller: Caller, *, moving: bool = False) -> None:
        self._rejected = rejected
        self._reach = Reach(caller, moving)
        #: tenant of each message that was read, by message id
        self._seen: dict[str, str | None] = {}

    async def quarantine(self, message: RejectedMessage) -> None:
        await self._rejected.quarantine(message)

    async def read(self, id_: str) -> RejectedMessage | None:
        try:
            message = await self._rejected.read(id_)
        except DataLost as lost:
            if self._reach.takes(lost.tenant_id):
                raise
            return None
        if message is None or not self._reach.takes(message.tenant):
            return None
        self._seen[id_] = message.tenant
        return message

    async def list_days(
        self, first: date, last: date, *, tenant: str | None, after: str | None, limit: int
    ) -> list[Rejection]:
        return await self._rejected.list_days(first, last, tenant=self._reach.only(tenant), after=after, limit=limit)

    async def mark(self, message: Rejection, *, redriven_at: datetime, outcome: str) -> None:
        check_seen(message.id in self._seen)
        self._reach.check_move(self._seen[message.id])
        await self._rejected.mark(message, redriven_at=redriven_at, outcome=outcome)

    async def delete_before(self, day: date, *, limit: int) -> int:
        raise _sweeper_only()

    async def purge(self, tenant: str, *, limit: int) -> int:
        raise _sweeper_only()


class TenantRuns:
    """`shared.ports.runs.RunFiles`, limited to the tenants of one caller. Checks the tenant of each run's folder."""

    def __init__(self, runs: RunFiles, caller: Caller) -> None:
        self._runs = runs
        self._reach = Reach(caller, moving=False)

    async def read_log(self, tenant: str, job_id: str, attempt: int, *, offset: int, limit: int) -> LogPart | None:
        self._reach.check_see(tenant)
        return await self._runs.read_log(tenant, job_id, attempt, offset=offset, limit=limit)

    async def artifacts(self, tenant: str, job_id: str, attempt: int) -> list[RunArtifact]:
        self._reach.check_see(tenant)
        return await self._runs.artifacts(tenant, job_id, attempt)

    async def link(self, tenant: str, job_id: str, attempt: int, name: str, *, until: datetime) -> str:
        self._reach.check_see(tenant)
        return await self._runs.link(tenant, job_id, attempt, name, until=until)


def sweeper_only(*names: str) -> Callable[[type[T]], type[T]]:
    """Makes the methods with these names raise PermissionError, even for rows of the caller's own tenant, since a sweep
    covers every tenant.
    """

    async def refuse_call(*_given: Any, **_named: Any) -> NoReturn:
        raise _sweeper_only()

    def refuse(store: type[T]) -> type[T]:
        for name in names:
            assert inspect.iscoroutinefunction(getattr(store, name)), name
            setattr(store, name, refuse_call)
        return store

    return refuse


def _sweeper_only() -> PermissionError:
    return PermissionError("only a sweep of every tenant calls this method")


class _OverScopedTables:
    """A store over the tables of one caller, made from a store of the process. Both stores share their state in memory.

    The class of the store is the second base of each subclass.
    """

    def __init__(self, store: object, caller: Caller, *, moving: bool = False) -> None:
        assert isinstance(store, type(self).__bases__[1]), f"no table checks the calls of {type(store)}"
        vars(self).update(vars(store))
        self._reach = Reach(caller, moving)
        for name, rows in vars(store).items():
            if isinstance(rows, TableRows):
                shared_tables = (rows.name,) if name == "_gates" else ()
                setattr(self, name, TableRows(ScopedTables(rows.account, self._reach, shared_tables), rows.name))


@sweeper_only(
    *("due", "reschedule_check", "restore_waiting", "refresh_listing", "withdraw", "write_owed"),
    *("awake_tenants", "put_to_sleep", "read_position", "write_position"),
    *("due_for_clearing", "clear_again", "finish_clearing", "delete_claim", "delete_listing"),
    *("list_job_rows", "drop_listed", "purge", "forget_tenant"),
)
class TenantIndex(_OverScopedTables, TablesIndex):
    """`shared.ports.index.Index`, limited to the tenants of one caller."""

    def __init__(self, store: object, caller: Caller, *, moving: bool = False) -> None:
        super().__init__(store, caller, moving=moving)
        self._tenants = self._tenants.over(lambda rows: ScopedTables(rows.account, self._reach, (rows.name,)))


@sweeper_only("log_places", "drop_log")
class TenantAdmissions(_OverScopedTables, TablesAdmissions):
    """`shared.ports.admissions.AdmissionStates`, limited to the tenants of one caller. At this layer, a caller
    that can change a tenant's jobs can change that tenant's quotas.
    """

    async def enter_tenant(self, tenant: str, since: datetime) -> None:
        self._reach.check_move(tenant)
        await super().enter_tenant(tenant, since)

    async def remove_tenant(self, tenant: str) -> None:
        self._reach.check_move(tenant)
        await super().remove_tenant(tenant)

    async def put_default(self, gate: Gate, rule: Rule | None, since: datetime) -> None:
        self._reach.check_move(EVERY)
        await super().put_default(gate, rule, since)

    async def put_over_all(self, gate: Gate, state: GateState | None, since: datetime) -> None:
        self._reach.check_move(EVERY)
        await super().put_over_all(gate, state, since)


@sweeper_only("list_settled", "remove")
class TenantIncidents(_OverScopedTables, TablesIncidents):
    """`shared.ports.incidents.Incidents`, limited to the tenants of one caller.

    Every caller can use `open`, `find_open`, and `settle` with LUCIUS as the actor, since LUCIUS uses these methods
    when a job ends. Only callers of all tenants can use incidents without a tenant.
    """

    async def read(self, home: str | None, incident_id: str, opened_at: datetime) -> Incident | None:
        if home is not None and not self._reach.sees(home):
            return None
        found = await super().read(home, incident_id, opened_at)
        return found if found is not None and self._reach.takes(found.tenant) else None

    async def list_at(self, home: str | None, **page: Any) -> list[IncidentRow]:
        self._reach.check_see(home)
        return await super().list_at(home, **page)

    async def list_of_tenant(self, tenant: str, **page: Any) -> list[IncidentRow]:
        self._reach.check_see(tenant)
        return await super().list_of_tenant(tenant, **page)

    async def list_open(self, **page: Any) -> list[IncidentRow]:
        self._reach.check_see(None)
        return await super().list_open(**page)

    async def log(self, incident: Incident, *, after: int, limit: int) -> list[IncidentEntry]:
        self._reach.check_see(incident.tenant)
        return await super().log(incident, after=after, limit=limit)

    async def enter_open(self, incident: Incident, now: datetime) -> None:
        self._reach.check_move(incident.tenant)
        await super().enter_open(incident, now)

    async def leave_open(self, incident: Incident, *, etag: str | None = None) -> None:
        self._reach.check_move(incident.tenant)
        await super().leave_open(incident, etag=etag)

    async def settle(self, incident: Incident, settlement: Settlement, *, stays: bool = False) -> Incident:
        if settlement.actor != SYSTEM:
            self._reach.check_move(incident.tenant)
        return await super().settle(incident, settlement, stays=stays)


@sweeper_only("work", "remove", "due", "drop_due", "drop_due_before")
class TenantBulks(_OverScopedTables, TablesBulks):
    """`shared.ports.bulks.Bulks`, limited to the tenants of one caller."""


@sweeper_only("tenants", "remove", "write", "forget", "forget_incidents", "purge")
class TenantFeed(_OverScopedTables, TablesFeed):
    """`shared.ports.feed.Feed`, limited to the tenants of one caller. A request can only read through this store."""

    def __init__(self, feed: Feed, caller: Caller, *, moving: bool = False) -> None:
        super().__init__(feed, caller, moving=moving)
        self._feed = feed

    async def identity(self) -> FeedIdentity:
        # the table's identity belongs to no tenant; the store of the process reads it once
        return await self._feed.identity()


@sweeper_only("remove_before", "write_completed")
class TenantHeads(_OverScopedTables, TablesHeads):
    """`shared.ports.heads.Heads`, limited to the tenants of one caller."""


@sweeper_only(
    *("hooks_with_ended", "hooks_with_log", "remove", "drop_log", "drop_pending"),
    *("list_noted", "forget"),
)
class TenantHooks(_OverScopedTables, TablesHooks):
    """`shared.ports.hooks.Hooks`, limited to the tenants of one caller."""


@sweeper_only(
    *("put_jobs", "put_peaks", "read_folding", "write_folding", "remove_before"),
    *("put_fold_again", "list_fold_again", "delete_fold_again", "read_position", "write_position"),
)
class TenantUsage(_OverScopedTables, TablesUsage):
    """`shared.ports.usage.Usage`, limited to the tenants of one caller."""
