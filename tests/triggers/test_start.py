"""Modules that the app loads at its start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

_ENVIRONMENT = {
    "LUCIUS_STORAGE_BACKEND": "memory",
    "LUCIUS_AUTH_MODE": "none",
    "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
}

_CODE = """
import json, sys
import function_app
from shared.telemetry import SpanName, exporting, increment, tracing
disabled = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"}
exporter = exporting.configure(disabled, version="1.2.3")
with tracing.span(SpanName.SWEEP) as span:
    increment("job_started_total", jobType="OCR", mode="DEFAULT")
    telemetry = [exporter, tracing.enabled(), span.get_span_context().is_valid, span.is_recording()]
print(json.dumps({"telemetry": telemetry, "modules": list(sys.modules)}))
"""


def test_what_only_some_deployments_need_is_loaded_by_them_alone() -> None:
    """With connection strings no SDK of identities, without a store none of App Configuration, without export none.

    Telemetry that is not configured, or disabled, creates no span and imports no SDK.
    """
    started = subprocess.run(
        [sys.executable, "-c", _CODE],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(started.stdout)
    assert found["telemetry"] == [None, False, False, False]
    loaded = set(found["modules"])
    assert "azure.servicebus" in loaded
    assert loaded.isdisjoint({"azure.identity", "azure.appconfiguration", "azure.monitor.opentelemetry", "msal"})
    unused = ("opentelemetry.sdk", "opentelemetry.exporter", "azure.monitor")
    assert not [name for name in loaded if name.startswith(unused)]
    # one route of all needs it, with its first request (R83)
    assert not [name for name in loaded if name.partition(".")[0] == "graphql"]
