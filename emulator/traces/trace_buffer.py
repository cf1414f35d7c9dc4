"""Keeps the newest traces and the newest value of each metric, within limits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from emulator.traces.otlp import Point, Span

#: maximum spans of one trace; later spans are counted and dropped
MAX_SPANS = 5000
#: maximum metrics of all services; later ones are dropped
MAX_POINTS = 5000

#: attribute of a span with the job id
JOB = "lucius.job_id"


class Trace:
    """The spans of one trace so far. A span that arrives again replaces its earlier version."""

    def __init__(self, trace_id: str) -> None:
        self.trace_id = trace_id
        self.dropped = 0
        #: `True` if a span names a job; traces of reads do not
        self.has_job = False
        self._spans: dict[str, Span] = {}

    def add(self, span: Span) -> None:
        self.has_job = self.has_job or JOB in span.attributes
        if span.span_id not in self._spans and len(self._spans) >= MAX_SPANS:
            self.dropped += 1
        else:
            self._spans[span.span_id] = span

    @property
    def spans(self) -> Sequence[Span]:
        return tuple(self._spans.values())

    @property
    def jobs(self) -> list[str]:
        return sorted({str(span.attributes[JOB]) for span in self.spans if JOB in span.attributes})

    @property
    def start_ns(self) -> int:
        return min(span.start_ns for span in self.spans)

    @property
    def end_ns(self) -> int:
        return max(span.end_ns for span in self.spans)

    @property
    def root(self) -> Span:
        """Returns the earliest span whose parent is not in the trace. If each span has its parent there, returns the
        earliest span.
        """
        orphans = [span for span in self.spans if span.parent_id not in self._spans]
        return min(orphans or self.spans, key=lambda span: span.start_ns)

    @property
    def failed(self) -> bool:
        return any(span.failed for span in self.spans)


class TraceBuffer:
    """At most `keep` traces. Drops the trace without a job that has received no span for the longest time. If every
    trace has a job, drops the trace that has received no span for the longest time.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._points: dict[tuple[object, ...], Point] = {}

    def put_spans(self, spans: Iterable[Span]) -> None:
        for span in spans:
            trace = self._traces.setdefault(span.trace_id, Trace(span.trace_id))
            trace.add(span)
            self._traces.move_to_end(span.trace_id)
            if len(self._traces) > self._keep:
                self._drop()

    def _drop(self) -> None:
        oldest = next((trace for trace in self._traces.values() if not trace.has_job), None)
        del self._traces[oldest.trace_id if oldest is not None else next(iter(self._traces))]

    def put_points(self, points: Iterable[Point]) -> None:
        for point in points:
            key = (point.service, point.name, *sorted(point.attributes.items()))
            if key in self._points or len(self._points) < MAX_POINTS:
                self._points[key] = point

    def trace(self, trace_id: str) -> Trace | None:
        return self._traces.get(trace_id)

    def find(self, prefix: str, limit: int, *, all_: bool = False) -> list[Trace]:
        """Returns up to `limit` traces whose id, or a job id, begins with `prefix`. The trace that received a span last
        comes first.

        Without a prefix, returns only traces of jobs. With `all_`, also returns traces without a job.
        """
        matching = (
            trace
            for trace in reversed(self._traces.values())
            if (all_ or prefix or trace.has_job)
            if trace.trace_id.startswith(prefix) or any(job.startswith(prefix) for job in trace.jobs)
        )
        return [trace for trace, _ in zip(matching, range(limit), strict=False)]

    @property
    def points(self) -> list[Point]:
        """Returns the points by name, then service and attributes."""
        return [self._points[key] for key in sorted(self._points, key=lambda key: (str(key[1]), str(key)))]
