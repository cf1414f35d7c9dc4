"""Records the app's export to Azure Monitor, from its own exporter, as rows of the tables that queries read.

A process of its own puts a job through the operations, then writes every metric and log line that the tables have. Its
spans and metrics leave it by the app's own configuration. Log lines reach Azure through the Functions host, by the
.NET exporter of the same envelopes; here Microsoft's Python exporter of logs stands for it.

The items are of Application Insights' protocol (`Azure.Monitor.OpenTelemetry.Exporter/src/Generated/Models`); which
column a field becomes: https://learn.microsoft.com/azure/azure-monitor/app/data-model-complete, and the pages of the
tables under https://learn.microsoft.com/azure/azure-monitor/reference/tables/appmetrics. A field that was not sent
is no column here, though ingestion may fill it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tests.observability.ingestion import ingestion, run

Row = dict[str, Any]
Tables = dict[str, list[Row]]

_RUN = """
import asyncio, logging, os
from shared.telemetry import exporting
assert exporting.configure(os.environ, version="1.2.3") == "azure-monitor"

from azure.monitor.opentelemetry.exporter import AzureMonitorLogExporter
from opentelemetry.instrumentation.logging.handler import LoggingHandler
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from tests.memory_stores import MemoryLedger
from shared.operations.jobs.settle_step import settle_step
from shared.operations.sweeper.sweep import sweep
from shared.telemetry import increment, line_ids, log, observe, set_gauge
from shared.telemetry.lines import LINES
from shared.telemetry.metric_table import METRICS, MetricKind
from shared.telemetry.spans import request_span
from tests.observability.moves import dispatched, replied, submitted
from tests.operations.conftest import built

provider = LoggerProvider()
provider.add_log_record_processor(BatchLogRecordProcessor(AzureMonitorLogExporter()))
logger = logging.getLogger("lucius")
logger.addHandler(LoggingHandler(logger_provider=provider))
logger.setLevel(logging.INFO)

async def one_job():
    world = built(MemoryLedger())
    with request_span("POST", "v1/orchestrate", {}) as respond:
        job_id = await submitted(world, request_type="OCR", payload={})
        respond(503)
    directive = await dispatched(world, job_id, "ocr")
    here = {"job_id": job_id, "instance_id": job_id}
    await settle_step(world.context, world.orchestrations, **here, step_id="ocr", attempt_no=1)
    await replied(world, directive, "ACK")
    await replied(world, directive, "RESULT")
    await replied(world, directive.model_copy(update={"jobId": "job_elsewhere"}), "ACK")
    await sweep(world.context, world.orchestrations)

asyncio.run(one_job())
write = {MetricKind.COUNTER: increment, MetricKind.HISTOGRAM: observe, MetricKind.GAUGE: set_gauge}
for metric in METRICS:
    write[metric.kind](metric.name, 1, **{name.replace(".", "__"): 1 for name in metric.attributes})
for line in LINES:
    log(logging.getLevelName(line.level), line.event)
# with the field that an alert splits by
log(logging.WARNING, "SERVICE_SILENT", service="ocr")
try:
    raise RuntimeError("a function failed")
except RuntimeError:
    logger.exception("Executed")
provider.shutdown()
"""

#: column to field of `baseData`, by the item's type
_FIELDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "RequestData": (
        "AppRequests",
        {"Name": "name", "Url": "url", "ResultCode": "responseCode", "Success": "success", "DurationMs": "duration"},
    ),
    "RemoteDependencyData": (
        "AppDependencies",
        {
            "Name": "name",
            "Target": "target",
            "ResultCode": "resultCode",
            "Success": "success",
            "DurationMs": "duration",
        },
    ),
    "MessageData": ("AppTraces", {"Message": "message", "SeverityLevel": "severityLevel"}),
    "ExceptionData": ("AppExceptions", {"SeverityLevel": "severityLevel"}),
}
_TAGS = {
    "AppRoleName": "ai.cloud.role",
    "AppRoleInstance": "ai.cloud.roleInstance",
    "OperationId": "ai.operation.id",
    "ParentId": "ai.operation.parentId",
}


def record() -> Tables:
    """The rows of one run, by table."""
    with ingestion() as (settings, received):
        run(_RUN, **settings)
    return rows_of(received)


def rows_of(items: Iterable[Mapping[str, Any]]) -> Tables:
    """The rows that items become, by table."""
    tables: Tables = {}
    for item in items:
        for table, row in _rows(item):
            tables.setdefault(table, []).append(row)
    return tables


def _rows(item: Mapping[str, Any]) -> list[tuple[str, Row]]:
    kind, data = item["data"]["baseType"], item["data"]["baseData"]
    shared = {"TimeGenerated": item["time"], "Properties": data.get("properties", {})}
    shared |= {column: item["tags"][tag] for column, tag in _TAGS.items() if tag in item["tags"]}
    if kind == "MetricData":
        fields = {"Name": "name", "Sum": "value", "ItemCount": "count", "Min": "min", "Max": "max"}
        return [("AppMetrics", shared | _columns(fields, metric)) for metric in data["metrics"]]
    table, fields = _FIELDS[kind]
    return [(table, shared | _columns(fields, data))]


def _columns(fields: Mapping[str, str], data: Mapping[str, Any]) -> Row:
    return {column: data[field] for column, field in fields.items() if data.get(field) is not None}
