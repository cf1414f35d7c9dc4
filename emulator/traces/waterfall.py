"""The rows of a trace. Each span comes after its parent, in the order of time."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from emulator.traces.otlp import Span
from emulator.traces.trace_buffer import Trace


@dataclass(frozen=True)
class Row:
    """One span, with its depth, and with the start and the width of its bar in per cent of the trace."""

    span: Span
    depth: int
    left: float
    width: float


def rows(trace: Trace) -> list[Row]:
    """Returns every span once, also if parents are missing or form a cycle."""
    spans = {span.span_id: span for span in trace.spans}
    children: dict[str, list[Span]] = defaultdict(list)
    for span in sorted(trace.spans, key=lambda span: (span.start_ns, -span.end_ns)):
        parent = span.parent_id if span.parent_id in spans and span.parent_id != span.span_id else ""
        children[parent].append(span)
    placed: list[Row] = []
    seen: set[str] = set()
    began = trace.start_ns
    duration = max(trace.end_ns - began, 1)

    def row(span: Span, depth: int) -> Row:
        left = 100 * (span.start_ns - began) / duration
        return Row(span, depth, left, 100 * (span.end_ns - span.start_ns) / duration)

    # spans of a cycle cannot be reached from a root: each unplaced span starts its own rows
    for first in [*children[""], *spans.values()]:
        stack = [(first, 0)]
        while stack:
            span, depth = stack.pop()
            if span.span_id in seen:
                continue
            seen.add(span.span_id)
            placed.append(row(span, depth))
            stack += [(child, depth + 1) for child in reversed(children[span.span_id])]
    return placed
