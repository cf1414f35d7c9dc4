"""Bodies of requests and responses, built by the app's own code."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shared.api.incident import incident as incident_response
from shared.api.incident import incident_detail as detail_response
from shared.api.job import job_line, job_response
from shared.api.quota import Quota as QuotaModel
from shared.api.quota import quota as quota_response
from shared.api.quota import quota_change as quota_change_response
from shared.api.receipt import ReceiptSums, add_up
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, Rule
from shared.core.incidents import Incident, IncidentEntry, incident_of
from shared.core.jobs.states import JobStatus
from shared.ports.index import ListRow
from shared.refusals import Refused
from tests.jobs import RETENTION, START, body, planned
from triggers.http.problems import problem_body

ENVELOPE = {
    "schema_version": "1.0",
    "tenant_id": "tenant_a",
    "request_type": "OCR",
    "input_ref": {"uri": "https://example.org/in.pdf"},
    "output_ref": {"uri": "https://example.org/out"},
    "payload": {},
}


def job(status: str = "QUEUED", job_id: str = "job_1") -> dict[str, Any]:
    return {**body(job_response(planned(job_id), RETENTION)), "status": status}


def accepted(job_id: str = "job_1") -> dict[str, Any]:
    whole = job(job_id=job_id)
    return {name: whole[name] for name in ("jobId", "status", "links", "created_at")}


def page(*job_ids: str, next_: str | None = None) -> dict[str, Any]:
    lines = [
        job_line(
            ListRow(
                job_id=job_id,
                tenant_id="tenant_a",
                request_type="OCR",
                status="SUCCEEDED",
                current_step_id=None,
                labels={},
                seq=9,
                created_at=START,
                ended_at=START,
            )
        )
        for job_id in job_ids
    ]
    return {"jobs": [body(line) for line in lines], "next": next_}


def quota(source: str | None = None) -> dict[str, Any]:
    """Returns a gate without limits."""
    gate = Gate(GateKind.SOURCE if source else GateKind.TENANT, "tenant_a", source or "")
    admission = AdmissionState(tenant="tenant_a", counted_at=START)
    return body(quota_response(admission, Directory(), GateState(gate=gate), START, None))


def quota_change() -> dict[str, Any]:
    state = GateState(gate=Gate(GateKind.SOURCE, "tenant_a", "scanner/7"))
    now = QuotaModel.model_validate(quota(source="scanner/7"))
    return body(quota_change_response(state, replace(state, rule=Rule(max_active=2)), now))


def _incident() -> tuple[Incident, IncidentEntry]:
    failed = {"status": JobStatus.FAILED_FINAL, "error_code": "ATTEMPTS_EXHAUSTED", "error_message": "no ACK"}
    found = incident_of(replace(planned("job_1").job, completed_at=START, **failed))
    assert found is not None
    return found


def incident() -> dict[str, Any]:
    """An open one, of a job."""
    return body(incident_response(_incident()[0]))


def incident_detail() -> dict[str, Any]:
    row, opened = _incident()
    return body(detail_response(row, [opened]))


def sums(next_: str | None) -> dict[str, Any]:
    """A page of receipts without jobs."""
    sums = {"tenant_id": "a", "since": None, "until": None, "unreadable": 0, **add_up([])}
    return body(ReceiptSums(**sums, next=next_, partial=False))


def problem(status: int, code: str, **more: Any) -> dict[str, Any]:
    refused = Refused("why it is so")
    vars(refused).update(status=status, code=code, **more)
    return problem_body(refused, "req-1")
