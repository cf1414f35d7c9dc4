"""Incidents. The tenant's partition has the incidents of jobs. The partition of all tenants has the other incidents,
and the list of open incidents.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, Unpack

from shared.core.incidents import Incident, IncidentEntry, IncidentKind, Settlement
from shared.ports.page_range import PageRange


@dataclass(frozen=True, kw_only=True)
class IncidentRow:
    """An incident in a list."""

    incident: Incident
    #: opaque position of this row for the next page; sorted as text over all lists, the newest comes first
    cursor: str
    #: time of its entry in the list of open ones
    entered_at: datetime | None = None
    etag: str = ""


class Incidents(Protocol):
    """Incidents. `shared.ports.index.Index` opens a job's incident together with the job's terminal state, and closes
    the incident together with the job's dead letter. `settle` closes any incident.

    Each method raises LedgerUnavailable. Lists are sorted by the opening time of an incident.
    """

    async def read(self, home: str | None, incident_id: str, opened_at: datetime) -> Incident | None:
        """Returns the incident, or None if it does not exist. `home` is the tenant of a job's incident, or None for an
        incident without a job.

        The precision of `opened_at` is one millisecond.
        """

    async def list_at(self, home: str | None, **page: Unpack[PageRange]) -> list[IncidentRow]:
        """Lists the incidents of the jobs of tenant `home`. `home` None means the incidents without a job."""

    async def list_of_tenant(self, tenant: str, **page: Unpack[PageRange]) -> list[IncidentRow]:
        """Lists the tenant's incidents without a job."""

    async def list_open(self, **page: Unpack[PageRange]) -> list[IncidentRow]:
        """Lists the open incidents of all tenants. The list can lack a job's incident that was just opened. It can also
        have incidents that were closed in the meantime (Race incident, R79).
        """

    async def enter_open(self, incident: Incident, now: datetime) -> None:
        """Adds an incident, in any state, to the list of open incidents. Idempotent."""

    async def leave_open(self, incident: Incident, *, etag: str | None = None) -> None:
        """Deletes an incident from the list of open incidents. With `etag`, does nothing if the incident was added
        again. Idempotent.
        """

    async def open(self, incident: Incident, entry: IncidentEntry, *, now: datetime | None = None) -> bool:
        """Opens an incident without a job. Returns `False` if an incident of its kind and subject is open, or if this
        incident was opened before.

        `now` is the time of the entry in the list of open incidents. Default: the opening time of the incident.
        """

    async def find_open(self, kind: IncidentKind, subject: str) -> Incident | None:
        """Returns the open incident without a job that has this kind and subject, or None."""

    async def settle(self, incident: Incident, settlement: Settlement, *, stays: bool = False) -> Incident:
        """Closes and returns an incident. If the incident is no longer open, returns the incident unchanged.

        An incident without a job leaves the list of open incidents in the same transaction. With `stays`, the incident
        stays in the list as a closed incident. Raises Contended.
        """

    async def list_settled(self, before: datetime, *, after: str | None, limit: int) -> list[IncidentRow]:
        """Returns incidents without a job that were closed earlier than `before`, newest first, after the cursor
        `after`. Rows that cannot be decoded are left out.
        """

    async def remove(self, incident: Incident) -> None:
        """Deletes a closed incident without a job, with its log. Idempotent."""

    async def log(self, incident: Incident, *, after: int, limit: int) -> list[IncidentEntry]:
        """Returns log entries in order, after number `after`."""
