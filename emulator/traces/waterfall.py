"""A trace as rows: each span under its parent, in the order of time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from emulator.traces.otlp import Span
from emulator.traces.trace_buffer import Trace


@dataclass(frozen=True)
class Row:
    """One span: how deep it stands, and where its bar begins and how long it is, in per cent of the trace."""

    span: Span
    depth: int
    left: float
    width: float


def rows(trace: Trace) -> list[Row]:
    """Every span once, also where ids make a circle or a parent is not here."""
    spans = {span.span_id: span for span in trace.spans}
    under: dict[str, list[Span]] = defaultdict(list)
    for span in sorted(trace.spans, key=lambda span: (span.start_ns, -span.end_ns)):
        parent = span.parent_id if span.parent_id in spans and span.parent_id != span.span_id else ""
        under[parent].append(span)
    found: list[Row] = []
    seen: set[str] = set()
    began = trace.start_ns
    whole = max(trace.end_ns - began, 1)

    def row(span: Span, depth: int) -> Row:
        left = 100 * (span.start_ns - began) / whole
        return Row(span, depth, left, 100 * (span.end_ns - span.start_ns) / whole)

    # spans of a circle have a parent and are reached from no root: they begin rows of their own
    for first in [*under[""], *spans.values()]:
        waiting = [(first, 0)]
        while waiting:
            span, depth = waiting.pop()
            if span.span_id in seen:
                continue
            seen.add(span.span_id)
            found.append(row(span, depth))
            waiting += [(child, depth + 1) for child in reversed(under[span.span_id])]
    return found
