"""What the app tells of itself: lines, counts and spans (FEATURES J1-J3; docs/observability.md).

Ids, codes and durations only: no payload, no reference, no token ever comes here.
"""

from __future__ import annotations

from shared.telemetry.committed import line_ids, record_creation, record_transition
from shared.telemetry.faults import faulted, limited
from shared.telemetry.lines import info, log, warn
from shared.telemetry.meters import count, measure, show
from shared.telemetry.span_table import SpanName

__all__ = [
    "SpanName",
    "count",
    "record_creation",
    "faulted",
    "info",
    "limited",
    "line_ids",
    "log",
    "measure",
    "record_transition",
    "show",
    "warn",
]
