"""Checks bulk operations in each sweep: running operations whose message may be lost, and ended operations past their
retention.

Tenants take turns, so that many bulk operations of one tenant do not delay those of others (R65).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.bulks import Bulk, BulkState
from shared.core.records.canonical import encode_key
from shared.operations.bulks.bulks import due_while_running
from shared.operations.bulks.work_bulk import work_bulk
from shared.operations.process.context import Context
from shared.operations.sweeper.state import IsOver, Pass
from shared.operations.sweeper.turns import AT_ONCE, from_anywhere, in_turns
from shared.ports.bulks import DueBulk
from shared.ports.durable import Orchestrations

#: time for a message to arrive before the sweeper does its work
_CALL_COMES = timedelta(seconds=30)
#: age at which an entry of the sweeper's list without a bulk operation is deleted
_CREATED_BY = timedelta(minutes=5)
#: maximum rows of a query, and maximum rows of an ended bulk operation that one check deletes
_PAGE, _MAX_REMOVED = 1000, 2000


async def look_at_bulks(one: Pass, is_over: IsOver) -> None:
    """Checks the due bulk operations, with tenants in turns, until the time is over.

    Raises LedgerUnavailable if the operations cannot be listed.
    """
    context = one.context
    due = await _due(context, one.share.has, is_over)
    if is_over() or not due:
        return

    async def page(tenant: str, limit: int) -> Sequence[DueBulk]:
        found, due[tenant] = due[tenant][:limit], due[tenant][limit:]
        return found

    async def check(bulk: DueBulk) -> None:
        row = f"{encode_key(bulk.tenant)} BULK:{bulk.bulk_id}"
        try:
            await _check(context, one.orchestrations, bulk)
        except Exception as fault:
            ids = {"bulk_id": bulk.bulk_id, "tenant_id": bulk.tenant}
            await one.report_fault("BULK_UNSEEN", fault, row=row, **ids)
        else:
            one.note_success(row)

    await in_turns(from_anywhere(sorted(due), context.random), page, check, is_over, pieces=AT_ONCE)


async def _due(context: Context, has: Callable[[str], bool], is_over: Callable[[], bool]) -> dict[str, list[DueBulk]]:
    """Returns the share's due bulk operations by tenant, the earliest due first."""
    now, found, last = context.clock.now(), dict[str, list[DueBulk]](), None
    while True:
        rows = await context.bulks.due(now=now, limit=_PAGE, after=last)
        for row in rows:
            if has(row.tenant):
                found.setdefault(row.tenant, []).append(row)
        if len(rows) < _PAGE or is_over():
            return found
        last = rows[-1]


async def _check(context: Context, orchestrations: Orchestrations, due: DueBulk) -> None:
    now, stored = context.clock.now(), await context.bulks.read(due.tenant, due.bulk_id)
    if stored is None:
        if now >= due.due_at + _CREATED_BY:
            await context.bulks.drop_due(due)
        return
    bulk, running = stored.bulk, due_while_running(stored.bulk)
    if bulk.state is BulkState.RUNNING:
        if now >= bulk.look_at + _CALL_COMES:
            await work_bulk(context, orchestrations, bulk.tenant, bulk.bulk_id)
        return
    kept_until = _find_retention_end(context, bulk)
    if now >= kept_until:
        if await context.bulks.remove(bulk, limit=_MAX_REMOVED):
            await context.bulks.drop_due(due)
        return
    await context.bulks.put_due(replace(running, due_at=kept_until))
    await context.bulks.drop_due(running)


def _find_retention_end(context: Context, bulk: Bulk) -> datetime:
    """Returns the end of the bulk operation's retention, which is as long as that of ended jobs. If ended jobs have no
    retention, the retention of quota logs applies.
    """
    settings = context.settings
    kept_for = timedelta(days=settings.retention_days or settings.change_log_days)
    return (bulk.ended_at or bulk.look_at) + kept_for
