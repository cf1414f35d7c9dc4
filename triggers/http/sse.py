"""Server-sent events (WHATWG HTML 9.2) as complete responses. The reader reconnects with its last event id (R76).

The Python worker can only send complete bodies. So a request waits up to 20 seconds for events. The response has
these events and the next cursor. Its field `retry:` has the time after which the reader can reconnect.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable
from typing import Any

import azure.functions as func

from shared.apidocs.route import NO_STORE, in_header, in_query
from triggers.http.responses import correlation_id, weights_of

EVENT_STREAM = "text/event-stream"
#: maximum delay in seconds of a response without events
HOLD_S = 20
#: milliseconds until a reader reconnects: normally, and if too many requests wait or a dependency does not respond.
#: The second wait becomes up to twice as long, by a hash of the caller
_AT_ONCE_MS, _LATER_MS = 250, 5_000

LAST_EVENT_ID = in_header(
    "Last-Event-ID",
    {"type": "string"},
    "Streams only. `id` of the last event received. Overrides `after`. EventSource sends this header automatically.",
)
TICKET = in_query(
    "ticket",
    {"type": "string"},
    "Streams only. Ticket for this path from `POST /v1/events:ticket`, instead of a token.",
)


def wants_stream(req: func.HttpRequest) -> bool:
    """Returns True for a GET whose `Accept` gives a stream at least the weight of JSON (RFC 9110 12.5.1)."""
    if req.method != "GET":
        return False
    weights = weights_of(req.headers.get("Accept", ""))
    stream_weight = weights.get(EVENT_STREAM, 0.0)
    return stream_weight > 0 and stream_weight >= weights.get("application/json", 0.0)


def position(req: func.HttpRequest) -> str | None:
    """Returns the position to start after. Returns None if the caller gave no position. The stream then starts now."""
    return req.headers.get("Last-Event-ID") or req.params.get("after") or None


def stream(
    req: func.HttpRequest,
    events: Iterable[tuple[str, Any]],
    *,
    following: str,
    crowded_by: str | None = None,
    end: Any = None,
) -> func.HttpResponse:
    """Makes a response from events with their cursors, and the cursor to continue from, also without events.

    `end` is the data of a last event `end` with that cursor. `crowded_by` is the caller, if no event was found and the
    limit of waiting responses was reached.
    """
    parts = [_retry(_AT_ONCE_MS if crowded_by is None else _later_ms(crowded_by))]
    last = None
    for last, event in events:
        parts.append(f"id: {last}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n")
    if end is not None:
        parts.append(f"id: {following}\nevent: end\ndata: {json.dumps(end)}\n\n")
    elif last != following:
        # an id without data moves the reader's position without an event
        parts.append(f": nothing more yet\nid: {following}\n\n")
    return _answer(req, "".join(parts))


def gap(req: func.HttpRequest, earliest: str) -> func.HttpResponse:
    """Reports to the reader that its position has expired, or is from another feed.

    The stream continues from the earliest retained event.
    """
    data = json.dumps({"earliest": earliest})
    return _answer(req, f"{_retry(_AT_ONCE_MS)}id: {earliest}\nevent: gap\ndata: {data}\n\n")


def results(req: func.HttpRequest, answers: Iterable[Any], *, complete: bool) -> func.HttpResponse:
    """Makes a response from GraphQL results over SSE (github.com/enisdenjo/graphql-sse, PROTOCOL.md: distinct
    connections mode).

    A reader treats a response without `complete` as a lost connection, and reconnects.
    """
    parts = [f"event: next\ndata: {json.dumps(each, ensure_ascii=False)}\n\n" for each in answers]
    return _answer(req, "".join([*parts, "event: complete\ndata: \n\n"] if complete else parts))


def later(req: func.HttpRequest, caller: str | None) -> func.HttpResponse:
    """Requests the reader to reconnect later, since too many requests wait or a dependency is unavailable.

    After an error status, a reader does not reconnect.
    """
    return _answer(req, f"{_retry(_later_ms(caller or correlation_id(req)))}: reconnect later\n\n")


def ended(req: func.HttpRequest) -> func.HttpResponse:
    """Ends the stream. A reader does not reconnect after 204."""
    return func.HttpResponse(status_code=204, headers=_headers(req))


def _retry(milliseconds: int) -> str:
    return f"retry: {milliseconds}\n\n"


def _later_ms(caller: str) -> int:
    """Returns the milliseconds, different for each caller, so that readers do not reconnect together."""
    return _LATER_MS + zlib.crc32(caller.encode()) % (_LATER_MS + 1)


def _answer(req: func.HttpRequest, text: str) -> func.HttpResponse:
    return func.HttpResponse(text.encode(), headers=_headers(req), mimetype=EVENT_STREAM, charset="utf-8")


def _headers(req: func.HttpRequest) -> dict[str, str]:
    return {"X-Correlation-Id": correlation_id(req), "Cache-Control": NO_STORE}
