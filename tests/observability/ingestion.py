"""Application Insights' ingestion on loopback, and a process that sends to it."""

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

from tests.running_stack import ROOT

#: of the form that Azure gives
_KEY = "00000000-0000-0000-0000-000000000001"


def run(code: str, **environment: str) -> str:
    """A fresh process with these settings and no telemetry settings of the caller's."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "APPLICATIONINS"))}
    settings = {
        "LUCIUS_STORAGE_BACKEND": "memory",
        "LUCIUS_AUTH_MODE": "none",
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
def ingestion() -> Iterator[tuple[dict[str, str], list[dict[str, Any]]]]:
    """As far as the SDK needs it: the settings that lead to it, and the items that it received."""
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
        address = f"http://127.0.0.1:{server.server_port}/"
        yield (
            {
                "APPLICATIONINSIGHTS_CONNECTION_STRING": f"InstrumentationKey={_KEY};IngestionEndpoint={address}",
                "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "true",
            },
            received,
        )
    finally:
        server.shutdown()
        server.server_close()
