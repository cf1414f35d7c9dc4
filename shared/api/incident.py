"""Incidents and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.api.response import Cursor, Instant, JobId, Partial, Response, Why
from shared.core import incidents as core


class IncidentRequest(BaseModel):
    """Reason for resolving, redriving or dismissing an incident, or for dismissing a dead letter."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    reason: Why
    """Reason, one line. Recorded in the log of the incident, if any."""


IncidentId = Annotated[str, Field(examples=["inc_job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]

IncidentKindName = Literal["JOB", "BREAKER", "SERVICE", "ROW"]

IncidentStateName = Literal["OPEN", "RESOLVED", "RETRIED", "DISMISSED"]


class IncidentLinks(Response):
    """Paths of the incident. `resolve`, `retry` and `dismiss` require POST."""

    self: str
    resolve: str
    retry: str | None
    """Path of the redrive of the incident's job. Null if the incident has no job."""
    dismiss: str
    job: str | None
    """Path of the failed job."""
    retried_by: str | None
    """Path of the new job of the redrive."""


class Incident(Response):
    """A condition that needs an operator: an escalated job failure, an open breaker, a silent service, or a row that
    LUCIUS cannot process."""

    incidentId: IncidentId
    kind: IncidentKindName
    subject: str
    """Id of the job, id of the quota, name of the service, or key of the row."""
    tenant: str | None
    """Tenant, trimmed and lower-cased. Null if the incident belongs to no tenant."""
    request_type: str | None
    state: IncidentStateName
    """State of the incident. OPEN until a caller closes the incident, or the cause ends. The other states are
    final."""
    code: Annotated[str, Field(examples=["ATTEMPTS_EXHAUSTED"])]
    """Code of the cause. For an incident of a job, the `error_code` of the job."""
    detail: str | None
    """Cause in words, at most 1,000 characters."""
    opened_at: Instant
    settled_at: Instant | None
    settled_by: str | None
    """Actor that closed the incident. `system` if LUCIUS closed the incident, for example because the cause ended."""
    reason: str | None
    """Reason that the actor gave."""
    retried_by: JobId | None
    """RETRIED only. Id of the new job that the redrive created."""
    links: IncidentLinks


class IncidentLogEntry(Response):
    """Entry of an incident's log. Entries are numbered without gaps, and each entry has the hash of the previous
    entry."""

    incident_id: IncidentId
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["OPENED"])]
    actor: str
    reason: str
    at: Instant
    data: dict[str, Any]
    """States `before` and `after`. For RETRIED, also `retried_by` with the id of the new job."""
    prev_hash: str
    hash: str


class IncidentDetail(Incident):
    """An incident with its log."""

    log: list[IncidentLogEntry]


class IncidentPage(Response):
    """Incidents, most recently opened first."""

    incidents: list[Incident]
    next: Cursor
    partial: Partial


def incident(row: core.Incident) -> Incident:
    """Makes an incident as an item of a list."""
    return Incident.of(row, **_members(row))


def incident_detail(row: core.Incident, log: Sequence[core.IncidentEntry]) -> IncidentDetail:
    """Makes an incident with its log."""
    return IncidentDetail.of(row, **_members(row), log=[IncidentLogEntry.of(entry) for entry in log])


def _members(row: core.Incident) -> dict[str, Any]:
    path, of_job = f"/v1/incidents/{row.id}", row.kind is core.IncidentKind.JOB
    links = IncidentLinks(
        self=path,
        resolve=f"{path}:resolve",
        retry=f"{path}:retry" if of_job else None,
        dismiss=f"{path}:dismiss",
        job=f"/v1/jobs/{row.subject}" if of_job else None,
        retried_by=f"/v1/jobs/{row.retried_by}" if row.retried_by is not None else None,
    )
    return {"incidentId": row.id, "kind": row.kind.value, "state": row.state.value, "links": links}
