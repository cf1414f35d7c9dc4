"""What the app loads when it starts."""

from __future__ import annotations

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


def test_what_only_some_deployments_need_is_loaded_by_them_alone() -> None:
    """With connection strings no SDK of identities, without a store none of App Configuration, without export none."""
    code = "import sys, function_app; print(*sys.modules)"
    started = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], **_ENVIRONMENT},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(started.stdout.split())
    assert "azure.servicebus" in loaded
    assert loaded.isdisjoint({"azure.identity", "azure.appconfiguration", "azure.monitor.opentelemetry", "msal"})
    # one route of all needs it, with its first request (R83)
    assert not [name for name in loaded if name.partition(".")[0] == "graphql"]
