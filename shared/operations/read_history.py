"""A job with all its events, at one instant (FEATURES N1, N3, N9)."""

from __future__ import annotations

from shared.core.job import Event, Record
from shared.errors import LedgerUnavailable, Refusal
from shared.operations.context import Context

_PAGE = 1000


async def read_history(context: Context, job_id: str) -> tuple[Record, list[Event]]:
    """The rows, and the events up to the head that they name. Race history: what comes in between is left out.

    Raises Refusal (404) and LedgerUnavailable.
    """
    # a colon never stands in a job id: it sets off a control, as in `:cancel`
    stored = None if ":" in job_id or len(job_id) > 128 else await context.ledger.read(job_id)
    if stored is None:
        raise Refusal(404, "JOB_NOT_FOUND", f"there is no job {job_id[:128]}")
    head = stored.record.job.event_seq
    events: list[Event] = []
    while len(events) < head:
        page = await context.ledger.events(job_id, after_seq=len(events), limit=min(_PAGE, head - len(events)))
        if not page:
            raise LedgerUnavailable(f"the events of job {job_id} are not all there")
        events += page
    return stored.record, events
