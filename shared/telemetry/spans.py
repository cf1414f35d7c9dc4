"""The spans that functions make while they work on a job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind

from shared.contracts.envelope import Envelope
from shared.contracts.messages import Directive, Reply
from shared.core.job import Job, Record, Step
from shared.core.verdict import Verdict
from shared.telemetry import tracing
from shared.telemetry.span_table import SpanName

_SYSTEM = {"messaging.system": "servicebus"}

Created = Callable[[Job, bool], None]
Given = Callable[[Verdict], None]


@contextmanager
def submit_span(envelope: Envelope, *, own_trace: bool) -> Iterator[tuple[Envelope, Created]]:
    """Creation of a job: gives the envelope with the context that JOB keeps, and what to say once the job is known.

    With nothing configured the caller's own context is kept, from the envelope or the request's header.
    """
    request, asked = tracing.current(), tracing.parse_traceparent(envelope.traceparent)
    if not tracing.enabled():
        if asked is None and request is not None and not own_trace:
            envelope = envelope.model_copy(update={"traceparent": tracing.format_traceparent(request)})
        yield envelope, lambda job, replayed: None
        return
    # in one trace with the caller's span, the request's own stands between that and this one
    between = asked is not None and request is not None and asked.trace_id == request.trace_id
    apart = not between and (asked is not None or own_trace)
    with tracing.span(
        SpanName.SUBMIT,
        parent=tracing.context_of(asked) if apart else None,
        links=[request] if apart and request is not None else [],
        job_type="",
    ) as span:

        def created(job: Job, replayed: bool) -> None:
            # only now it is a type that we know
            span.update_name(SpanName.SUBMIT.value.format(job_type=job.request_type))
            span.set_attributes({**tracing.job_attributes(job), "lucius.replayed": replayed})
            if replayed:
                span.add_link(tracing.submit_context(job))

        yield envelope.model_copy(update={"traceparent": tracing.format_traceparent(span.get_span_context())}), created


@contextmanager
def activity_span(name: SpanName, record: Record | None, step_id: str, began_ns: int) -> Iterator[Given]:
    """An activity; to be told its verdict."""
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
    """The publish of an attempt: gives the directive with the attempt's context, the same whenever it is published."""
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
    """A reply on its way into the ledger: under the service's span if that is of this trace, else under the attempt."""
    if not tracing.enabled():
        yield INVALID_SPAN
        return
    job = record.job
    step = record.step(reply.stepId)
    attempt = tracing.attempt_context(job, reply.stepId, reply.attempt_no)
    told, caller = tracing.parse_traceparent(reply.traceparent), tracing.current()
    ours = told is not None and told.trace_id == attempt.trace_id
    links = [each for each in (None if ours else told, caller) if each is not None]
    attributes = {
        **tracing.job_attributes(job),
        "lucius.reply": reply.type,
        "lucius.source": source,
        "lucius.attempt_no": reply.attempt_no,
        # what names no step of the job is somebody else's text
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
        parent=tracing.context_of(told if ours else attempt),
        kind=SpanKind.CONSUMER if topic is not None else SpanKind.INTERNAL,
        links=[attempt, *links] if ours else links,
        began_ns=began_ns,
        attributes=attributes,
        topic=topic or source,
    ) as span:
        yield span
