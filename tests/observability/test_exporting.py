"""Where telemetry goes: nowhere and for free, to Azure Monitor or to a collector, over the real wire."""

from __future__ import annotations

import json

import pytest

from tests.observability.ingestion import ingestion, run

_SILENT = """
import sys, asyncio, json
import function_app
from opentelemetry import trace
from shared.telemetry import SpanName, increment, tracing
with tracing.span(SpanName.SWEEP) as span:
    increment("job_started_total", jobType="OCR", mode="DEFAULT")
    print(json.dumps({
        "on": tracing.enabled(),
        "valid": span.get_span_context().is_valid,
        "recording": span.is_recording(),
        "loaded": sorted(name for name in sys.modules if name.startswith(("opentelemetry.sdk", "opentelemetry.exporter",
                                                                          "azure.monitor"))),
    }))
"""

_SERVICE_SILENT = """
import os, sys, json
from lucius_service import tracing
tracing.configure(os.environ, "ocr")
with tracing.publish_span({"type": "ACK", "jobId": "job_1"}, "t") as (reply, span):
    print(json.dumps({"reply": reply, "recording": span.is_recording(),
                      "loaded": [name for name in sys.modules if name.startswith("opentelemetry.sdk")]}))
"""

_EMITTED = """
import os
from shared.telemetry import SpanName, increment, exporting, tracing, warn
assert exporting.configure(os.environ, version="1.2.3") == "azure-monitor"
with tracing.span(SpanName.SWEEP):
    increment("sweeper_passes_total", outcome="done")
    warn("DEAD_REPLIES")
"""


@pytest.mark.parametrize(
    "settings", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}]
)
def test_nothing_configured_is_silent_and_free(settings: dict[str, str]) -> None:
    """The whole app is loaded, a span and a count are asked for: no SDK is imported and no span is made."""
    assert json.loads(run(_SILENT, **settings)) == {"on": False, "valid": False, "recording": False, "loaded": []}


def test_a_service_without_a_collector_is_silent_too() -> None:
    """Its replies are as they were."""
    assert json.loads(run(_SERVICE_SILENT)) == {
        "reply": {"type": "ACK", "jobId": "job_1"},
        "recording": False,
        "loaded": [],
    }


def test_azure_monitor_gets_spans_and_metrics_and_no_lines() -> None:
    """The distribution's own exporter sends them to the connection string's endpoint."""
    with ingestion() as (settings, received):
        run(_EMITTED, **settings)
    spans = [
        item["data"]["baseData"]["name"] for item in received if item["data"]["baseType"] == "RemoteDependencyData"
    ]
    metrics = {
        metric["name"]: metric["value"]
        for item in received
        if item["data"]["baseType"] == "MetricData"
        for metric in item["data"]["baseData"]["metrics"]
    }
    assert spans == ["sweep"]
    # the host forwards the lines; sent by the app too, each would be stored and paid for twice
    assert [item for item in received if item["data"]["baseType"] == "MessageData"] == []
    assert metrics["sweeper_passes_total"] == 1
    # the exporter's own statistics come under a name of its own
    assert "lucius" in {item["tags"]["ai.cloud.role"] for item in received}


@pytest.mark.parametrize("given", ["nonsense", "IngestionEndpoint=http://127.0.0.1:9/"])
def test_a_wrong_connection_string_stops_the_start_by_its_name(given: str) -> None:
    """One line that names the setting and not its value, from the app as from a service."""
    for code in (_EMITTED, 'import os; from lucius_service import tracing; tracing.configure(os.environ, "ocr")'):
        with pytest.raises(AssertionError) as stopped:
            run(code, APPLICATIONINSIGHTS_CONNECTION_STRING=given)
        last = str(stopped.value).strip().splitlines()
        assert any("SettingsError: APPLICATIONINSIGHTS_CONNECTION_STRING is not" in line for line in last), last
