"""Destinations of telemetry: none, Azure Monitor or a collector, over the real protocol."""

from __future__ import annotations

import json

from tests.observability.ingestion import ingestion, run

_SERVICE_SILENT = """
import os, sys, json
from lucius_service import tracing
tracing.configure(os.environ, "ocr")
with tracing.publish_span({"type": "ACK", "jobId": "job_1"}, "t") as (reply, span):
    print(json.dumps({"reply": reply, "recording": span.is_recording(),
                      "loaded": [name for name in sys.modules if name.startswith("opentelemetry.sdk")]}))
"""

_REFUSED = """
import os
from lucius_service import tracing as of_service
from shared.telemetry import exporting
for given in ("nonsense", "IngestionEndpoint=http://127.0.0.1:9/"):
    os.environ["APPLICATIONINSIGHTS_CONNECTION_STRING"] = given
    for configure, options in ((exporting.configure, {"version": "1.2.3"}), (of_service.configure, {"name": "ocr"})):
        try:
            configure(os.environ, **options)
        except Exception as error:
            print(type(error).__name__, error, sep=": ")
"""

_EMITTED = """
import os
from shared.telemetry import SpanName, increment, exporting, tracing, warn
assert exporting.configure(os.environ, version="1.2.3") == "azure-monitor"
with tracing.span(SpanName.SWEEP):
    increment("sweeper_passes_total", outcome="done")
    warn("DEAD_REPLIES")
"""


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
    # the host forwards the lines; if the app sent them too, each would be stored and billed twice
    assert [item for item in received if item["data"]["baseType"] == "MessageData"] == []
    assert metrics["sweeper_passes_total"] == 1
    # the exporter's own statistics have another service name
    assert "lucius" in {item["tags"]["ai.cloud.role"] for item in received}


def test_a_wrong_connection_string_stops_the_start_by_its_name() -> None:
    """One line names the setting and not its value, from the app and from a service, for each of two strings."""
    line = (
        "APPLICATIONINSIGHTS_CONNECTION_STRING is not a connection string of Application Insights; correct the setting"
    )
    assert run(_REFUSED).splitlines() == [f"SettingsError: {line}"] * 4
