"""A tenant's jobs, newest first (FEATURES E3)."""

from __future__ import annotations

import asyncio
from typing import Any

from shared.core.routing import normalise
from shared.core.states import JobStatus
from shared.core.view import links
from shared.operations.context import Context
from shared.ports import Listed

#: LIST rows say how a job ended, but of a living job only that it lives: its state is read from its own row
_READS_AT_ONCE = 16


async def list_jobs(
    context: Context,
    *,
    tenant_id: str | None,
    status: str | None,
    request_type: str | None,
    after: str | None,
    limit: int,
) -> tuple[list[dict[str, Any]], str | None]:
    """One page and the position to go on from; without a tenant, every tenant's newest, merged, one page only."""
    tenants = [normalise(tenant_id)] if tenant_id else await context.index.tenants()
    found: list[Listed] = []
    for tenant in tenants:
        found += await context.index.list_jobs(tenant, after=after, limit=limit)
    found.sort(key=lambda listed: listed.cursor)
    page = found[:limit]
    more = page[-1].cursor if len(page) == limit else None
    gate = asyncio.Semaphore(_READS_AT_ONCE)
    shown = await asyncio.gather(*(_line(context, listed, gate) for listed in page))
    kept = [
        line
        for line in shown
        if (status is None or line["status"] == status)
        and (request_type is None or line["request_type"] == request_type)
    ]
    return kept, more


async def _line(context: Context, listed: Listed, gate: asyncio.Semaphore) -> dict[str, Any]:
    status = listed.status
    step: str | None = None
    if not JobStatus(status).terminal:
        async with gate:
            stored = await context.ledger.read(listed.job_id)
        if stored is not None:
            status, step = stored.record.job.status.value, stored.record.job.current_step_id
    return {
        "jobId": listed.job_id,
        "tenant_id": listed.tenant_id,
        "request_type": listed.request_type,
        "status": status,
        "current_step_id": step,
        "labels": listed.labels,
        "created_at": listed.created_at.isoformat().replace("+00:00", "Z"),
        "links": links(listed.job_id),
    }
