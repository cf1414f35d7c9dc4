"""Jobs to test with: real plans over the shipped protocols, and the replies that services would send."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from shared.access.references import Retention
from shared.adapters.protocol_files import load_registry
from shared.contracts.envelope import Envelope
from shared.contracts.messages import Reply
from shared.core.jobs.decide import apply
from shared.core.jobs.history import Provenance
from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import NextAttempt, Occurrence, RecordAttempt, ReplyArrived
from shared.core.jobs.outcome import Outcome
from shared.core.jobs.plan import TimingDefaults, compute_digests, plan_job, with_first_event
from shared.core.jobs.routing import decide_lane
from shared.core.registry import Registry
from triggers.http.responses import json_of

ROOT = Path(__file__).resolve().parent.parent
START = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)

#: the product's own defaults (docs/reference/settings.md)
DEFAULTS = TimingDefaults(
    ack_timeout_s=30,
    lease_s=900,
    max_attempts=3,
    attempt_max_s=14_400,
    total_timeout_s=604_800,
    dispatch_backoffs=(30, 120, 600),
    ack_backoffs=(60, 300, 900),
    execution_backoffs=(5, 30, 120),
)

RETENTION = Retention("https://account.blob.core.windows.net/workspace", timedelta(days=30))


@cache
def registry() -> Registry:
    return load_registry(ROOT / "protocols", ROOT / "infra" / "bicep" / "topology.json")


def envelope(**changes: Any) -> Envelope:
    body = {
        "tenant_id": "tenant_a",
        "request_type": "OCR_EMBEDDING_SIS",
        "input_ref": {"uri": "https://account.blob.core.windows.net/documents/lease.pdf"},
        "output_ref": {"uri": "https://account.blob.core.windows.net/results/lease.json"},
        "payload": {"ocr": {}, "embedding": {}, "sis": {"prompt_set": ["When does the lease end?"]}},
        "schema_version": "1.0",
    }
    return Envelope.model_validate(body | changes)


def planned(job_id: str = "job_1", defaults: TimingDefaults = DEFAULTS, **changes: Any) -> Record:
    request = envelope(**changes)
    protocol = registry().find(request.request_type)
    assert protocol is not None
    unwritten = plan_job(
        request,
        protocol,
        decide_lane(request, default_mode="DEFAULT", lanes=16),
        defaults,
        job_id=job_id,
        created_at=START,
        correlation_id="corr-1",
        workspace_uri="https://account.blob.core.windows.net/workspace",
        identity=compute_digests(request),
    )
    record, _ = with_first_event(unwritten, "")
    return record


def body(model: BaseModel) -> dict[str, Any]:
    """The JSON body that the app sends for a response model."""
    return json_of(model)


class Story:
    """A job and the time, moved on one occurrence after another."""

    def __init__(self, record: Record | None = None) -> None:
        self.record = record or planned()
        self.now = START
        self.events: list[Any] = []
        self._causes = 0

    def after(self, seconds: float) -> Story:
        self.now += timedelta(seconds=seconds)
        return self

    def occurs(self, occurrence: Occurrence) -> Outcome:
        self._causes += 1
        provenance = Provenance(cause_id=f"cause-{self._causes}", actor="test", source="test", at=self.now, salt="")
        outcome = apply(self.record, occurrence, provenance)
        self.record = outcome.record
        self.events += outcome.events
        return outcome

    def recorded(self, step_id: str = "ocr") -> Outcome:
        return self.occurs(recorded(self.record, step_id))

    def replied(self, type_: str, step_id: str = "ocr", **fields: Any) -> Outcome:
        return self.occurs(ReplyArrived(reply(self.record, type_, step_id, **fields)))

    def step(self, step_id: str = "ocr") -> Any:
        return self.record.step(step_id)


def recorded(record: Record, step_id: str) -> RecordAttempt:
    """The next attempt of a step, under a lease that no other attempt has."""
    step = record.step(step_id)
    return RecordAttempt(step_id, f"{record.job.job_id}:{step_id}:{step.attempt_no + 1 if step else 1}")


def next_attempt(record: Record, step_id: str) -> NextAttempt | None:
    """Returns the attempt that a RESULT of the step can record with itself."""
    step = record.step(step_id)
    following = record.after(step) if step is not None else None
    if following is None:
        return None
    return NextAttempt(following.step_id, recorded(record, following.step_id).lease_id, "")


def reply(record: Record, type_: str, step_id: str = "ocr", **fields: Any) -> Reply:
    """Returns a reply of the owner of the step's current attempt."""
    step = record.step(step_id)
    body: dict[str, Any] = {
        "type": type_,
        "jobId": record.job.job_id,
        "stepId": step_id,
        "tenant_id": record.job.tenant_id,
        "attempt_no": max(step.attempt_no, 1) if step else 1,
        "lease_id": (step.lease_id if step else None) or "none",
        "timestamp": "2026-01-27T10:02:00Z",
    }
    if type_ == "RESULT":
        body["status"] = "SUCCEEDED"
        body["result_ref"] = {"uri": f"https://account.blob.core.windows.net/workspace/{step_id}.json"}
    return Reply.model_validate(body | fields)
