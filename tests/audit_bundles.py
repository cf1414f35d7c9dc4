"""Bundles of one job, and chains of EVENT rows, verified by `lucius_verify`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from lucius_verify.chain import check_events
from lucius_verify.histories import History
from lucius_verify.verification import verify_one_job
from shared.core.jobs.as_of import encode_value
from shared.core.jobs.job import Event


def faults(document: Any, *, head: str | None = None) -> list[str]:
    """The first broken link of each level; an empty list if the bundle is verified."""
    report = verify_one_job(json.dumps(document).encode(), "bundle", head=head)
    return [str(level.fault) for level in report.levels.values() if level.fault is not None]


def check_chain(events: Sequence[Event]) -> None:
    """Raises ValueError at the first event that breaks the sequence or the chain of hashes."""
    rows = [encode_value(event) for event in events]
    if rows and (fault := check_events(History(rows[0]["job_id"], {}, [], rows))) is not None:
        raise ValueError(str(fault))
