"""Structured log lines (FEATURES J1): one JSON object a line, with the ids that every line of a job carries."""

from __future__ import annotations

import json
import logging
from typing import Any

from opentelemetry import trace

_logger = logging.getLogger("lucius")


def log(level: int, message: str, **fields: Any) -> None:
    """One line of ASCII, which no text can break or colour; fields that are None are left out.

    Never hand in a payload, a reference or a secret.
    """
    if not _logger.isEnabledFor(level):
        return
    told = {"event": message, **{name: value for name, value in fields.items() if value is not None}}
    here = trace.get_current_span().get_span_context()
    if here.is_valid:
        told |= {"trace_id": f"{here.trace_id:032x}", "span_id": f"{here.span_id:016x}"}
    _logger.log(level, json.dumps(told, default=str))


def info(message: str, **fields: Any) -> None:
    log(logging.INFO, message, **fields)


def warn(message: str, **fields: Any) -> None:
    log(logging.WARNING, message, **fields)
