"""Why a job is where it is, with the event that brought it there (FEATURES E6, N2)."""

from __future__ import annotations

from typing import Any

from shared.core.history import EventType
from shared.core.job import Event, Record
from shared.operations.context import Context
from shared.views.citation import cite
from shared.views.explain import explain

#: events read at a time, from the newest back: of one attempt at most 20 are mere records of late replies
_PAGE = 50


async def explain_job(context: Context, record: Record) -> dict[str, Any]:
    """Raises LedgerUnavailable."""
    return explain(record, context.clock.now(), await _last_transition(context, record))


async def _last_transition(context: Context, record: Record) -> Event | None:
    """The newest event that moved the job. Race history: what came after `record` was read is left out."""
    end = record.job.event_seq
    while end > 0:
        start = max(0, end - _PAGE)
        for event in reversed(await context.ledger.events(record.job.job_id, after_seq=start, limit=end - start)):
            if event.type == EventType.JOB_CREATED or cite(event):
                return event
        end = start
    return None
