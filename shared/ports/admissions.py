"""The tenants' admission states: active jobs, waiting jobs, and the tenants that have quotas (R48)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from shared.core.gates.admission import ASLEEP, QueuedJob
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.ends import Freed
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import Gate, GateKind, GateState, Rule


@dataclass(frozen=True)
class StoredAdmission:
    """An admission state as read, with the token that the next write must present."""

    admission: AdmissionState
    etag: str
    #: stored row, for the adapter alone
    row: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)


class LogPlace(NamedTuple):
    """The position of an entry in the logs of a tenant's quotas."""

    gate_id: str
    seq: int
    #: time of the entry; None if the row does not have it
    at: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class AdmissionWrite:
    """One change of an admission state, with the rows that it moves, written in one transaction."""

    #: state as read; None if the admission state is new
    before: StoredAdmission | None
    after: AdmissionState
    #: admitted jobs: their WAIT rows are deleted, their ACTIVE rows become active, and their DUE rows move to
    #: `check_at`
    admitted: tuple[QueuedJob, ...] = ()
    #: jobs that move to another waiting queue, with its number
    requeued: tuple[tuple[QueuedJob, int], ...] = ()
    #: time of the sweeper's check of the admitted jobs
    check_at: datetime = ASLEEP
    log: tuple[LogEntry, ...] = ()
    #: FREED rows that `after` has subtracted, which are deleted
    freed: tuple[Freed, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DirectoryRows:
    """The stored rows of the directory of quotas, of one group or of all."""

    #: tenants with quotas of their own, and the time since which they have them
    tenants: dict[str, datetime] = field(default_factory=dict)
    #: rules for every tenant, and the time since which each exists
    defaults: dict[tuple[GateKind, str], tuple[Rule, datetime]] = field(default_factory=dict)
    #: quotas over all tenants with a setting, and the time since which they have it
    over_all: dict[str, tuple[GateState, datetime]] = field(default_factory=dict)
    #: time since which a limit of the settings concerns every tenant; None if none does
    settings_since: datetime | None = None
    #: keys of rows, and of entries in rows, that this release cannot decode
    unread: tuple[str, ...] = ()


def joined(groups: Iterable[DirectoryRows]) -> DirectoryRows:
    """Returns the rows of all groups."""
    rows, unread = DirectoryRows(), list[str]()
    since: datetime | None = None
    for group in groups:
        rows.tenants.update(group.tenants)
        rows.defaults.update(group.defaults)
        rows.over_all.update(group.over_all)
        since = group.settings_since or since
        unread += group.unread
    return replace(rows, settings_since=since, unread=tuple(unread))


class QuotaDirectory(Protocol):
    """The tenants with quotas, the limits for every tenant, and the quotas over all tenants.

    The rows are in groups with versions. A change of a row changes the version of its group in the same transaction. So
    a process reads a group again only if its version differs. Each method raises LedgerUnavailable.
    """

    async def versions(self) -> dict[str, int]:
        """Returns the version of each group by the group's name. Versions can only be compared for equality."""

    async def group(self, name: str) -> DirectoryRows:
        """Returns the rows of one group, which can be empty."""

    async def groups(self) -> dict[str, DirectoryRows]:
        """Returns all rows by the names of their groups."""

    async def directory(self) -> DirectoryRows:
        """Returns all rows."""

    async def enter_tenant(self, tenant: str, since: datetime) -> None:
        """Adds a tenant that has quotas of its own since `since`. Writes nothing if the directory already has the
        tenant.

        Raises Contended, Undecodable.
        """

    async def remove_tenant(self, tenant: str) -> None:
        """Removes a tenant. Writes nothing if the directory does not have the tenant. Raises Contended, Undecodable."""

    async def put_default(self, gate: Gate, rule: Rule | None, since: datetime) -> None:
        """Writes a quota's limits for every tenant. `rule` None removes the limits. Raises Contended."""

    async def put_over_all(self, gate: Gate, state: GateState | None, since: datetime) -> None:
        """Writes the state of a quota over all tenants. `state` None removes the state. Raises Contended."""

    async def note_settings(self, since: datetime | None) -> None:
        """Records the time since which a limit of the settings applies to every tenant. None means no such limit.
        Raises Contended.
        """


class AdmissionStates(QuotaDirectory, Protocol):
    """The admission state and the waiting queues of a tenant, in the partition of the tenant's index, and the directory
    of quotas.

    Each method raises LedgerUnavailable.
    """

    async def read(self, tenant: str) -> StoredAdmission | None:
        """Reads the state. Returns None if the tenant has no state yet."""

    async def first_waiting(self, tenant: str, line: int, limit: int) -> list[QueuedJob]:
        """Returns the first jobs of the queue with number `line`, in order."""

    async def list_freed(
        self, tenant: str, *, after: Freed | None = None, limit: int, unread: list[str] | None = None
    ) -> list[Freed]:
        """Returns FREED rows of the tenant by job id, after `after`.

        `unread` collects the keys of rows that cannot be decoded. If `unread` is None, such a row raises Undecodable.
        """

    async def drop_freed(self, tenant: str, job_id: str) -> None:
        """Deletes the FREED row of a tenant without counts. Idempotent."""

    async def log(self, tenant: str, gate_id: str, *, after: int, limit: int) -> list[LogEntry]:
        """Returns log entries in order, after number `after`."""

    async def log_places(self, tenant: str, *, first: LogPlace, limit: int) -> list[LogPlace]:
        """Returns the positions of log entries of all the tenant's quotas, by quota and number, starting with
        `first`.
        """

    async def drop_log(self, tenant: str, places: Sequence[LogPlace]) -> None:
        """Deletes these entries, at most 100, all or none. Raises Conflict if an entry was already deleted."""
