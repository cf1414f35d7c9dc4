"""The local collector receives OTLP of the real SDK, keeps a bounded amount, and shows its pages after any input."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp.test_utils import TestClient, TestServer
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from emulator.traces import trace_buffer as shelves
from emulator.traces.otlp import NotOtlp, Span, read_points, read_spans
from emulator.traces.program import application
from emulator.traces.trace_buffer import TraceBuffer
from emulator.traces.waterfall import rows
from tests.running_stack import ROOT

SPAN = Span(
    trace_id="a" * 32,
    span_id="1" * 16,
    parent_id="",
    name="one",
    kind="internal",
    service="lucius",
    start_ns=1_000,
    end_ns=2_000,
    attributes={},
    links=(),
    failed=False,
)


def exported(name: str = "parent", **attributes: str) -> bytes:
    """Returns the request of the SDK's own exporter: a span and its child."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource.create({"service.name": "tested"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t")
    with tracer.start_as_current_span(name, attributes=attributes):
        with tracer.start_as_current_span("child"):
            pass
    return encode_spans(exporter.get_finished_spans()).SerializeToString()


@pytest.fixture
async def client() -> AsyncIterator[TestClient]:  # type: ignore[type-arg]
    async with TestClient(TestServer(application(TraceBuffer(keep=10)))) as running:
        yield running


HEADERS = {"Content-Type": "application/x-protobuf"}


async def test_what_the_sdk_sends_is_shown(client: TestClient) -> None:  # type: ignore[type-arg]
    """Spans become a list line, a waterfall and JSON, the child under its parent."""
    body = exported(**{"lucius.job_id": "job_1"})
    assert (await client.post("/v1/traces", data=body, headers=HEADERS)).status == 200
    [trace] = (await (await client.get("/api/traces?job=job_")).json())["traces"]
    assert (trace["jobs"], trace["spans_total"], trace["name"]) == (["job_1"], 2, "parent")
    whole = await (await client.get(f"/api/traces/{trace['trace_id']}")).json()
    assert [(span["name"], span["depth"], span["service"]) for span in whole["spans"]] == [
        ("parent", 0, "tested"),
        ("child", 1, "tested"),
    ]
    assert (await (await client.get("/api/traces?job=job_2")).json())["traces"] == []


async def test_a_name_is_text_on_every_page(client: TestClient) -> None:  # type: ignore[type-arg]
    """Markup in names and attributes is shown as text, and the pages forbid scripts."""
    evil = '<script>alert("x")</script>'
    await client.post("/v1/traces", data=exported(evil, **{"lucius.job_id": evil, evil: evil}), headers=HEADERS)
    [trace] = (await (await client.get("/api/traces")).json())["traces"]
    for path in ("/", f"/?job={evil}", f"/traces/{trace['trace_id']}", "/metrics"):
        page = await client.get(path)
        assert "<script" not in await page.text(), path
        assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")


@pytest.mark.parametrize("path", ["/v1/traces", "/v1/metrics", "/v1/logs"])
async def test_what_is_no_otlp_is_refused_in_one_line(client: TestClient, path: str) -> None:  # type: ignore[type-arg]
    """JSON is 415 with the setting to use; a broken body is 400, and nothing of it is kept."""
    refused = await client.post(path, json={})
    assert refused.status == 415
    assert "OTEL_EXPORTER_OTLP_PROTOCOL" in await refused.text()
    if path != "/v1/logs":
        assert (await client.post(path, data=b"\xff" * 20, headers=HEADERS)).status == 400
    assert (await client.get("/traces/none")).status == 404


@pytest.mark.parametrize("read", [read_spans, read_points])
def test_a_cut_message_is_not_otlp(read) -> None:  # type: ignore[no-untyped-def]
    """Half a message raises instead of giving half of its content."""
    with pytest.raises(NotOtlp):
        read(exported()[:-7])


def test_the_oldest_go_and_those_of_no_job_first() -> None:
    """A watcher's reads do not push a job's trace out."""
    buffer = TraceBuffer(keep=3)
    buffer.put_spans([replace(SPAN, trace_id="0" * 31 + "1", attributes={"lucius.job_id": "job_1"})])
    buffer.put_spans(replace(SPAN, trace_id=f"{number:032x}") for number in range(2, 20))
    assert [trace.trace_id[-2:] for trace in buffer.find("", 10, all_=True)] == ["13", "12", "01"]
    assert [trace.trace_id[-2:] for trace in buffer.find("", 10)] == ["01"]
    jobs = [replace(SPAN, trace_id=f"{n:032x}", attributes={"lucius.job_id": f"job_{n}"}) for n in range(30, 34)]
    buffer.put_spans(jobs)
    assert [trace.jobs for trace in buffer.find("", 10)] == [["job_33"], ["job_32"], ["job_31"]]


def test_a_trace_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spans over the limit are counted; a span that comes again replaces the first."""
    monkeypatch.setattr(shelves, "MAX_SPANS", 2)
    buffer = TraceBuffer(keep=1)
    buffer.put_spans(replace(SPAN, span_id=f"{number:016x}") for number in (1, 2, 3, 1))
    trace = buffer.trace(SPAN.trace_id)
    assert trace is not None
    assert (len(trace.spans), trace.dropped) == (2, 1)


def test_a_circle_of_parents_is_shown_once() -> None:
    """Forged parent ids make no endless loop: every span is shown exactly once."""
    buffer = TraceBuffer(keep=1)
    a, b, own = "a" * 16, "b" * 16, "c" * 16
    buffer.put_spans(
        replace(SPAN, span_id=span, parent_id=parent)
        for span, parent in ((a, b), (b, a), (own, own), ("d" * 16, "e" * 16))
    )
    trace = buffer.trace(SPAN.trace_id)
    assert trace is not None
    assert sorted(row.span.span_id for row in rows(trace)) == [a, b, own, "d" * 16]


def test_a_port_in_use_is_one_line() -> None:
    """The program ends with 1 and names the port."""
    with subprocess.Popen(
        [sys.executable, "-m", "emulator", "traces", "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        ready = first.stdout.readline().strip()
        assert ready.startswith("ready http://127.0.0.1:")
        port = ready.rsplit(":", 1)[1]
        second = subprocess.run(
            [sys.executable, "-m", "emulator", "traces", "--port", port],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        first.terminate()
    assert (first.returncode, second.returncode, second.stdout) == (0, 1, "")
    assert second.stderr.startswith(f"traces: cannot listen on port {port}")
    assert second.stderr.count("\n") == 1
