"""Webhooks as the API shows them: an address by its host, a secret only where it was made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from shared.access.webhook_signature import shown
from shared.core.jobs.plan import origin
from shared.core.webhooks import webhooks as core
from shared.responses.webhook import (
    DefaultSecret,
    Delivery,
    Hook,
    HookDetail,
    HookFilter,
    HookLinks,
    HookLogEntry,
    HookSecret,
    HookTest,
)


def hook(row: core.Hook) -> Hook:
    """A line of a list."""
    return Hook.of(row, **_members(row))


def hook_detail(row: core.Hook, oldest_pending_at: datetime | None) -> HookDetail:
    """One webhook."""
    return HookDetail.of(row, **_members(row), oldest_pending_at=oldest_pending_at)


def hook_secret(row: core.Hook, secret: bytes) -> HookSecret:
    """One whose secret was made just now."""
    return HookSecret.of(row, **_members(row), secret=shown(secret))


def default_secret(row: core.Hook, secrets: Sequence[bytes]) -> DefaultSecret:
    """Of the hook `default`; `secrets`: those that sign now, newest first."""
    previous = shown(secrets[1]) if len(secrets) > 1 else None
    return DefaultSecret(
        secret=shown(secrets[0]),
        previous_secret=previous,
        previous_until=row.previous_until if previous is not None else None,
    )


def delivery(row: core.Delivery) -> Delivery:
    return Delivery.of(row, name=row.name or None, jobId=row.job_id, state=row.state.value)


def hook_test(answer: core.Answer) -> HookTest:
    return HookTest(delivered=answer.is_success, status=answer.status, error=answer.error, took_ms=answer.took_ms)


def log_entry(entry: core.HookEntry) -> HookLogEntry:
    return HookLogEntry.of(entry)


def _members(row: core.Hook) -> dict[str, Any]:
    path, has_address = f"/v1/webhooks/{quote(row.id, safe='')}", row.url is not None
    may_resume = row.state is not core.HookState.ENABLED or row.waits_until is not None
    # an operator of all tenants has to name it
    tenant = f"?tenant_id={quote(row.tenant, safe='')}"
    links = HookLinks(
        self=path + tenant,
        deliveries=f"{path}/deliveries{tenant}",
        log=f"{path}/log{tenant}",
        test=f"{path}:test{tenant}" if has_address else None,
        rotate=f"{path}:rotate{tenant}",
        resume=f"{path}:resume{tenant}" if may_resume else None,
    )
    return {
        "hookId": row.id,
        "url": origin(row.url) if row.url is not None else None,
        "format": row.format.value,
        "filter": HookFilter(
            types=sorted(row.filter.types), job_types=sorted(row.filter.job_types), labels=dict(row.filter.labels)
        ),
        "state": row.state.value,
        "secret_version": row.secret.version,
        "links": links,
    }
