"""Spans, and the contexts that make a job's spans one trace.

JOB has the context of its `submit` span in `traceparent`. The ids of the spans of the job and of each attempt derive
from the job, the step and the attempt number. So every process can compute these ids. The directive carries its
attempt's context, and a reply finds its attempt even if the service does not return the context.

The process that commits the terminal state of a job or an attempt emits its span, once (`shared.telemetry.committed`).
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from opentelemetry import context, trace
from opentelemetry.trace import Link, NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from shared.core.jobs.job import Job, Step
from shared.refusals import Refused
from shared.telemetry.span_table import SpanName

#: format of W3C Trace Context 3.2
_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")

_tracer = trace.get_tracer("lucius")
_enabled = False

#: span id for the next span of this context; None means a random one
forced_span_id: ContextVar[int | None] = ContextVar("forced_span_id", default=None)


def enabled() -> bool:
    """Returns `True` if spans are exported. Otherwise contexts of callers are forwarded unchanged."""
    return _enabled


def enable(state: bool) -> None:
    """Enables tracing, or disables tracing if `state` is `False`. The configured provider must use `forced_span_id` as
    the id of a span, if that id is set.
    """
    global _enabled
    _enabled = state


def parse_traceparent(traceparent: str | None) -> SpanContext | None:
    """Parses a context. Returns None if the context is invalid. Never raises."""
    found = _TRACEPARENT.fullmatch(traceparent) if isinstance(traceparent, str) else None
    if found is None or found[1] == "ff":
        return None
    flags = TraceFlags(int(found[4], 16))
    parsed = SpanContext(int(found[2], 16), int(found[3], 16), is_remote=True, trace_flags=flags)
    return parsed if parsed.is_valid else None


def format_traceparent(span: SpanContext) -> str:
    """Formats a context as `traceparent`."""
    return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags & TraceFlags.SAMPLED:02x}"


def context_of(parent: SpanContext | None) -> context.Context:
    """Returns a context whose current span is `parent`. None means no span, so that a new trace starts."""
    return trace.set_span_in_context(NonRecordingSpan(parent) if parent else trace.INVALID_SPAN, context.Context())


def current() -> SpanContext | None:
    """Returns the current span's context. Returns None if no span is active."""
    found = trace.get_current_span().get_span_context()
    return found if found.is_valid else None


def submit_context(job: Job) -> SpanContext:
    """Returns the context that JOB stores. If JOB stores no valid context, the context derives from the job's id."""
    known = parse_traceparent(job.traceparent)
    if known is not None:
        return known
    return SpanContext(_id(16, "trace", job.job_id), _id(8, "submit", job.job_id), True, TraceFlags(TraceFlags.SAMPLED))


def job_context(job: Job) -> SpanContext:
    """Returns the context of the span of the whole job."""
    return _derived(submit_context(job), "job", job.job_id)


def attempt_context(job: Job, step_id: str, attempt_no: int) -> SpanContext:
    """Returns the context of the span of one attempt."""
    return _derived(submit_context(job), "attempt", job.job_id, step_id, str(attempt_no))


def _derived(known: SpanContext, *names: str) -> SpanContext:
    return SpanContext(known.trace_id, _id(8, *names), True, known.trace_flags)


def _id(size: int, *names: str) -> int:
    return int.from_bytes(hashlib.sha256("\x00".join(names).encode()).digest()[:size]) or 1


def job_attributes(job: Job, step: Step | None = None) -> dict[str, Any]:
    """Returns the attributes by which a job's spans are found."""
    attributes: dict[str, Any] = {
        "lucius.job_id": job.job_id,
        "lucius.tenant": job.tenant,
        "lucius.job_type": job.request_type,
        "lucius.correlation_id": job.correlation_id,
    }
    if step is not None:
        attributes |= {"lucius.step_id": step.step_id, "lucius.step_type": step.step_type}
        if step.attempt_no:
            attributes |= {"lucius.attempt_no": step.attempt_no, "lucius.lease_digest": step.lease_digest or ""}
    return attributes


@contextmanager
def span(
    name: SpanName,
    *,
    parent: context.Context | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
    links: Sequence[SpanContext] = (),
    began_ns: int | None = None,
    attributes: Mapping[str, Any] | None = None,
    **filled: str,
) -> Iterator[Span]:
    """Makes a span for a block. `parent` None means the current span. The span has only the type or the code of an
    error, never its text.

    Without an exporter there is no span, and a caller's context is forwarded.
    """
    if not _enabled:
        token = context.attach(parent) if parent is not None else None
        try:
            yield trace.INVALID_SPAN
        finally:
            if token is not None:
                context.detach(token)
        return
    with _tracer.start_as_current_span(
        name.value.format(**filled),
        context=parent,
        kind=kind,
        links=[Link(each) for each in links],
        start_time=began_ns,
        attributes=dict(attributes or {}),
        record_exception=False,
        set_status_on_exception=False,
    ) as started:
        try:
            yield started
        except BaseException as error:
            started.set_attribute("error.type", error.code if isinstance(error, Refused) else type(error).__name__)
            if not isinstance(error, Refused):
                started.set_status(Status(StatusCode.ERROR))
            raise


def emit_ended_span(
    name: SpanName,
    *,
    itself: SpanContext,
    parent: SpanContext,
    began: datetime,
    ended: datetime,
    links: Sequence[SpanContext] = (),
    failed: bool = False,
    attributes: Mapping[str, Any],
    **filled: str,
) -> None:
    """Emits a span that has ended, with the span id of `itself`."""
    token = forced_span_id.set(itself.span_id)
    try:
        ended_span = _tracer.start_span(
            name.value.format(**filled),
            context=context_of(parent),
            links=[Link(each) for each in links],
            start_time=_ns(began),
            attributes=dict(attributes),
        )
    finally:
        forced_span_id.reset(token)
    if failed:
        ended_span.set_status(Status(StatusCode.ERROR))
    ended_span.end(_ns(max(began, ended)))


def now_ns() -> int:
    """Returns the time in nanoseconds, for a span whose parent is known later."""
    return time.time_ns()


def _ns(instant: datetime) -> int:
    return int(instant.timestamp() * 1_000_000) * 1_000
