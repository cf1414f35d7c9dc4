"""Examples of gates, made by the code that makes the answers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from shared.apidocs.json_schema import JsonObject
from shared.core.gates.changes import ChangeType, changed
from shared.core.gates.desk import Candidate, Desk, Line
from shared.core.gates.letting import Waiting
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, Rule
from shared.core.gates.standing import standing
from shared.views.quota import log_entry, quota, quota_change, waiting_job

_AT = datetime(2026, 1, 27, 10, 0, tzinfo=UTC)
_GATE = Gate(GateKind.TENANT, "tenant_a")


def by_model(job_id: str) -> JsonObject:
    """An example for each answer about a gate, by the name of its model: two jobs run, and `job_id` waits."""
    before = GateState(gate=_GATE)
    after, entry = changed(
        before,
        replace(before, rule=Rule(max_active=2)),
        Directory(),
        ChangeType.RULE_SET,
        actor="app:6f1c0d3a",
        reason="a small contract",
        at=_AT,
    )
    line = Line(job_type="OCR", mode="DEFAULT", source=None, emergency=False, count=1)
    desk = Desk(
        tenant="tenant_a",
        gates={_GATE.id: after},
        inside={("OCR", "DEFAULT"): 2},
        staged=1,
        lines={0: line},
        counted_at=_AT,
    )
    candidate = Candidate(
        job_id=job_id, job_type="OCR", mode="DEFAULT", source=None, priority="normal", rank=1_769_508_030_000
    )
    waiting = Waiting(candidate, 0, "", _AT + timedelta(seconds=30))
    now = _AT + timedelta(minutes=1)
    gate = quota(desk, Directory(), after, now, waiting)
    stands = waiting_job(standing(desk, Directory(), waiting, 1, now), 1)
    return {
        "Quota": _body(gate),
        "QuotaPage": {"quotas": [_body(gate)], "next": None},
        "QuotaChange": _body(quota_change(before, after, gate)),
        "WaitingPage": {"waiting": [_body(stands)], "total": 1, "next": None},
        "QuotaLogPage": {"entries": [_body(log_entry(entry))], "next": None},
    }


def _body(model: BaseModel) -> JsonObject:
    body: JsonObject = model.model_dump(mode="json", exclude_unset=True)
    return body
