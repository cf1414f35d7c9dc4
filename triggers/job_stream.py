"""The events of one job as server-sent events (R76). The events are the objects of the job's JSON page, until the job
has ended.
"""

from __future__ import annotations

import base64
import binascii

import azure.functions as func

from shared.api.job import event_response
from shared.apidocs.route import in_query
from shared.core.jobs.job import Job
from shared.operations.events.read_feed import EARLIEST, LATEST
from shared.operations.jobs.read_history import read_job
from triggers.http.long_poll import Answer, LongPoll, history_tail
from triggers.http.parameters import bad_cursor, cursor, job_id_of, page
from triggers.http.responses import json_of
from triggers.http.routes import Request
from triggers.http.sse import HOLD_S, ended, position, stream

#: digits of an event's number in its RowKey
MAX_SEQ_DIGITS = 10
_SOURCE = "the `id` of an event of this stream"

AFTER = in_query(
    "after",
    {"type": "string"},
    f"Streams only. Start of the stream: after the event with this `id`, at the first event (`{EARLIEST}`), or at the "
    f"next new event (`{LATEST}`, the default).",
)


async def job_stream(request: Request) -> func.HttpResponse:
    """Returns the stream. Raises JobNotFound, ArchiveGone, ArchiveInvalid, LedgerUnavailable, RequestError (400)."""
    req, context = request.http, request.context()
    job_id, given, (limit, _) = job_id_of(req), position(req), page(req)

    first_record, archived = await read_job(context, job_id)
    first = first_record.job

    async def job() -> Job:
        return (await read_job(context, job_id))[0].job

    if given is None or given == LATEST:
        # a reader without a position gets one immediately, so that it misses no event
        return ended(req) if first.status.terminal else stream(req, [], following=_cursor(first.event_seq))
    seq, known = _seq(given), [first]

    async def read() -> Answer:
        """Reads the job's events. Returns 304 if the job has no new events."""
        now = known.pop() if known else await job()
        if seq > now.event_seq:
            raise bad_cursor(_SOURCE)
        if seq == now.event_seq:
            response = ended(req) if now.status.terminal else func.HttpResponse(status_code=304)
            return Answer(response, seq, ended=now.status.terminal)
        if archived is not None:
            events = archived.events[seq : seq + limit]
        else:
            events = await context.ledger.events(job_id, after_seq=seq, limit=limit)
        found = [(_cursor(event.seq), json_of(event_response(event))) for event in events]
        return Answer(stream(req, found, following=found[-1][0] if found else _cursor(seq)), seq)

    # counts for the job's tenant, as readers of the feed do, also for operators
    whose = first.tenant
    room = context.process.waiters.has_room(whose, follower=True)
    with history_tail(context, job_id) as tail:
        answer = await LongPoll(context.process.waiters).wait(HOLD_S if room else 0, whose, read, tail, follower=True)
    if answer.status_code != 304:
        return answer
    return stream(req, [], following=_cursor(seq), crowded_by=None if room else request.caller.actor)


def _cursor(seq: int) -> str:
    return cursor(str(seq)) or ""


def _seq(given: str) -> int:
    """Parses the number of an event. Raises RequestError (400)."""
    if given == EARLIEST:
        return 0
    try:
        text = base64.b64decode(given, altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise bad_cursor(_SOURCE) from None
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_SEQ_DIGITS):
        raise bad_cursor(_SOURCE)
    return int(text)
