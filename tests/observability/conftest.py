"""Spans and metrics of this process, read back from the SDK itself; and a live stack that shows its traces."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared.telemetry import exporting, meters, tracing
from shared.telemetry.metric_table import METRICS
from tests import running_stack
from tests.operations.conftest import world
from tests.running_stack import RunningStack

__all__ = ["world"]

#: replaces secrets and payloads; no log, span or metric may contain it
MARKER = "mArKeR-7f3a"


@dataclass
class Telemetry:
    """The spans and metrics of this process."""

    exporter: InMemorySpanExporter
    reader: InMemoryMetricReader

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def span(self, name: str) -> ReadableSpan:
        [found] = [span for span in self.spans if span.name == name]
        return found

    def points(self) -> dict[tuple[str, tuple[Any, ...]], Any]:
        """Returns (metric, sorted attributes) to the value; for a histogram, the number of values."""
        data = self.reader.get_metrics_data()
        return {
            (metric.name, tuple(sorted((point.attributes or {}).items()))): getattr(point, "value", None)
            if hasattr(point, "value")
            else point.count
            for of_resource in (data.resource_metrics if data else ())
            for scope in of_resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        }


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Telemetry]:
    """The app's own tracer and instruments over providers of this test alone."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    spans, numbers = TracerProvider(), MeterProvider([reader])
    spans.add_span_processor(SimpleSpanProcessor(exporter))
    exporting.name_spans(spans)
    monkeypatch.setattr(tracing, "_tracer", spans.get_tracer("lucius"))
    monkeypatch.setattr(meters, "_meter", numbers.get_meter("lucius"))
    monkeypatch.setattr(meters, "_instruments", {metric.name: meters._make(metric) for metric in METRICS})
    monkeypatch.setattr(meters, "_seen", {})
    monkeypatch.setattr("shared.operations.sweeper.gauges._shown_queues", {})
    monkeypatch.setattr("shared.operations.sweeper.gauges._shown_breakers", {})
    yield Telemetry(exporter, reader)
    tracing.enable(False)
    spans.shutdown()
    numbers.shutdown()


class Model:
    """An OpenAI-compatible endpoint that is busy the first time, so that SIS needs a second attempt."""

    def __init__(self) -> None:
        self.asked = 0
        model = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                model.asked += 1
                self.send_response(503 if model.asked == 1 else 200)
                answer = {"choices": [{"message": {"content": '{"answer": "42", "passage": 1, "quote": "x"}'}}]}
                body = json.dumps(answer).encode()
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                return

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """Yields a stack whose traces are collected, whose timers are shortened, and whose SIS fails its first attempt."""
    model = Model()
    environment = {
        # a timer fires while the directive waits: `settle` reads, and changes nothing
        "LUCIUS_ACK_TIMEOUT_SECONDS": "0.3",
        "LUCIUS_EXECUTION_BACKOFF_SECONDS": "0.2",
        "LUCIUS_SIS_OPENAI_BASE_URL": model.url,
        "LUCIUS_SIS_OPENAI_MODEL": "tiny-1",
        "LUCIUS_SIS_OPENAI_API_KEY": f"key-{MARKER}",
        "LUCIUS_SERVICE_LOGS": "json",
        "LUCIUS_CALLBACK_KEYS": "k1:bUFyS2VSLTdmM2FtQXJLZVItN2YzYW1BcktlUi03ZjNh",
        "LUCIUS_PUBLIC_URL": "http://127.0.0.1:1",
    }
    running = running_stack.start(tmp_path_factory.mktemp("watched"), "--traces", environment=environment)
    try:
        yield running
    finally:
        code = running.stop()
        model.close()
    assert code == 0, running_stack.tails(running.data)
