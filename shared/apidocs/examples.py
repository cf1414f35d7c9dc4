"""Examples for the API's documents: bodies as the app makes them, for one job that runs in memory."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from shared.access.references import Retention
from shared.api.audit import bundle
from shared.api.dashboard import dashboard_metrics, routing
from shared.api.dead_letter import dead_letter
from shared.api.explain import explain
from shared.api.health import DependencyState
from shared.api.incident import incident, incident_detail
from shared.api.job import callback_outcome, event_response, job_links, job_response, step_response
from shared.api.receipt import receipt
from shared.apidocs import (
    audit_examples,
    bulk_examples,
    event_schemas,
    quota_examples,
    webhook_examples,
)
from shared.apidocs.json_schema import JsonObject, dumped
from shared.contracts.envelope import Envelope
from shared.contracts.messages import Reply
from shared.core.events.event_types import PublicType
from shared.core.incidents import IncidentState, Settlement, apply_settlement, incident_of
from shared.core.jobs.decide import apply
from shared.core.jobs.history import Provenance
from shared.core.jobs.job import Event, Record
from shared.core.jobs.occurrences import Occurrence, RecordAttempt, ReplyArrived
from shared.core.jobs.plan import TimingDefaults, compute_digests, plan_job, with_first_event
from shared.core.jobs.routing import decide_lane, decide_lane_of
from shared.core.overview.minutes import MinuteCounts
from shared.core.overview.overview import Overview, Service
from shared.core.registry import build_protocol

JOB_ID = "job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"
CORRELATION_ID = "0f8fad5b-d9cb-469f-a165-70867728950e"
_START = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)
_ACCOUNT = "https://account.blob.core.windows.net"
_RETENTION = Retention(f"{_ACCOUNT}/workspace", timedelta(days=30))
_LEASE_ID = "9b3f7d0c5e1a4286b7d9c4e05f8a6123"
_SALT = "4d1c0e9a7b6f4825a3e1d0c9b8f7a695"

ENVELOPE: JsonObject = {
    "schema_version": "1.0",
    "tenant_id": "tenant_a",
    "request_type": "OCR",
    "input_ref": {"uri": f"{_ACCOUNT}/documents/lease.pdf"},
    "output_ref": {"uri": f"{_ACCOUNT}/results/lease.json"},
    "payload": {"ocr": {"dpi": 200}},
    "labels": {"team": "contracts"},
}

_REJECTED_BODY = (
    '{"type": "ACK", "jobId": "job_0", "stepId": "ocr", "tenant_id": "tenant_a", "attempt_no": 1, "lease_id": '
    f'"{_LEASE_ID}"}}'
)
_OVERVIEW_AT = datetime(2026, 1, 27, 10, 1, tzinfo=UTC)

_RUNS: JsonObject = {
    "RunArtifacts": {
        "jobId": JOB_ID,
        "attempt": 1,
        "artifacts": [
            {
                "name": "report.json",
                "size": 1204,
                "media_type": "application/json",
                "written_at": "2026-01-27T10:02:00Z",
            }
        ],
    },
    "ArtifactLink": {
        "url": f"{_ACCOUNT}/runs/tenant_a/{JOB_ID}/1/report.json?se=2026-01-27T10%3A07%3A00Z&sig=s",
        "expires_at": "2026-01-27T10:07:00Z",
    },
}

#: bodies of requests, by the name of their model or the kind of the callback
REQUESTS: JsonObject = {
    "Envelope": ENVELOPE,
    "ControlRequest": {"reason": "the wrong document"},
    "IncidentRequest": {"reason": "the service was restarted"},
    "RuleChange": {"max_active": 2, "reason": "a small contract"},
    "PriorityChange": {"priority": "high", "reason": "the customer is on the phone"},
    "PurgeBody": {"tenant": "acme", "reason": "the contract has ended"},
    "ReplayBody": {"reason": "the service has a new release", "mode": "compare"},
    "Admission": {"reason": "the customer is on the phone"},
    "BreakerReset": {"reason": "the service was repaired"},
    "Pause": {"tenant": "acme", "source": "scanner-7", "reason": "the scanner sends blank pages"},
    "Slowdown": {"tenant": "acme", "max_per_hour": 60, "reason": "month end", "until": "2126-02-01T00:00:00Z"},
    "Resume": {"tenant": "acme", "source": "scanner-7", "reason": "the scanner was repaired"},
    "TicketRequest": {"path": "/v1/events"},
    "QueryRequest": {
        "query": "query ($after: String) { events(after: $after) { next events { id type data } } }",
        "variables": {"after": "earliest"},
    },
    "NewHook": {
        "url": "https://hooks.example.com/lucius",
        "filter": {"types": ["job.completed", "job.failed"]},
        "description": "billing",
    },
    "HookChange": {"enabled": False},
    "RedriveRequest": {"reason": "the service is repaired", "ignoreDependencies": False},
    "BulkRequest": {
        "action": "redrive",
        "filter": {"tenant_id": "tenant_a", "status": "FAILED_FINAL", "since": "2026-01-27T10:00:00Z"},
        "reason": "the service is repaired",
    },
    "ReconcileRequest": {"dryRun": True},
    "AckCallback": {"timestamp": "2026-01-27T10:02:00Z"},
    "HeartbeatCallback": {"progress": 0.4, "note": "page 2 of 5"},
    "ResultCallback": {
        "status": "SUCCEEDED",
        "result_ref": {"uri": f"{_ACCOUNT}/workspace/lucius/tenant_a/{JOB_ID}/OCR/1/result.json"},
    },
}

PROBLEM: JsonObject = {
    "type": "/v1/problems#REQUEST_INVALID",
    "title": "Request invalid",
    "status": 400,
    "code": "REQUEST_INVALID",
    "detail": "a value of the job request is missing or not allowed; see errors",
    "errors": [{"path": "payload.ocr.dpi", "message": "9000 is greater than the maximum of 400"}],
    "correlation_id": CORRELATION_ID,
}


@dataclass
class _Story:
    """A job at one time, with its events so far."""

    record: Record
    events: list[Event]
    now: datetime = _START

    def occurs(self, seconds: float, cause_id: str, actor: str, source: str, occurrence: Occurrence) -> None:
        self.now += timedelta(seconds=seconds)
        provenance = Provenance(cause_id=cause_id, actor=actor, source=source, at=self.now, salt=_SALT)
        outcome = apply(self.record, occurrence, provenance)
        self.record = outcome.record
        self.events += outcome.events

    def replied(self, seconds: float, type_: str, **fields: Any) -> None:
        step = self.record.steps[0]
        reply = {
            "type": type_,
            "jobId": JOB_ID,
            "stepId": step.step_id,
            "tenant_id": self.record.job.tenant_id,
            "attempt_no": step.attempt_no,
            "lease_id": step.lease_id,
            **fields,
        }
        cause_id = f"message:15:{type_.lower()}-1:{len(self.events)}"
        self.occurs(seconds, cause_id, f"service:{step.service}", "bus", ReplyArrived(Reply.model_validate(reply)))


@lru_cache(maxsize=1)
def by_model() -> JsonObject:
    """Returns an example for each response, by the name of its model."""
    story = _planned()
    created = story.record
    story.occurs(0.4, f"dispatch:{JOB_ID}:ocr:1", "system", "dispatch", RecordAttempt("ocr", _LEASE_ID))
    story.replied(0.9, "ACK")
    running = story.record
    working = dumped(explain(running, story.now))
    failed = _failed(running, story)
    ref = {"uri": f"{_ACCOUNT}/workspace/lucius/tenant_a/{JOB_ID}/OCR/1/result.json"}
    text = {"name": "output.txt", "uri": ref["uri"].replace("result.json", "output.txt"), "media_type": "text/plain"}
    story.replied(41.2, "RESULT", status="SUCCEEDED", result_ref=ref, artifacts=[text], metrics={"pages": 5})
    line = {
        "jobId": JOB_ID,
        "tenant_id": "tenant_a",
        "request_type": "OCR",
        "status": "SUCCEEDED",
        "current_step_id": None,
        "seq": story.record.job.event_seq,
        "completed_at": "2026-01-27T10:00:41Z",
        "error_code": None,
        "archived_at": None,
        "labels": ENVELOPE["labels"],
        "created_at": "2026-01-27T10:00:00Z",
        "links": dumped(job_links(JOB_ID)),
    }
    rejected = {
        "id": "rej_1769508120000_0123456789abcdef01234567",
        "received_at": "2026-01-27T10:02:00Z",
        "tenant": "tenant_a",
        "reason": "UNKNOWN_JOB",
        "detail": "job not found: job_0",
        "lane": 15,
        "message_id": "6f0f1c5e6a574b8c9a1e0d3c1f6a7b52",
        "sequence_number": 7,
        "delivery_count": 1,
        "redriven_at": None,
        "redriven_outcome": None,
    }
    accepted = {
        "jobId": JOB_ID,
        "status": "QUEUED",
        "links": dumped(job_links(JOB_ID)),
        "created_at": line["created_at"],
    }
    outcome = {"line": 1, "status": 202, "jobId": JOB_ID, "links": dumped(job_links(JOB_ID)), "replayed": False}
    counts = {"lines": 2, "created": 1, "replayed": 0, "checked": 0, "refused": 1, "failed": 0}
    spent = dumped(receipt(story.record, story.events, story.now))
    summed = ("elapsed_s", "total", "attempts_total", "replies_ignored", "operations")
    build_ = {"version": "0.2.0", "commit": None, "envelope": "1.x"}
    up = {"status": "ok", "since": line["created_at"], "reason": None}
    return {
        "Accepted": accepted,
        "Job": dumped(job_response(story.record, _RETENTION)),
        "JobPage": {"jobs": [line], "next": None, "partial": False},
        "StepPage": {"steps": [dumped(step_response(step)) for step in story.record.steps], "next": None},
        "EventPage": {"events": [dumped(event_response(event)) for event in story.events], "next": None},
        "Explanation": working,
        "Receipt": spent,
        "ReceiptSums": {
            **{"tenant_id": "tenant_a", "since": None, "until": None, "jobs": 1, "unreadable": 0},
            "by_status": {"SUCCEEDED": 1},
            **{name: spent[name] for name in summed},
            "next": None,
            "partial": False,
        },
        "AuditBundle": bundle(story.record, story.events, story.now),
        "DeadLetterPage": {"deadletters": [dumped(dead_letter(failed))], "next": None, "partial": False},
        "CallbackOutcome": dumped(callback_outcome(created, applied=True, reason_code=None)),
        "RejectedPage": {"rejected": [rejected], "next": None},
        "RejectedMessage": {**rejected, "body": _REJECTED_BODY},
        "BatchOutcome": {"results": [outcome, {"line": 2, "status": 400, "problem": PROBLEM}], "counts": counts},
        "Reconciled": {"dryRun": True, "looked_at": 1, "dead_replies": 0, "actions": [], "more": False},
        "Live": {"status": "live", "build": build_},
        "Ready": {
            "status": "ready",
            "ledger": "tables",
            "auth": "jwt",
            "protocols": {"source": "files", "versions": {"OCR": 1}},
            "build": build_,
            "dependencies": dict.fromkeys(("tables", "blob", "servicebus", "durable"), up),
            "settings_not_read": [],
            "sweeper": {
                "last_pass_at": "2026-01-27T10:02:00Z",
                "looked_at": 3,
                "actions": 0,
                "more": False,
                "late": False,
                "work": {
                    "active": {"QUEUED": 1, "IN_PROGRESS": 2},
                    "queued_oldest_seconds": 4.2,
                    "unacked": 1,
                    "unacked_oldest_seconds": 3.9,
                },
            },
        },
        "SchemaPage": {
            "schemas": [{"name": "result", "title": "Result", "path": "/v1/schemas/result"}],
            "next": None,
        },
        "Ticket": {"ticket": "lt1.k1.eyJhY3RvciI6InVzZXI6MSJ9.c2lnbmF0dXJl", "expires_at": "2026-01-27T10:15:00Z"},
        "FeedPage": {
            "events": [event_schemas.example(PublicType.COMPLETED)],
            "next": "MGI3ZjJjNmQxZTRhNGYwYzoxMDQy",
        },
        "QueryAnswer": {"data": {"jobs": {"jobs": [{"jobId": JOB_ID, "status": "IN_PROGRESS"}], "next": None}}},
        "Problem": PROBLEM,
        **_incidents(failed),
        **audit_examples.replays_by_model(story.record),
        **quota_examples.by_model(JOB_ID),
        **audit_examples.heads_by_model(JOB_ID),
        **bulk_examples.by_model(JOB_ID),
        **_overview(),
        **_RUNS,
        **webhook_examples.by_model(JOB_ID),
    }


def _planned() -> _Story:
    protocol = build_protocol(
        "example",
        {
            "protocol_id": "ocr",
            "version": 1,
            "request_type": "OCR",
            "steps": [{"step_id": "ocr", "step_type": "OCR", "service": "ocr"}],
        },
        {},
        {"ocr": "OCR"},
    )
    request = Envelope.model_validate(ENVELOPE)
    planned = plan_job(
        request,
        protocol,
        decide_lane(request, default_mode="DEFAULT", lanes=16),
        TimingDefaults(
            ack_timeout_s=30,
            lease_s=900,
            max_attempts=3,
            attempt_max_s=14_400,
            total_timeout_s=604_800,
            dispatch_backoffs=(30, 120, 600),
            ack_backoffs=(60, 300, 900),
            execution_backoffs=(5, 30, 120),
        ),
        job_id=JOB_ID,
        created_at=_START,
        correlation_id=CORRELATION_ID,
        workspace_uri=f"{_ACCOUNT}/workspace",
        identity=compute_digests(request),
    )
    record, event = with_first_event(planned, _SALT)
    return _Story(record, [event])


def _failed(running: Record, story: _Story) -> Record:
    """Returns the job in the state after a failure of its service."""
    other = _Story(running, [], story.now)
    other.replied(
        12.5, "RESULT", status="FAILED_FINAL", error={"code": "PDF_ENCRYPTED", "message": "the document is locked"}
    )
    return other.record


def _incidents(failed: Record) -> JsonObject:
    """Returns incidents of the job, for a case in which all attempts timed out and an operator resolved the
    incident.
    """
    found = incident_of(failed.with_job(error_code="ATTEMPTS_EXHAUSTED", error_message="no ACK within 30 s").job)
    assert found is not None
    opened, first = found
    done = Settlement(
        state=IncidentState.RESOLVED,
        actor="app:6f1c0d3a",
        reason="the service was restarted",
        at=_START + timedelta(minutes=10),
    )
    resolved = apply_settlement(opened, done)
    assert resolved is not None
    return {
        "IncidentDetail": dumped(incident_detail(resolved[0], [first, resolved[1]])),
        "IncidentPage": {"incidents": [dumped(incident(opened))], "next": None, "partial": False},
    }


def _overview() -> JsonObject:
    """Returns examples of the overview and of a document's lane, by the names of their models."""
    overview = Overview(
        at=_OVERVIEW_AT,
        tenant="tenant_a",
        swept_at=_OVERVIEW_AT - timedelta(seconds=20),
        active=Counter({"IN_PROGRESS": 2}),
        services=[Service(name="ocr")],
        minutes={_OVERVIEW_AT - timedelta(minutes=1): MinuteCounts(ends=Counter({("tenant_a", "SUCCEEDED", ""): 3}))},
    )
    tables = DependencyState(status="ok", since=_OVERVIEW_AT - timedelta(hours=1))
    decision = decide_lane_of("tenant_a", "doc_8", None, default_mode="DEFAULT", lanes=16, modes=None)
    return {
        "DashboardMetrics": dumped(dashboard_metrics(overview, None, {"tables": tables}, lanes=16)),
        "Routing": dumped(routing("tenant_a", "doc_8", decision, "global-bus-replies-p")),
    }
