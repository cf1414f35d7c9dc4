"""The exporters of spans and metrics. Only this module imports an OpenTelemetry SDK, and only if an exporter is
configured.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.trace import SpanKind

from shared.errors import SettingsError
from shared.telemetry import tracing
from shared.telemetry.span_table import SpanName

SERVICE_NAME = "lucius"

#: prefix of the names of jobs' spans
_JOB = SpanName.JOB.value.format(job_type="")
_APPLICATION_INSIGHTS = "APPLICATIONINSIGHTS_CONNECTION_STRING"
_OTLP = tuple(f"OTEL_EXPORTER_OTLP_{part}ENDPOINT" for part in ("", "TRACES_", "METRICS_"))
#: instrumentations that are off: they would add a span for every call to tables and bus
_INSTRUMENTATIONS = ("azure_sdk", "django", "fastapi", "flask", "httpx", "psycopg2", "requests", "urllib", "urllib3")


def configure(environ: Mapping[str, str], *, version: str, trace_ratio: float | None = None) -> str | None:
    """Configures the exporter once in a process, from the standard settings. Returns `azure-monitor` or `otlp`.

    Returns None if the settings name no exporter, if `OTEL_SDK_DISABLED` is `true`, or if this process already has its
    exporter.

    `trace_ratio` is the share of the traces for Azure Monitor. None means the standard settings. If another program has
    set a provider, that provider exports, and `trace_ratio` has no effect. Raises SettingsError with the name of a
    setting that no exporter can use.
    """
    if tracing.enabled() or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    kind = None
    if environ.get(_APPLICATION_INSIGHTS, "").strip():
        kind = "azure-monitor"
    elif any(environ.get(name, "").strip() for name in _OTLP):
        kind = "otlp"
    if kind is None:
        return None
    if not _configured_by_others():
        resource = _resource(environ, version)
        if kind == "azure-monitor":
            _azure_monitor(environ, resource)
            if trace_ratio is not None:
                keep_share(trace.get_tracer_provider(), trace_ratio)
        else:
            _otlp(resource)
    name_spans(trace.get_tracer_provider())
    return kind


def name_spans(provider: Any) -> None:
    """Makes the provider use the span id of a job or attempt, and enables tracing. Must be called before the first
    span.
    """
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        def generate_span_id(self) -> int:
            return tracing.forced_span_id.get() or super().generate_span_id()

    provider.id_generator = Ids()
    tracing.enable(True)


def keep_share(provider: Any, ratio: float) -> None:
    """Makes the provider keep this share of the traces, and every request, job and failed attempt. Must be called
    before the first span.
    """
    from azure.monitor.opentelemetry.exporter import ApplicationInsightsSampler
    from opentelemetry.sdk.trace.sampling import Decision, SamplingResult

    class Share(ApplicationInsightsSampler):
        def should_sample(  # type: ignore[no-untyped-def]  # the exporter has no types
            self, parent_context, trace_id, name, kind=None, attributes=None, links=None, trace_state=None
        ):
            given = dict(attributes or {})
            # alerts and queries count these
            if kind is SpanKind.SERVER or name.startswith(_JOB) or "error.type" in given:
                return SamplingResult(Decision.RECORD_AND_SAMPLE, {**given, "_MS.sampleRate": 100.0}, trace_state)
            return super().should_sample(parent_context, trace_id, name, kind, given, links, trace_state)

    provider.sampler = Share(ratio)


def _configured_by_others() -> bool:
    """Returns `True` if the Functions worker or `opentelemetry-instrument` set a provider before the app's import."""
    from opentelemetry.sdk.trace import TracerProvider

    return isinstance(trace.get_tracer_provider(), TracerProvider)


def _resource(environ: Mapping[str, str], version: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    # `create` gives precedence to OTEL_RESOURCE_ATTRIBUTES and OTEL_SERVICE_NAME
    named = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": SERVICE_NAME}
    return Resource.create({**named, "service.version": version, "service.instance.id": str(uuid.uuid4())})


def _azure_monitor(environ: Mapping[str, str], resource: Any) -> None:
    from azure.monitor.opentelemetry import configure_azure_monitor

    # the host already sends log records to Application Insights; there is no argument for it
    # (microsoft/ApplicationInsights-Python#277)
    os.environ.setdefault("OTEL_LOGS_EXPORTER", "none")
    #: the default would keep five traces a second, and a trace with gaps explains nothing
    sampled = {} if environ.get("OTEL_TRACES_SAMPLER") else {"sampling_ratio": 1.0}
    try:
        configure_azure_monitor(
            resource=resource,
            enable_live_metrics=False,
            enable_performance_counters=False,
            instrumentation_options={name: {"enabled": False} for name in _INSTRUMENTATIONS},
            **sampled,
        )
    except ValueError:
        raise SettingsError(
            f"{_APPLICATION_INSIGHTS} is not a connection string of Application Insights; correct the setting"
        ) from None


def _otlp(resource: Any) -> None:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    spans = TracerProvider(resource=resource)
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(spans)
    readers = [PeriodicExportingMetricReader(OTLPMetricExporter())]
    metrics.set_meter_provider(MeterProvider(readers, resource=resource))
