"""Structured log lines (FEATURES J1): one JSON object a line, with the ids that every line of a job carries."""

from __future__ import annotations

import json
import logging
from typing import Any

from shared.core.outcome import Outcome

_logger = logging.getLogger("lucius")


def log(level: int, message: str, **fields: Any) -> None:
    """One line; fields that are None are left out. Never hand in a payload or a secret."""
    if _logger.isEnabledFor(level):
        told = {"event": message, **{name: value for name, value in fields.items() if value is not None}}
        _logger.log(level, json.dumps(told, default=str, ensure_ascii=False))


def info(message: str, **fields: Any) -> None:
    log(logging.INFO, message, **fields)


def warn(message: str, **fields: Any) -> None:
    log(logging.WARNING, message, **fields)


def moved(outcome: Outcome) -> None:
    """What was committed, from its EVENT rows."""
    job = outcome.record.job
    for event in outcome.events:
        info(
            event.type,
            jobId=job.job_id,
            tenant_id=job.tenant,
            stepId=event.step_id,
            attempt_no=event.attempt_no,
            lease_id=event.lease_id,
            step_status=event.to_status,
            job_status=event.job_to,
            reason=event.reason,
            correlation_id=job.correlation_id,
        )
