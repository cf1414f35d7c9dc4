"""Checks due jobs and clears ended jobs, with tenants in turns (R19, R21)."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from shared.core.records.canonical import encode_key
from shared.operations.incidents.row_incidents import POSTPONED_FOR
from shared.operations.sweeper.repair import postpone, repair
from shared.operations.sweeper.report import Action, RepairKind
from shared.operations.sweeper.retention import clear
from shared.operations.sweeper.state import IsOver, Pass
from shared.operations.sweeper.turns import from_on, in_turns
from shared.ports.index import ActiveRow, EndedRow

_Piece = TypeVar("_Piece")


async def look_at_due(one: Pass, is_over: IsOver) -> None:
    """Checks the due jobs, with tenants in turns, the longest due job of a tenant first."""
    stopped_at = await _in_turns(one, from_on([*one.awake], one.position.look), _due(one), _look(one), is_over)
    one.position = replace(one.position, look=stopped_at)


async def look_again(one: Pass, is_over: IsOver) -> None:
    """Continues the checks of due jobs in the time that the clearings left."""
    if one.position.look is not None and not is_over():
        await look_at_due(one, is_over)


async def look_at(one: Pass, tenants: Sequence[str], is_over: IsOver) -> None:
    """Checks the newly due jobs of these tenants."""
    for tenant in tenants:
        one.last_due.pop(tenant, None)
    await _in_turns(one, sorted(tenants), _due(one), _look(one), is_over)


async def look_at_job(one: Pass, active: ActiveRow) -> None:
    """Checks one job, due or not."""
    await _look(one)(active)


async def clear_ended(one: Pass, is_over: IsOver) -> None:
    """Clears ended jobs, with tenants in turns, the earliest due job of a tenant first."""
    index, last = one.context.index, dict[str, EndedRow]()

    async def page(tenant: str, limit: int) -> list[EndedRow]:
        found = await index.due_for_clearing(tenant, now=one.began, limit=limit, after=last.get(tenant))
        if found:
            last[tenant] = found[-1]
        return found

    tenants = from_on([*one.awake], one.position.clear)
    stopped_at = await _in_turns(one, tenants, page, lambda ended: _clear(one, ended), is_over)
    one.position = replace(one.position, clear=stopped_at)


async def _in_turns(
    one: Pass,
    tenants: Sequence[str],
    page: Callable[[str, int], Awaitable[Sequence[_Piece]]],
    serve: Callable[[_Piece], Awaitable[None]],
    is_over: IsOver,
) -> str | None:
    """Serves the tenants in turns. Returns the next tenant if the time is over first, else None.

    A tenant whose rows cannot be listed does not delay the others. After all other work, the sweep raises the fault of
    that tenant.
    """

    async def list_due(tenant: str, limit: int) -> Sequence[_Piece]:
        try:
            return await page(tenant, limit)
        except Exception as fault:
            one.faults.append(fault)
            await one.report_fault("SWEEP_FAILED", fault, row=f"{encode_key(tenant)} DUE", tenant_id=tenant)
            return []

    return await in_turns(tenants, list_due, serve, is_over)


def _due(one: Pass) -> Callable[[str, int], Awaitable[list[ActiveRow]]]:
    async def page(tenant: str, limit: int) -> list[ActiveRow]:
        after = one.last_due.get(tenant)
        found = await one.context.index.due(tenant, now=one.began, limit=limit, after=after)
        if found:
            one.last_due[tenant] = found[-1]
        return found

    return page


def _look(one: Pass) -> Callable[[ActiveRow], Awaitable[None]]:
    async def look(active: ActiveRow) -> None:
        row, now = f"{encode_key(active.tenant)} ACTIVE:{active.job_id}", one.context.clock.now
        one.report.looked_at += 1
        try:
            await repair(one.context, one.orchestrations, active, one.report)
        except Exception as fault:
            ids = {"jobId": active.job_id, "tenant_id": active.tenant}
            lasts = await one.report_fault("SWEEP_FAILED", fault, row=row, **ids)
            one.report.add_action(active.job_id, RepairKind.FAILED)
            if not one.dry_run and active.check_at <= now():
                with contextlib.suppress(Exception):
                    # moved behind waiting jobs, so that failing jobs do not block the tenant's others
                    await postpone(one.context, active, now() + POSTPONED_FOR if lasts else now())
        else:
            one.note_success(row)

    return look


async def _clear(one: Pass, ended: EndedRow) -> None:
    """Clears one job, or names it in a dry run. A job that cannot be cleared is left for a later sweep."""
    if one.dry_run:
        one.report.add_action(ended.job_id, RepairKind.CLEAR)
        return
    row, now = f"{encode_key(ended.tenant)} ENDED:{ended.job_id}", one.context.clock.now
    try:
        action = await clear(one.context, one.orchestrations, ended)
    except Exception as fault:
        ids = {"jobId": ended.job_id, "tenant_id": ended.tenant}
        lasts = await one.report_fault("CLEAR_FAILED", fault, row=row, **ids)
        action = RepairKind.FAILED
        with contextlib.suppress(Exception):
            # moved behind waiting jobs
            until = now() + POSTPONED_FOR if lasts else now()
            await one.context.index.reschedule_clearing(ended, until, purged=ended.purged)
    else:
        one.note_success(row)
    one.report.actions.append(Action(ended.job_id, action))
