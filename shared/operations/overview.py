"""Reads the overview of all tenants from existing counts, so its cost does not depend on the number of jobs. The
overview of one tenant also reads at most 1,000 of the tenant's ACTIVE rows.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.filters import IncidentFilter
from shared.core.gates.tight_quotas import TightQuota, select_tight_quotas
from shared.core.gates.type_breaker import sync_breakers
from shared.core.incidents import Incident, IncidentState
from shared.core.overview.minutes import KEPT_FOR, MinuteCounts
from shared.core.overview.overview import Down, Overview, Service
from shared.errors import LedgerUnavailable
from shared.operations.gates.admission_turns import read_directory
from shared.operations.gates.waiting import add_ages
from shared.operations.incidents.incidents import list_incidents
from shared.operations.process.context import Context
from shared.operations.process.readiness import Dependency, sweeper_late
from shared.ports.rejected import Rejection
from shared.ports.sweeps import Backlog, Heard, SweepMark, WorkCounts

#: maximum open incidents and rejected messages that are shown, and maximum living jobs of one tenant that are counted;
#: higher numbers show as "at least"
_MAX_READ, _MAX_COUNTED = 50, 1_000
_REJECTED_WITHIN = timedelta(hours=1)


async def read_overview(
    context: Context, tenant: str | None, dependencies: Sequence[Dependency], mark: SweepMark | None
) -> Overview:
    """Reads the overview of `tenant` (normalised), or of all tenants for None.

    If the tables cannot be read and a dependency is known to be down, the overview has only the dependencies that are
    down. Raises LedgerUnavailable if no dependency is known to be down.
    """
    down = [Down(name=each.name, reason=each.fault, since=each.since) for each in dependencies if each.fault]
    try:
        return replace(await _read(context, tenant, mark), down=down)
    except LedgerUnavailable:
        if not down:
            raise
        return Overview(at=context.clock.now(), tenant=tenant, down=down)


async def _read(context: Context, tenant: str | None, mark: SweepMark | None) -> Overview:
    now = context.clock.now()
    whole = context.of_all_tenants
    minutes, heard, (incidents, has_more), rejected = await asyncio.gather(
        whole.minutes.read(now - KEPT_FOR),
        whole.answers.read(),
        _list_open_incidents(context, tenant),
        _list_rejected(context, tenant, now - _REJECTED_WITHIN),
    )
    counts = mark.counts if mark is not None else WorkCounts()
    active = counts.active if tenant is None else await _count_active(context, tenant)
    suspended = mark.suspended_hooks if mark is not None else Counter[str]()
    waiting = [each for each in rejected[:_MAX_READ] if each.redriven_at is None]
    return Overview(
        at=now,
        tenant=tenant,
        swept_at=mark.ended_at if mark is not None else None,
        sweeper_late=sweeper_late(mark, now),
        active=active,
        active_at_least=tenant is not None and active.total() == _MAX_COUNTED,
        services=_make_services(heard, counts, tenant),
        quotas=(mark.quotas if mark is not None else ())
        if tenant is None
        else await _find_tight_quotas(context, tenant),
        incidents=incidents,
        incidents_at_least=has_more,
        rejected=Counter(each.reason for each in waiting),
        rejected_at_least=len(rejected) > _MAX_READ,
        rejected_since=waiting[-1].received_at if waiting else None,
        suspended_hooks=suspended
        if tenant is None
        else Counter({tenant: suspended[tenant]} if tenant in suspended else {}),
        minutes=minutes
        if tenant is None
        else {minute: _select_tenant(each, tenant) for minute, each in minutes.items()},
    )


async def _list_open_incidents(context: Context, tenant: str | None) -> tuple[list[Incident], bool]:
    """Returns at most 50 open incidents, and `True` if there may be more."""
    if tenant is None:
        # the list may have an incident that was closed just now
        rows = await context.incidents.list_open(after=None, limit=_MAX_READ + 1)
        return [row.incident for row in rows[:_MAX_READ]], len(rows) > _MAX_READ
    only_open = IncidentFilter(tenant_id=tenant, states=frozenset({IncidentState.OPEN}))
    page = await list_incidents(context, only_open, after=None, limit=_MAX_READ)
    return page.lines, page.after is not None


async def _list_rejected(context: Context, tenant: str | None, since: datetime) -> list[Rejection]:
    """Returns at most 51 rejected messages, newest first, one more than the overview counts."""
    today = context.clock.now().date()
    found = await context.rejected.list_days(since.date(), today, tenant=tenant, after=None, limit=_MAX_READ + 1)
    return [each for each in found if each.received_at >= since]


async def _count_active(context: Context, tenant: str) -> Counter[str]:
    rows = await context.index.list_active(tenant, after=None, limit=_MAX_COUNTED, unread=[])
    return Counter(row.status for row in rows)


async def _find_tight_quotas(context: Context, tenant: str) -> list[TightQuota]:
    known, stored = await read_directory(context), await context.admissions.read(tenant)
    if stored is None or not known.concerns(tenant):
        return []
    # the stored counts, since an overview counts no jobs
    admission = sync_breakers(stored.admission, known)
    return await add_ages(context, {tenant: admission}, select_tight_quotas([admission], known, context.clock.now()))


def _make_services(heard: dict[str, Heard], counts: WorkCounts, tenant: str | None) -> list[Service]:
    """Returns the services. For one tenant, a service has only `silent_since`, since the other numbers cover all
    tenants.
    """
    names = sorted({*heard, *(service for service, _ in counts.backlogs), *counts.processing})
    found: list[Service] = []
    for name in names:
        known = heard.get(name, Heard())
        silent_since: datetime | None = None if known.has_answered_since else known.silent_since
        if tenant is not None:
            found.append(Service(name=name, silent_since=silent_since))
            continue
        backlog = sum((each for (service, _), each in counts.backlogs.items() if service == name), Backlog())
        found.append(
            Service(
                name=name,
                answered_at=known.answered_at,
                silent_since=silent_since,
                waiting=backlog.count,
                waiting_since=backlog.since,
                in_flight=counts.processing[name],
            )
        )
    return found


def _select_tenant(counts: MinuteCounts, tenant: str) -> MinuteCounts:
    return MinuteCounts(ends=Counter({end: number for end, number in counts.ends.items() if end[0] == tenant}))
