"""The sweeper's comparison of lists with dead letters: every job that failed for good has its DEAD row (R60).

A job's end writes it. Not so the end by a release that knows no dead letters, before this one or beside it, and that
release's redrive leaves it. So each list is read once, again ten minutes later, and then after ever longer waits, up
to a day: an hour of two releases is so made good within an hour.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace

from shared import telemetry
from shared.core.canonical import encode_key
from shared.core.states import JobStatus
from shared.errors import Transient
from shared.operations.context import Context
from shared.operations.dead_letters import restore_dead_letter
from shared.operations.read_history import read_for_list
from shared.operations.row_incidents import report_row
from shared.operations.sweeper.turns import at_once
from shared.ports.dead_letters import LONGEST_COMPARISON_WAIT, Comparison
from shared.ports.index import ListRow
from shared.ports.sweeps import Share

#: rows of one query
_PAGE = 1000


async def compare_dead_letters(context: Context, share: Share, is_over: Callable[[], bool]) -> int:
    """Goes on where the last pass stopped, over the lists of all tenants of the share, asleep or awake; how many dead
    letters it wrote. Nothing happens before the next comparison is due. At least one page is read.

    Race letter: safe beside ends, redrives and dismissals. Raises LedgerUnavailable.
    """
    index = context.index
    known = await index.read_comparison(share.number)
    if known.stopped_at is None and known.next_at is not None and known.next_at > context.clock.now():
        return 0
    start, after = known.stopped_at or ("", "")
    waiting = deque(sorted(name for name in await index.tenants() if share.has(name) and name >= start))
    if waiting and waiting[0] != start:
        after = ""
    written = 0
    while waiting:
        rows = await index.list_jobs(waiting[0], after=after or None, limit=_PAGE)
        written += await _write_missing(context, rows)
        after = rows[-1].cursor if len(rows) == _PAGE else ""
        if not after:
            waiting.popleft()
        if waiting and is_over():
            await index.write_comparison(share.number, replace(known, stopped_at=(waiting[0], after)))
            return written
    wait = min(known.wait * 2, LONGEST_COMPARISON_WAIT)
    await index.write_comparison(share.number, Comparison(None, context.clock.now() + known.wait, wait))
    return written


async def _write_missing(context: Context, rows: list[ListRow]) -> int:
    written = 0

    async def one(row: ListRow) -> None:
        nonlocal written
        try:
            stored = await read_for_list(context.ledger, row.job_id)
            written += stored is not None and await restore_dead_letter(context, stored.record.job)
        except Transient:
            raise
        except Exception as fault:
            # the comparison goes on
            telemetry.record_fault(fault)
            telemetry.warn("RELIST_FAILED", jobId=row.job_id, reason=f"{type(fault).__name__}: {fault}")
            await report_row(context, f"{encode_key(row.tenant_id)} LIST:{row.job_id}", fault)

    unknown = [row for row in rows if row.status == JobStatus.FAILED_FINAL and row.dead_letter is None]
    await at_once(unknown, one)
    return written
