"""The spans of a service: children of the directive's `traceparent`. Each reply has the context of its own span.

Spans are exported to `APPLICATIONINSIGHTS_CONNECTION_STRING`, else to `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` or
`OTEL_EXPORTER_OTLP_ENDPOINT`. If none of them is set, or `OTEL_SDK_DISABLED` is `true`, no SDK is loaded and a reply
has the context of the directive.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from opentelemetry import context, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from lucius_service.directive import Directive
from lucius_service.errors import StepFailed
from lucius_service.settings import SettingsError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

_tracer = trace.get_tracer("lucius.platform_service")
_propagator = TraceContextTextMapPropagator()


def configure(environ: Mapping[str, str], name: str) -> None:
    """Sets up the exporter. Must be called once, before the first span. Raises SettingsError if the exporter cannot be
    set up.
    """
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return
    insights = environ.get("APPLICATIONINSIGHTS_CONNECTION_STRING", "").strip()
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    if not insights and not any(environ.get(endpoint, "").strip() for endpoint in endpoints):
        return
    try:
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = _exporter(azure_monitor=bool(insights))
    except ImportError as error:
        raise SettingsError(
            f"telemetry is configured, but {error.name} is missing: install lucius-service[telemetry]"
        ) from None
    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": f"lucius-{name}"}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _exporter(*, azure_monitor: bool) -> SpanExporter:
    """Makes the exporter. Raises SettingsError for an invalid connection string. Raises ImportError if the exporter is
    not installed.
    """
    if not azure_monitor:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

        return OTLPSpanExporter()
    from azure.monitor.opentelemetry.exporter import AzureMonitorTraceExporter

    try:
        return AzureMonitorTraceExporter()
    except ValueError:
        raise SettingsError(
            "APPLICATIONINSIGHTS_CONNECTION_STRING is not a connection string of Application Insights; correct the "
            "setting"
        ) from None


def start_processing_span(directive: Directive, topic: str) -> Span:
    """Starts the span from the directive's arrival until its RESULT is sent. The caller ends the span."""
    carrier = {"traceparent": directive.traceparent} if directive.traceparent is not None else {}
    return _tracer.start_span(
        f"process {topic}",
        context=_propagator.extract(carrier, Context()),
        kind=SpanKind.CONSUMER,
        attributes={**_bus("process", topic), **_ids(directive)},
    )


@contextmanager
def execution_span(directive: Directive, processing: Span) -> Iterator[None]:
    """Adds a span for the work, on any thread. The span has only the code or class of a failure, since the text may
    contain secrets.
    """
    with _tracer.start_as_current_span(
        f"execute {directive.step_type}",
        context=trace.set_span_in_context(processing, Context()),
        attributes=_ids(directive),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except Exception as error:
            mark_failed(span, error.code if isinstance(error, StepFailed) else type(error).__name__)
            raise


@contextmanager
def publish_span(reply: Mapping[str, Any], topic: str) -> Iterator[tuple[dict[str, Any], Span]]:
    """Adds a span for the publication of one reply, as a child of the current span. Yields the reply with the trace
    context.
    """
    with _tracer.start_as_current_span(
        f"send {topic}",
        kind=SpanKind.PRODUCER,
        attributes={**_bus("send", topic), "lucius.reply": reply["type"], "lucius.job_id": reply["jobId"]},
    ) as span:
        carrier: dict[str, str] = {}
        _propagator.inject(carrier)
        yield {**reply, **carrier}, span


def current() -> str | None:
    """Returns the `traceparent` of the current span, for a child process, or None if no span is active."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier)
    return carrier.get("traceparent")


@contextmanager
def adopted(traceparent: str | None) -> Iterator[None]:
    """Makes spans in this block children of the span that `current` returned in another process."""
    token = context.attach(_propagator.extract({} if traceparent is None else {"traceparent": traceparent}, Context()))
    try:
        yield
    finally:
        context.detach(token)


def mark_failed(span: Span, code: str) -> None:
    """Sets the span's status to error, and the error type to `code`."""
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR))


def _bus(operation: str, topic: str) -> dict[str, str]:
    return {
        "messaging.system": "servicebus",
        "messaging.operation.name": operation,
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
    }


def _ids(directive: Directive) -> dict[str, str | int]:
    return {
        "lucius.job_id": directive.jobId,
        "lucius.tenant": directive.tenant_id,
        "lucius.step_id": directive.stepId,
        "lucius.step_type": directive.step_type,
        "lucius.attempt_no": directive.attempt_no,
        "lucius.lease_digest": directive.lease_digest,
        **({"lucius.correlation_id": directive.correlation_id} if directive.correlation_id is not None else {}),
    }
