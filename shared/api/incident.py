"""Incidents and their logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from shared.api.response import Cursor, Instant, JobId, Partial, Response, Why
from shared.core import incidents as core


class IncidentRequest(BaseModel):
    """Why an incident is resolved, retried or dismissed, or a dead letter dismissed."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    reason: Why
    """In words, on one line; it stands in the incident's log."""


IncidentId = Annotated[str, Field(examples=["inc_job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]


IncidentKindName = Literal["JOB", "BREAKER", "SERVICE", "ROW"]


IncidentStateName = Literal["OPEN", "RESOLVED", "RETRIED", "DISMISSED"]


class IncidentLinks(Response):
    """Paths of this API about the incident; all but `self` and `job` are for POST."""

    self: str
    resolve: str
    retry: str | None
    """Null: it is about no job."""
    dismiss: str
    job: str | None
    """The job that failed."""
    retried_by: str | None
    """The job that took its place."""


class Incident(Response):
    """A job that failed for a reason that escalates, a breaker that opened, or a service of which nobody answers."""

    incidentId: IncidentId
    kind: IncidentKindName
    subject: str
    """The job's id, the gate's id or the service's name."""
    tenant: str | None
    """Whose it is, trimmed and lower-cased; null: no tenant's own."""
    request_type: str | None
    state: IncidentStateName
    """OPEN until somebody acts on it, or it is over by itself; then it stays as it is."""
    code: Annotated[str, Field(examples=["ATTEMPTS_EXHAUSTED"])]
    """Why: of a job its `error_code`."""
    detail: str | None
    """In words, at most 1,000 characters of them."""
    opened_at: Instant
    settled_at: Instant | None
    settled_by: str | None
    """Who acted; `system`: it was over by itself."""
    reason: str | None
    """What that one said."""
    retried_by: JobId | None
    """RETRIED: the job that took the place of the failed one."""
    links: IncidentLinks


class IncidentLogEntry(Response):
    """What happened to an incident: numbered without gaps, chained to the one before by its hash."""

    incident_id: IncidentId
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["OPENED"])]
    actor: str
    reason: str
    at: Instant
    data: dict[str, Any]
    """States `before` and `after`."""
    prev_hash: str
    hash: str


class IncidentDetail(Incident):
    """An incident with all that happened to it."""

    log: list[IncidentLogEntry]


class IncidentPage(Response):
    """Incidents, the last that was opened first."""

    incidents: list[Incident]
    next: Cursor
    partial: Partial


def incident(row: core.Incident) -> Incident:
    """A line of a list."""
    return Incident.of(row, **_members(row))


def incident_detail(row: core.Incident, log: Sequence[core.IncidentEntry]) -> IncidentDetail:
    """One incident with its log."""
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
