"""What the HTTP API shows of a job: the ledger's columns under CONTRACT's names."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from typing import Any

from shared.core.job import Event, Job, Record, Step

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


def rejected_view(message: Any, *, body: bool) -> dict[str, Any]:
    """A rejected message (`shared.ports.RejectedMessage`); lists leave its body out."""
    return {
        field.name: _plain(getattr(message, field.name)) for field in fields(message) if body or field.name != "body"
    }
