"""The format of a service's log: text for a terminal, or one JSON object per line with the ids of the attempt."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

from lucius_service.directive import Directive


def configure(name: str, form: str) -> None:
    """Configures logs on stderr. `form` is `text` or `json`."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter(f"%(asctime)s {name} %(levelname)s %(message)s")
    handler.setFormatter(JsonLines(name) if form == "json" else text)
    logging.basicConfig(handlers=[handler], level=logging.INFO)
    # the SDKs log every frame and every retry
    logging.getLogger("azure").setLevel(logging.CRITICAL)


def attempt_ids(directive: Directive) -> dict[str, dict[str, Any]]:
    """Returns the ids of an attempt, as the `extra` of a log call."""
    ids = {
        "jobId": directive.jobId,
        "stepId": directive.stepId,
        "tenant_id": directive.tenant_id,
        "attempt_no": directive.attempt_no,
        "lease_digest": directive.lease_digest,
        "correlation_id": directive.correlation_id,
        # W3C Trace Context: version-trace-parent-flags
        "trace_id": (directive.traceparent or "").split("-")[1]
        if (directive.traceparent or "").count("-") == 3
        else None,
    }
    return {"ids": {name: value for name, value in ids.items() if value is not None}}


class JsonLines(logging.Formatter):
    """A formatter of log records as JSON with `time`, `level`, `service` and `message`, the ids of the attempt, and
    `exception` with a stack trace.
    """

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "service": self._service,
            "message": record.getMessage(),
            **getattr(record, "ids", {}),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        # ASCII, so that no control character can break or colour the line
        return json.dumps(fields, default=str)
