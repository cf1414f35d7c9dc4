"""The lists of the API, as series of their lines (no I/O)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import Any

from lucius_client.calls import events_path
from lucius_client.models import DeadLetter, Event, JobLine, Protocol, RejectedLine
from lucius_client.retry import Retries
from lucius_client.series import Lines


def job_filters(
    tenant_id: str | None,
    status: str | Iterable[str] | None,
    request_type: str | None,
    label: str | None,
    since: datetime | None,
    until: datetime | None,
) -> dict[str, Any]:
    """The API's names and forms; `status` may be several."""
    statuses = status if isinstance(status, str) or status is None else ",".join(status)
    return {
        "tenant_id": tenant_id,
        "status": statuses,
        "request_type": request_type,
        "label": label,
        "since": since,
        "until": until,
    }


def jobs(filters: dict[str, Any], limit: int | None, retries: Retries) -> Lines[JobLine]:
    return Lines(JobLine, "/v1/jobs", "jobs", filters, limit=limit, retries=retries)


def events(job_id: str, limit: int | None, retries: Retries) -> Lines[Event]:
    return Lines(Event, events_path(job_id), "events", {}, limit=limit, retries=retries)


def dead_letters(tenant_id: str | None, limit: int | None, retries: Retries) -> Lines[DeadLetter]:
    return Lines(DeadLetter, "/v1/deadletters", "deadletters", {"tenant_id": tenant_id}, limit=limit, retries=retries)


def protocols(retries: Retries) -> Lines[Protocol]:
    return Lines(Protocol, "/v1/protocols", "protocols", {}, limit=None, retries=retries, paged=False)


def rejected(day: date | None, limit: int | None, retries: Retries) -> Lines[RejectedLine]:
    return Lines(RejectedLine, "/v1/rejected", "rejected", {"date": day}, limit=limit, retries=retries)
