"""One HTTP request: its span and its duration, in the names of the semantic conventions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

from opentelemetry.trace import INVALID_SPAN, SpanKind, Status, StatusCode

from shared.telemetry import tracing
from shared.telemetry.meters import observe
from shared.telemetry.span_table import SpanName


@contextmanager
def request_span(
    method: str, path: str, headers: Mapping[str, str], *, traced: bool = True
) -> Iterator[Callable[[int], None]]:
    """Around a handler that answers whatever happens; to be told the status. `traced` False: no span, as for probes."""
    began = time.monotonic()
    route = f"/{path}"
    known = {"http.request.method": method, "http.route": route}
    answered = 500
    # the worker may have begun a span of its own, of which this one is a part
    asked = None if tracing.current() is not None else tracing.parse_traceparent(headers.get("traceparent"))
    parent = tracing.context_of(asked) if asked is not None else None
    span = (
        tracing.span(
            SpanName.REQUEST, parent=parent, kind=SpanKind.SERVER, attributes=known, method=method, route=route
        )
        if traced
        else nullcontext(INVALID_SPAN)
    )
    try:
        with span as told:

            def answer(status: int) -> None:
                nonlocal answered
                answered = status
                told.set_attribute("http.response.status_code", status)
                if status >= 500:
                    told.set_attribute("error.type", str(status))
                    told.set_status(Status(StatusCode.ERROR))

            yield answer
    finally:
        observe(
            "http.server.request.duration",
            time.monotonic() - began,
            http__request__method=method,
            http__route=route,
            http__response__status_code=answered,
        )
