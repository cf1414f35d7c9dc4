"""Requests that read and change quotas, with the functions that read their responses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from lucius_client.calls import Call, _dump, _parse, _post, _reader, _text, page, quota_names, quota_path
from lucius_client.errors import NotLucius
from lucius_client.exchange import Request, Response
from lucius_client.models import Quota, QuotaChange, QuotaPage


def quota(tenant: str | None, job_type: str | None, source: str | None, name: str | None) -> Call[Quota]:
    """Requests a quota by its names. A tenant's own quota is the first item of the tenant's list."""

    def read(response: Response) -> Quota:
        found = _parse(QuotaPage, response).quotas
        if not found:
            raise NotLucius("the response is an empty list of quotas")
        return found[0]

    return Call(page("/v1/quotas", {"tenant": tenant, "type": job_type, "source": source, "name": name}), read)


#: numbers of a rule by name; those of a breaker are under `breaker`
RuleNumbers = Mapping[str, int | Mapping[str, float | None] | None]


def set_quota(known: Quota, numbers: RuleNumbers, *, reason: str, dry_run: bool) -> Call[QuotaChange]:
    """Merges `numbers` into the own limits of a quota, unless the quota has changed since it was read. A null removes a
    limit.
    """
    body = {**numbers, "reason": reason}
    request = Request(
        "PATCH",
        quota_path(known),
        query={**quota_names(known), **({"dryRun": "true"} if dry_run else {})},
        headers={"Content-Type": "application/json", "If-Match": known.etag},
        content=_dump(body),
    )
    return Call(request, _reader(QuotaChange))


def delete_quota(known: Quota, *, reason: str, dry_run: bool) -> Call[QuotaChange]:
    """Deletes the limits of a quota, unless the quota has changed since it was read."""
    query = {**quota_names(known), "reason": reason, **({"dryRun": "true"} if dry_run else {})}
    request = Request("DELETE", quota_path(known), query=query, headers={"If-Match": known.etag})
    return Call(request, _reader(QuotaChange))


def reset_breaker(known: Quota, *, reason: str) -> Call[QuotaChange]:
    """Closes a quota's circuit breaker."""
    request = _post(f"{quota_path(known)}:reset", {"reason": reason}, quota_names(known))
    return Call(request, _reader(QuotaChange))


def limit(action: str, **members: Any) -> Call[QuotaChange]:
    """Holds, resumes or throttles a quota. `action` is pause, resume or throttle. Fields that are None are omitted."""
    body = {name: _text(value) if isinstance(value, date) else value for name, value in members.items()}
    given = {name: value for name, value in body.items() if value is not None}
    return Call(_post(f"/v1/limits/{action}", given), _reader(QuotaChange))
