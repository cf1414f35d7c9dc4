"""Log records, metrics and spans (R40), which contain no payload, no reference and no token."""

from __future__ import annotations

from shared.telemetry.committed import line_ids, record_creation, record_transition
from shared.telemetry.lines import info, log, warn
from shared.telemetry.meters import increment, observe, record_fault, record_limit, set_gauge, tolerate
from shared.telemetry.span_table import SpanName

__all__ = [
    "SpanName",
    "increment",
    "info",
    "line_ids",
    "log",
    "observe",
    "record_creation",
    "record_fault",
    "record_limit",
    "record_transition",
    "set_gauge",
    "tolerate",
    "warn",
]
