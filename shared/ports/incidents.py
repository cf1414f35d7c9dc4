"""Incidents: those of jobs in their tenant's partition, all others, and which ones are open, in one of all tenants."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Unpack

from shared.core.incidents import Incident, IncidentEntry, IncidentKind, Settlement
from shared.ports.page_range import PageRange


@dataclass(frozen=True, kw_only=True)
class IncidentRow:
    """An incident as a list has it."""

    incident: Incident
    #: opaque position of this row, for the next page; newest first in the order of text, over all lists
    cursor: str
    #: of the list of open ones: when it was entered there
    entered_at: datetime | None = None
    etag: str = ""


class Incidents(Protocol):
    """The rows of a job's incident are written by `shared.ports.index.Index` with its end, and with its dead letter's.

    Each method raises LedgerUnavailable. The lists go by the time at which an incident was opened.
    """

    async def read(self, home: str | None, incident_id: str, opened_at: datetime) -> Incident | None:
        """Reads an incident. `home`: the tenant of a job's incident, None for others. `opened_at` counts to the
        millisecond.
        """

    async def list_at(self, home: str | None, **page: Unpack[PageRange]) -> list[IncidentRow]:
        """Lists the incidents of a tenant's jobs. None: the incidents without a job."""

    async def list_of_tenant(self, tenant: str, **page: Unpack[PageRange]) -> list[IncidentRow]:
        """Lists the tenant's incidents without a job."""

    async def list_open(self, **page: Unpack[PageRange]) -> list[IncidentRow]:
        """Lists every open incident of all tenants, and some that were settled since (Race incident, R79)."""

    async def enter_open(self, incident: Incident, now: datetime) -> None:
        """Enters a job's incident, in any state, in the list of open ones. Idempotent."""

    async def leave_open(self, incident: Incident, *, etag: str | None = None) -> None:
        """Deletes it from the list of open ones. With `etag`: unless it was entered again. Idempotent."""

    async def open(self, incident: Incident, entry: IncidentEntry, *, now: datetime | None = None) -> bool:
        """Opens an incident without a job. False: one of its kind and subject is open already, or it was opened before.

        `now`: when it is entered in the list of open ones. Default: when it is opened.
        """

    async def find_open(self, kind: IncidentKind, subject: str) -> Incident | None:
        """Returns the open incident without a job of that kind and subject."""

    async def settle(self, incident: Incident, settlement: Settlement, *, stays: bool = False) -> Incident:
        """Settles an incident and returns it; one that is no longer open is returned unchanged.

        An incident without a job leaves the list of open ones in the same transaction; with `stays`, the list has it as
        it is now. Raises Contended.
        """

    async def settled_before(self, before: datetime, *, after: str | None, limit: int) -> list[IncidentRow]:
        """Incidents of no job that were settled before an instant, newest first, past the cursor `after`.

        Rows that cannot be decoded are left out.
        """

    async def remove(self, incident: Incident) -> None:
        """Removes a settled incident that is no job's, with its log; again is harmless."""

    async def log(self, incident: Incident, *, after: int, limit: int) -> list[IncidentEntry]:
        """Entries from number `after`, exclusive, in order."""
