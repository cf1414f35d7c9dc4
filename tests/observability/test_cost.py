"""The rows of a job in Log Analytics, counted from the app's own export, as in docs/explanation/scale.md."""

from __future__ import annotations

import json

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from benchmarks.scale import job
from shared.telemetry import exporting, tracing
from shared.telemetry.spans import request_span
from tests.observability.conftest import Telemetry
from tests.observability.ingestion import ingestion, run
from tests.observability.moves import dispatched, replied, submitted
from tests.observability.recorded_export import Row, rows_of
from tests.operations.conftest import World

#: a 3-step job with one request, all traces kept
_RUN = """
import asyncio, logging, os
from shared.telemetry import exporting
assert exporting.configure(os.environ, version="1.2.3", trace_ratio=1.0) == "azure-monitor"

from azure.monitor.opentelemetry.exporter import AzureMonitorLogExporter
from opentelemetry.instrumentation.logging.handler import LoggingHandler
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from tests.memory_stores import MemoryLedger
from shared.telemetry import info
from shared.telemetry.spans import request_span
from tests.observability.moves import dispatched, replied, submitted
from tests.operations.conftest import built

provider = LoggerProvider()
provider.add_log_record_processor(BatchLogRecordProcessor(AzureMonitorLogExporter()))
logger = logging.getLogger("lucius")
logger.addHandler(LoggingHandler(logger_provider=provider))
logger.setLevel(logging.INFO)

async def main():
    world = built(MemoryLedger())
    with request_span("POST", "v1/orchestrate", {}) as respond:
        sis = {"sis": {"prompt_set": ["x"]}}
        job_id = await submitted(world, request_type="OCR_EMBEDDING_SIS", payload=sis)
        info("ACCESS", method="POST", route="v1/orchestrate", status=202, duration_ms=12, actor="caller-of-the-app",
             tenant_id="tenant_a", scope="orch:submit", correlation_id="corr-1")
        respond(202)
    for step in ("ocr", "embedding", "sis"):
        directive = await dispatched(world, job_id, step)
        await replied(world, directive, "ACK")
        await replied(world, directive, "RESULT")

asyncio.run(main())
provider.shutdown()
"""


def size(found: list[Row]) -> int:
    return sum(len(json.dumps(row)) for row in found)


def test_the_model_has_the_bytes_of_a_job() -> None:
    with ingestion() as (settings, received):
        run(_RUN, **settings)
    # ids of jobs are as long as the app's
    tables = rows_of(json.loads(json.dumps(received).replace("job_2", "job_" + "0" * 32)))
    spans = tables["AppRequests"] + tables["AppDependencies"]
    always = [row for row in spans if row["Name"].startswith(("POST", "job "))]
    assert len(always) == 2
    model = job.Job(3)
    assert size(always) == pytest.approx(job.KEPT_SPAN_BYTES, rel=0.1)
    assert size(spans) == pytest.approx(model.span_bytes(1.0), rel=0.1)
    assert size(tables["AppTraces"]) == pytest.approx(model.record_bytes, rel=0.1)
    assert size(tables["AppMetrics"]) == pytest.approx(job.METRIC_BYTES_A_MINUTE, rel=0.1)


async def test_requests_jobs_and_failures_are_sent_whatever_the_share(
    world: World, emitted: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no other trace; each counts once, as alerts and queries count."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(emitted.exporter))
    exporting.keep_share(provider, 0.0)
    monkeypatch.setattr(tracing, "_tracer", provider.get_tracer("lucius"))
    with request_span("POST", "v1/orchestrate", {}) as respond:
        job_id = await submitted(world, request_type="OCR", payload={})
        respond(503)
    await replied(world, await dispatched(world, job_id, "ocr"), "RESULT")
    other = await submitted(world, request_type="OCR", payload={}, idempotency_key="2")
    failed = {"status": "FAILED_FINAL", "error": {"code": "BAD", "message": "no"}}
    await replied(world, await dispatched(world, other, "ocr"), "RESULT", **failed)
    assert sorted(span.name for span in emitted.spans) == ["POST /v1/orchestrate", "attempt OCR", "job OCR", "job OCR"]
    assert {(span.attributes or {})["_MS.sampleRate"] for span in emitted.spans} == {100.0}
