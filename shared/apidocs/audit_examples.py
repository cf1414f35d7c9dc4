"""Examples of signed heads and of replays, built by the code of the API's responses. A signature is a placeholder."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

from shared.access.references import Retention
from shared.api.replay import comparison_response, replay_response
from shared.apidocs.json_schema import JsonObject, dumped
from shared.core.audit.heads import DayHead, json_lines
from shared.core.audit.statements import anchor_statement, dsse_envelope, format_statement_time, heads_statement, sha256
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Record
from shared.core.jobs.replay import ReplayMode, ReplayRequest, plan_replay
from shared.core.jobs.states import JobStatus, StepStatus

_KEY_ID = sha256(b"key")
_SIGNATURE = bytes(70)
_WORKSPACE = "https://account.blob.core.windows.net/workspace"
_REPLAYED_AT = datetime(2026, 2, 1, 10, tzinfo=UTC)


def heads_by_model(job_id: str) -> JsonObject:
    """Returns an example for each response about heads, by the name of its model."""
    tenant, day = "tenant_a", date(2026, 1, 27)
    begins = datetime.combine(day, time(), UTC)
    head = DayHead(name=job_id, day=day, seq=9, hash=sha256(b"event"))
    page = heads_statement(tenant, begins, begins + timedelta(days=1), [head], page=1, last=True, previous="")
    lines: list[dict[str, str | int]] = [{"tenant": tenant, "day": day.isoformat()}, head.line]
    anchor = anchor_statement(day, sha256(b"anchor"), [sha256(json_lines(lines))])
    key = {
        "keyid": _KEY_ID,
        "pem": "-----BEGIN PUBLIC KEY-----\nMFkw...\n-----END PUBLIC KEY-----\n",
        "state": "active",
        "first_signed_at": format_statement_time(begins),
    }
    anchors = [{"day": day.isoformat(), "envelope": dsse_envelope(anchor, _KEY_ID, _SIGNATURE), "lines": lines}]
    return {
        "HeadsPage": {"envelope": dsse_envelope(page, _KEY_ID, _SIGNATURE), "next": None},
        "AnchorPage": {"anchors": anchors, "next": None},
        "AuditKeys": {"keys": [key]},
    }


def replays_by_model(original: Record) -> JsonObject:
    """Returns an example for each response about a replay of the job, which SUCCEEDED."""
    request = ReplayRequest(job_id=original.job.job_id, mode=ReplayMode.COMPARE, reason="the service has a new release")
    planned, _ = plan_replay(
        original,
        request,
        job_id="job_0a1b2c3d4e5f60718293a4b5c6d7e8f9",
        created_at=_REPLAYED_AT,
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
