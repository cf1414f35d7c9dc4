"""Examples of replays in the API's documents."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.access.references import Retention
from shared.api.replay import comparison_response, replay_response
from shared.apidocs.json_schema import JsonObject, dumped
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Record
from shared.core.jobs.replay import ReplayMode, ReplayRequest, plan_replay
from shared.core.jobs.states import JobStatus, StepStatus

_WORKSPACE = "https://account.blob.core.windows.net/workspace"
_AT = datetime(2026, 2, 1, 10, tzinfo=UTC)


def by_model(original: Record) -> JsonObject:
    """Examples of responses about a replay of the job, which SUCCEEDED."""
    request = ReplayRequest(job_id=original.job.job_id, mode=ReplayMode.COMPARE, reason="the service has a new release")
    planned, _ = plan_replay(
        original,
        request,
        job_id="job_0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        created_at=_AT,
        allowed=None,
        workspace_uri=_WORKSPACE,
        origin=Origin(cause_id="", actor="user:1", source="http", reason=request.reason),
        salt="0" * 32,
    )
    result = {"input_digests": {"input_ref": "sha256:" + "1" * 64}, "digests": {"result_ref": "sha256:" + "2" * 64}}
    first, ended = _with_result(original, result), _with_result(planned, result)
    return {
        "Replay": dumped(replay_response(planned, Retention(_WORKSPACE, timedelta(days=30)))),
        "Comparison": dumped(comparison_response(first, ended.with_job(status=JobStatus.SUCCEEDED))),
    }


def _with_result(record: Record, result: dict[str, Any]) -> Record:
    done = StepStatus.SUCCEEDED
    return Record(record.job, tuple(replace(step, status=done, result=result) for step in record.steps))
