"""Spans of functions: requests, creations of jobs, activities, directives and replies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, Status, StatusCode

from shared.contracts.envelope import Envelope
from shared.contracts.messages import Directive, Reply
from shared.core.jobs.job import Job, Record, Step
from shared.core.jobs.verdict import Verdict
from shared.telemetry import tracing
from shared.telemetry.meters import observe
from shared.telemetry.span_table import SpanName

_SYSTEM = {"messaging.system": "servicebus"}

Created = Callable[[Job, bool], None]
Given = Callable[[Verdict], None]


@contextmanager
def submit_span(envelope: Envelope, *, own_trace: bool) -> Iterator[tuple[Envelope, Created]]:
    """Makes the span of a job's creation. Yields the job request with the context that JOB stores, and a function for
    the job's attributes.

    Without an exporter, the context of the job request stays. If the job request has none and `own_trace` is False, the
    context of the HTTP request is used.
    """
    request, asked = tracing.current(), tracing.parse_traceparent(envelope.traceparent)
    if not tracing.enabled():
        if asked is None and request is not None and not own_trace:
            envelope = envelope.model_copy(update={"traceparent": tracing.format_traceparent(request)})
        yield envelope, lambda job, replayed: None
        return
    # in one trace with the caller's span, the request's own span is between that and this one
    between = asked is not None and request is not None and asked.trace_id == request.trace_id
    apart = not between and (asked is not None or own_trace)
    with tracing.span(
        SpanName.SUBMIT,
        parent=tracing.context_of(asked) if apart else None,
        links=[request] if apart and request is not None else [],
        job_type="",
    ) as span:

        def created(job: Job, replayed: bool) -> None:
            # only now the job type is known to exist
            span.update_name(SpanName.SUBMIT.value.format(job_type=job.request_type))
            span.set_attributes({**tracing.job_attributes(job), "lucius.replayed": replayed})
            if replayed:
                span.add_link(tracing.submit_context(job))

        yield envelope.model_copy(update={"traceparent": tracing.format_traceparent(span.get_span_context())}), created


@contextmanager
def activity_span(name: SpanName, record: Record | None, step_id: str, began_ns: int) -> Iterator[Given]:
    """Makes the span of an activity. Yields a function that takes the verdict."""
    step = record.step(step_id) if record is not None else None
    if record is None or step is None or not tracing.enabled():
        yield lambda verdict: None
        return
    with tracing.span(
        name,
        parent=tracing.context_of(tracing.job_context(record.job)),
        began_ns=began_ns,
        attributes=tracing.job_attributes(record.job, step),
        step_type=step.step_type,
    ) as span:
        yield lambda verdict: span.set_attributes(
            {"lucius.verdict": verdict.kind.value, "lucius.attempt_no": verdict.attempt_no}
        )


@contextmanager
def publish_span(record: Record, step: Step, directive: Directive, topic: str, message_id: str) -> Iterator[Directive]:
    """Makes the span of an attempt's publication. Yields the directive with the attempt's context, which is the same at
    each publication.
    """
    if not tracing.enabled():
        yield directive
        return
    attempt = tracing.attempt_context(record.job, step.step_id, step.attempt_no)
    with tracing.span(
        SpanName.SEND_DIRECTIVE,
        parent=tracing.context_of(attempt),
        kind=SpanKind.PRODUCER,
        attributes={
            **_SYSTEM,
            "messaging.operation.name": "send",
            "messaging.operation.type": "send",
            "messaging.destination.name": topic,
            "messaging.message.id": message_id,
            **tracing.job_attributes(record.job, step),
        },
        topic=topic,
    ):
        yield directive.model_copy(update={"traceparent": tracing.format_traceparent(attempt)})


@contextmanager
def reply_span(record: Record, reply: Reply, source: str, topic: str | None, began_ns: int) -> Iterator[Span]:
    """Makes the span of a reply. The parent is the service's span if that span belongs to this trace, else the
    attempt's span.
    """
    if not tracing.enabled():
        yield INVALID_SPAN
        return
    job = record.job
    step = record.step(reply.stepId)
    attempt = tracing.attempt_context(job, reply.stepId, reply.attempt_no)
    sender, caller = tracing.parse_traceparent(reply.traceparent), tracing.current()
    same_trace = sender is not None and sender.trace_id == attempt.trace_id
    links = [each for each in (None if same_trace else sender, caller) if each is not None]
    attributes = {
        **tracing.job_attributes(job),
        "lucius.reply": reply.type,
        "lucius.source": source,
        "lucius.attempt_no": reply.attempt_no,
        # an unknown step id is text from outside
        **({"lucius.step_id": step.step_id, "lucius.step_type": step.step_type} if step is not None else {}),
    }
    if topic is not None:
        attributes |= {
            **_SYSTEM,
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.name": topic,
        }
    with tracing.span(
        SpanName.PROCESS_REPLY,
        parent=tracing.context_of(sender if same_trace else attempt),
        kind=SpanKind.CONSUMER if topic is not None else SpanKind.INTERNAL,
        links=[attempt, *links] if same_trace else links,
        began_ns=began_ns,
        attributes=attributes,
        topic=topic or source,
    ) as span:
        yield span


@contextmanager
def request_span(
    method: str, path: str, headers: Mapping[str, str], *, traced: bool = True
) -> Iterator[Callable[[int], None]]:
    """Makes the span of a handler, and records the duration of the request. Yields a function that takes the status. If
    `traced` is `False`, as for probes, makes no span.
    """
    began = time.monotonic()
    route = f"/{path}"
    known = {"http.request.method": method, "http.route": route}
    answered = 500
    # the worker may have started a span of its own, which contains this one
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
        with span as opened:

            def answer(status: int) -> None:
                nonlocal answered
                answered = status
                opened.set_attribute("http.response.status_code", status)
                if status >= 500:
                    opened.set_attribute("error.type", str(status))
                    opened.set_status(Status(StatusCode.ERROR))

            yield answer
    finally:
        observe(
            "http.server.request.duration",
            time.monotonic() - began,
            http__request__method=method,
            http__route=route,
            http__response__status_code=answered,
        )
