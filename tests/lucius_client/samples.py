"""Bodies of requests and responses, built by the app's own code."""

from __future__ import annotations

import json
from typing import Any

from shared.ports.index import ListRow
from shared.views.job import job_view, listed_view
from tests.jobs import START, planned
from triggers.http.problems import problem as problem_answer

ENVELOPE = {
    "schema_version": "1.0",
    "tenant_id": "tenant_a",
    "request_type": "OCR",
    "input_ref": {"uri": "https://example.org/in.pdf"},
    "output_ref": {"uri": "https://example.org/out"},
    "payload": {},
}


def job(status: str = "QUEUED", job_id: str = "job_1") -> dict[str, Any]:
    return {**_plain(job_view(planned(job_id))), "status": status}


def accepted(job_id: str = "job_1") -> dict[str, Any]:
    whole = job(job_id=job_id)
    return {name: whole[name] for name in ("jobId", "status", "links", "created_at")}


def page(*job_ids: str, next_: str | None = None) -> dict[str, Any]:
    lines = [
        listed_view(
            ListRow(
                job_id=job_id,
                tenant_id="tenant_a",
                request_type="OCR",
                status="SUCCEEDED",
                current_step_id=None,
                labels={},
                seq=9,
                created_at=START,
            ),
            status="SUCCEEDED",
            current_step_id=None,
            seq=9,
        )
        for job_id in job_ids
    ]
    return {"jobs": _plain(lines), "next": next_}


def problem(status: int, code: str, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(problem_answer("req-1", status, code, "why it is so", **more).get_body())
    return body


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))
