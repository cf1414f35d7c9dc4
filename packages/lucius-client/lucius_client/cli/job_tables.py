"""Tables of `lucius job`: jobs, steps, artifacts, events and times."""

from __future__ import annotations

from typing import Any

from lucius_client.cli.rendering import Json
from lucius_client.cli.tables import Column, Listing, status
from lucius_client.series import TERMINAL

#: states of a job that ended without success
FAILED = ("FAILED_FINAL", "CANCELLED")


def job_id(job: Json) -> str:
    return str(job["jobId"])


def artifacts(steps: list[Json]) -> list[Json]:
    """Returns a row for each artifact of each step, and for each output of a step at `output_ref`."""
    rows: list[Json] = []
    for step in steps:
        result = step.get("result") or {}
        written = [{"name": "output", **result["output_ref"]}] if result.get("output_ref") else []
        rows += [{"stepId": step["stepId"], **each} for each in (*written, *(result.get("artifacts") or ()))]
    return rows


def _labels(job: Json) -> str:
    return " ".join(f"{key}:{value}" for key, value in (job.get("labels") or {}).items())


def _current_step(job: Json) -> Any:
    """Returns the current step, or None for a job that ended, of which the API can return the last step."""
    return None if job["status"] in TERMINAL else job.get("current_step_id")


JOBS = Listing(
    "jobs",
    "jobId",
    (
        Column("job", "jobId"),
        Column("tenant", "tenant_id", room=8, drop=4),
        Column("type", "request_type", room=8, drop=3),
        Column("status", status(), drop=1),
        Column("step", _current_step, room=6, drop=5),
        Column("labels", _labels, room=8, drop=6),
        Column("created", "created_at", at=True, drop=2),
    ),
)
STEPS = Listing(
    "steps",
    "stepId",
    (
        Column("step", "stepId", room=8),
        Column("type", "step_type", room=8, drop=2),
        Column("status", status()),
        Column("attempt", lambda step: f"{step.get('attempt_no')}/{step.get('max_attempts', '?')}"),
        Column("error", "last_error_code", room=10, drop=1),
        Column("result", lambda step: (step.get("result_ref") or {}).get("uri"), room=12, drop=3, keeps_end=True),
    ),
)
#: columns for the rows of `artifacts`
ARTIFACTS = Listing(
    "results",
    "uri",
    (
        Column("step", "stepId", room=8),
        Column("name", "name", room=8),
        Column("type", "media_type", room=8, drop=2),
        Column("bytes", "size", drop=1),
        Column("uri", "uri", room=12, keeps_end=True),
    ),
)
EVENTS = Listing(
    "events",
    "eventId",
    (
        Column("seq", "seq"),
        Column("at", "at", at=True),
        Column("event", "type", room=16),
        Column("step", "stepId", room=6, drop=1),
        Column("attempt", "attempt_no", drop=5),
        Column("from", "from_status", room=12, drop=7),
        Column("to", "to_status", room=12, drop=3),
        Column("job", "job_to", room=12, drop=2),
        Column("actor", "actor", room=8, drop=6),
        Column("reason", "reason", room=8, drop=4),
    ),
)
TIMES = Listing(
    "steps",
    "stepId",
    (
        Column("step", "stepId", room=8),
        Column("attempts", "attempts", drop=1),
        *(
            Column(f"{part} s", f"{part}_s", drop=drop)
            for drop, part in enumerate(
                ("queue", "ack", "service", "backoff", "backlog", "gated", "dependent", "paused"), start=2
            )
        ),
    ),
)
RELATED = Listing(
    "dependencies",
    "jobId",
    (
        Column("relation", "it", drop=2),
        Column("job", "jobId"),
        Column("status", status(), drop=1),
        Column("error", "error_code", room=10, drop=4),
        Column("redriven by", "redriven_by", drop=3),
    ),
)
