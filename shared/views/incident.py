"""Incidents as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.core import incidents as core
from shared.responses.incident import Incident, IncidentDetail, IncidentLinks, IncidentLogEntry


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
