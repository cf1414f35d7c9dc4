"""What the HTTP API shows of a job: the ledger's columns under CONTRACT's names."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from shared.core.job import Event, Job, Record, Step
from shared.core.states import StepStatus

#: kept inside: how the app works, not what the job is
_JOB_INSIDE = frozenset(
    {"job_id", "tenant", "body_hash", "workspace_base", "event_hash", "suppressed", "park_no", "gated"}
)
_STEP_INSIDE = frozenset({"step_id", "timings", "ack_failures", "execution_failures", "publish_failures"})


def links(job_id: str) -> dict[str, str]:
    return {
        "self": f"/v1/jobs/{job_id}",
        "steps": f"/v1/jobs/{job_id}/steps",
        "events": f"/v1/jobs/{job_id}/events",
        "cancel": f"/v1/jobs/{job_id}:cancel",
    }


def job_view(record: Record) -> dict[str, Any]:
    job = record.job
    shown = {"jobId": job.job_id, **_shown(job, _JOB_INSIDE)}
    return {**shown, "steps": [step_view(step) for step in record.steps], "links": links(job.job_id)}


def step_view(step: Step) -> dict[str, Any]:
    return {"stepId": step.step_id, **_shown(step, _STEP_INSIDE), "max_attempts": step.timings.max_attempts}


def event_view(event: Event) -> dict[str, Any]:
    shown = _shown(event, frozenset({"job_id", "step_id"}))
    return {"eventId": f"{event.job_id}:{event.seq}", "jobId": event.job_id, "stepId": event.step_id, **shown}


def _shown(row: Job | Step | Event, inside: frozenset[str]) -> dict[str, Any]:
    return {field.name: _plain(getattr(row, field.name)) for field in fields(row) if field.name not in inside}


def _plain(value: Any) -> Any:
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value


def listed_view(listed: Any, *, status: str, current_step_id: str | None, seq: int) -> dict[str, Any]:
    """A line of a list, from a LIST row; `seq` is the event that status and step are as of."""
    return {
        "jobId": listed.job_id,
        "tenant_id": listed.tenant_id,
        "request_type": listed.request_type,
        "status": status,
        "current_step_id": current_step_id,
        "seq": seq,
        "labels": dict(listed.labels),
        "created_at": _plain(listed.created_at),
        "links": links(listed.job_id),
    }


def dead_letter_view(record: Record) -> dict[str, Any]:
    """A job that failed for good: where, why, and which job took its place."""
    job = record.job
    failed = next((step for step in record.steps if step.status is StepStatus.FAILED_FINAL), None)
    return {
        "jobId": job.job_id,
        "tenant_id": job.tenant_id,
        "request_type": job.request_type,
        "status": job.status.value,
        "error_code": job.error_code,
        "error_message": job.error_message,
        "failed_step_id": failed.step_id if failed else job.current_step_id,
        "last_error_code": failed.last_error_code if failed else None,
        "attempts_total": job.attempts_total,
        "redrive_of": job.redrive_of,
        "redriven_by": job.redriven_by,
        "labels": dict(job.labels),
        "created_at": _plain(job.created_at),
        "completed_at": _plain(job.completed_at),
        "links": {**links(job.job_id), "redrive": f"/v1/jobs/{job.job_id}:redrive"},
    }


def callback_view(record: Record, *, applied: bool, why: str | None) -> dict[str, Any]:
    """What a service hears of its callback: what came of it, and whether its job goes on."""
    return {"outcome": "APPLIED" if applied else "IGNORED", "why": why, "job_status": record.job.status.value}


def rejected_view(message: Any, *, body: bool) -> dict[str, Any]:
    """A rejected message (`shared.ports.rejected.RejectedMessage`); lists leave its body out."""
    return {
        field.name: _plain(getattr(message, field.name)) for field in fields(message) if body or field.name != "body"
    }
