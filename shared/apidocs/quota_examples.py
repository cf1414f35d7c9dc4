"""Examples of quotas, built by the code of the API's responses."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from shared.api.quota import QuotaLogEntry, quota, quota_change, waiting_job
from shared.api.usage import UsageReport, seen_source, usage_sum
from shared.apidocs.json_schema import JsonObject, dumped
from shared.core.gates.admission import QueuedJob
from shared.core.gates.admission_state import AdmissionState, Candidate, WaitingQueue
from shared.core.gates.changes import ChangeType, record_change
from shared.core.gates.queue_position import find_position
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, Rule
from shared.core.usage import Axis, Counted, HourUsage, hour_of, sum_hours
from shared.ports.usage import SeenSource

_AT = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)
_GATE = Gate(GateKind.TENANT, "tenant_a")


def by_model(job_id: str) -> JsonObject:
    """Returns an example for each response about a quota, by the name of its model. Two jobs run, and `job_id`
    waits.
    """
    before = GateState(gate=_GATE)
    after, entry = record_change(
        before,
        replace(before, rule=Rule(max_active=2)),
        Directory(),
        ChangeType.RULE_SET,
        actor="app:6f1c0d3a",
        reason="a small contract",
        at=_AT,
    )
    line = WaitingQueue(job_type="OCR", mode="DEFAULT", source=None, emergency=False, count=1)
    admission = AdmissionState(
        tenant="tenant_a",
        gates={_GATE.id: after},
        active_by_kind={("OCR", "DEFAULT"): 2},
        staged=1,
        queues={0: line},
        counted_at=_AT,
    )
    candidate = Candidate(
        job_id=job_id, job_type="OCR", mode="DEFAULT", source=None, priority="normal", rank=1_769_508_030_000
    )
    waiting = QueuedJob(candidate, 0, "", _AT + timedelta(seconds=30))
    now = _AT + timedelta(minutes=1)
    gate = quota(admission, Directory(), after, now, waiting)
    stands = waiting_job(find_position(admission, Directory(), waiting, 1, now), 1)
    return {
        "Quota": dumped(gate),
        "QuotaPage": {"quotas": [dumped(gate)], "next": None},
        "QuotaChange": dumped(quota_change(before, after, gate)),
        "WaitingPage": {"waiting": [dumped(stands)], "total": 1, "next": None},
        "UsageReport": _usage(now),
        "SourcePage": {"sources": [_source(job_id, gate.tenant, now)], "next": None},
        "QuotaLogPage": {"entries": [dumped(QuotaLogEntry.of(entry))], "next": None},
    }


def _usage(now: datetime) -> JsonObject:
    hour = HourUsage(hour_of(now), peaks={("", ""): 2}, refused={("OCR", "scanner-7"): 3})
    counted = Counted()
    for staged_at, admitted_at in ((None, None), (None, None), (now, now + timedelta(seconds=40))):
        counted.add(staged_at, admitted_at, now)
    total, groups = sum_hours([replace(hour, jobs={("OCR", "scanner-7"): counted})], Axis.SOURCE)
    return dumped(
        UsageReport(
            tenant="tenant_a",
            since=hour.hour,
            until=now,
            total=usage_sum(total),
            groups={key: usage_sum(each) for key, each in groups.items()},
            partial=False,
        )
    )


def _source(job_id: str, tenant: str, now: datetime) -> JsonObject:
    row = SeenSource(name="scanner-7", first_job=job_id, first_at=now, last_job=job_id, last_at=hour_of(now))
    return dumped(seen_source(row, tenant, None, now))
