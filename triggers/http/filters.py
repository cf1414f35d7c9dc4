"""The one filter grammar of lists (FEATURES E3): `tenant_id, status, request_type, since, until, label`."""

from __future__ import annotations

from datetime import UTC, datetime

import azure.functions as func

from shared.access.caller import Caller
from shared.core.states import JobStatus
from shared.errors import Refusal
from shared.operations.list_jobs import JobFilter

#: instants that a key of a LIST row can be compared with
_FIRST, _LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def parse_filter(req: func.HttpRequest, caller: Caller) -> JobFilter:
    """Raises Refusal (400) that names the parameter, and (403) for another tenant than the caller's."""
    return JobFilter(
        tenant_id=caller.tenant_for(req.params.get("tenant_id")),
        statuses=_statuses(req.params.get("status")),
        request_type=req.params.get("request_type"),
        since=_instant(req, "since"),
        until=_instant(req, "until"),
        label=_label(req.params.get("label")),
    )


def _statuses(given: str | None) -> frozenset[JobStatus] | None:
    if given is None:
        return None
    try:
        return frozenset(JobStatus(each.strip().upper()) for each in given.split(","))
    except ValueError:
        known = ", ".join(JobStatus)
        raise Refusal(400, "STATUS_INVALID", f"status is one or more of {known}, with commas between") from None


def _instant(req: func.HttpRequest, name: str) -> datetime | None:
    if (given := req.params.get(name)) is None:
        return None
    try:
        # an unescaped + of a query is a space
        instant = datetime.fromisoformat(given.strip().replace(" ", "+"))
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        detail = f"{name} must be an instant with its zone, for example 2026-01-27T10:00:00Z"
        raise Refusal(400, f"{name.upper()}_INVALID", detail)
    return min(max(instant, _FIRST), _LAST)


def _label(given: str | None) -> tuple[str, str] | None:
    if given is None:
        return None
    key, colon, value = given.partition(":")
    if not key or not colon:
        raise Refusal(400, "LABEL_INVALID", "label must be key:value")
    return key, value
