"""Where telemetry goes: nowhere and for free, to Azure Monitor or to a collector, over the real wire."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.running_stack import ROOT

#: read by the app; a connection string of the form that Azure gives
_KEY = "00000000-0000-0000-0000-000000000001"

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
from shared.telemetry import SpanName, increment, exporting, tracing
assert exporting.configure(os.environ, version="1.2.3") == "azure-monitor"
with tracing.span(SpanName.SWEEP):
    increment("sweeper_passes_total", outcome="done")
"""


def run(code: str, **environment: str) -> str:
    """A fresh process with these settings and no telemetry settings of the caller's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "APPLICATIONINS"))}
    settings = {
        "LUCIUS_STORAGE_BACKEND": "memory",
        "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**inherited, **settings, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def ingestion() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Application Insights' ingestion, as far as its SDK needs it: its address, and the items that it received."""
    received: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            items = json.loads(body)
            received.extend(items)
            answer = json.dumps({"itemsReceived": len(items), "itemsAccepted": len(items), "errors": []}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", received
    finally:
        server.shutdown()
        server.server_close()


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


def test_azure_monitor_gets_spans_and_metrics() -> None:
    """The distribution's own exporter sends them to the connection string's endpoint."""
    with ingestion() as (address, received):
        run(
            _EMITTED,
            APPLICATIONINSIGHTS_CONNECTION_STRING=f"InstrumentationKey={_KEY};IngestionEndpoint={address}",
            APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL="true",
        )
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
