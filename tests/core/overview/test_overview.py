"""Problems in one sentence each, worst first, each with its consequence and the next command."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.gates.breaker import BreakerState
from shared.core.gates.rules import Gate, GateKind
from shared.core.gates.tight_quotas import MAX_TIGHT, TightQuota, tightest
from shared.core.incidents import Incident, IncidentKind
from shared.core.overview.minutes import MinuteCounts
from shared.core.overview.overview import MAX_PROBLEMS, Down, Level, Overview, Service, health_of, problems_of
from tests.jobs import START

NOW = START + timedelta(hours=1)
FINE = Overview(at=NOW, tenant=None, swept_at=NOW, active=Counter({"QUEUED": 1_200}))
OCR = Gate(GateKind.TYPE, "acme", "OCR")


def quota(**values: Any) -> TightQuota:
    return TightQuota(**{"gate": OCR, "active": 5, "max_active": 5, "waiting": 3, **values})


def incident(number: int = 0, kind: IncidentKind = IncidentKind.JOB, **values: Any) -> Incident:
    row = {"id": f"inc_{number}", "kind": kind, "subject": f"job_{number}", "tenant": "acme", "request_type": None}
    return Incident(**{**row, "code": "ATTEMPTS_EXHAUSTED", "detail": None, "opened_at": START, **values})


def ended(**statuses: int) -> MinuteCounts:
    return MinuteCounts(
        ends=Counter({("acme", name, "" if name == "SUCCEEDED" else "BAD"): n for name, n in statuses.items()})
    )


@pytest.mark.parametrize(
    ("change", "level", "sentence", "command"),
    [
        (
            {"down": [Down(name="servicebus", reason="no response", since=NOW - timedelta(seconds=61))]},
            Level.CRITICAL,
            "servicebus: down for 1 minute (no response).",
            "lucius health",
        ),
        (
            {"services": [Service(name="ocr", silent_since=START, answered_at=START - timedelta(days=1), waiting=1)]},
            Level.CRITICAL,
            "ocr: no reply for 1 day, 1 directive waits.",
            "lucius job list --status QUEUED,IN_PROGRESS",
        ),
        (
            # a caller of one tenant
            {"tenant": "a b", "services": [Service(name="ocr", silent_since=START)]},
            Level.CRITICAL,
            "ocr: no reply for 1 hour.",
            "lucius job list --status QUEUED,IN_PROGRESS --tenant 'a b'",
        ),
        (
            {"quotas": [quota(breaker=BreakerState.OPEN)]},
            Level.CRITICAL,
            "Quota tenant acme, type OCR: the circuit breaker is open, 3 jobs wait.",
            "lucius quota show --tenant acme --type OCR",
        ),
        (
            {"quotas": [quota(gate=Gate.over_all(GateKind.MODE, "BURST"), held=True)]},
            Level.WARNING,
            "Quota mode:BURST: held, 3 jobs wait.",
            "lucius quota show --gate mode:BURST",
        ),
        (
            # the steps that wait for it are not counted
            {"quotas": [quota(gate=Gate.over_all(GateKind.SERVICE, "ocr"), held=True, waiting=0)]},
            Level.WARNING,
            "Quota service:ocr: held.",
            "lucius quota show --gate service:ocr",
        ),
        (
            {"minutes": {NOW - timedelta(minutes=9): ended(SUCCEEDED=1_000, FAILED_FINAL=1_000)}},
            Level.WARNING,
            "Failures: 1,000 of 2,000 jobs failed in the last 10 minutes, most often with BAD.",
            "lucius deadletter list",
        ),
        (
            {"incidents": [incident()]},
            Level.WARNING,
            "Incident: job job_0 of tenant acme, ATTEMPTS_EXHAUSTED, open for 1 hour.",
            "lucius incident show inc_0",
        ),
        (
            {"incidents": [incident(number) for number in range(3)], "incidents_at_least": True},
            Level.WARNING,
            "Incidents: at least 3 failed jobs wait for an operator, most often with ATTEMPTS_EXHAUSTED.",
            "lucius incident list --kind JOB",
        ),
        (
            {"tenant": "acme", "rejected": Counter(NOT_JSON=1), "rejected_since": NOW},
            Level.WARNING,
            "Rejected messages: no job accepted 1 message in the last hour, most with reason NOT_JSON.",
            "lucius rejected list --tenant acme",
        ),
        (
            {"suspended_hooks": Counter({"acme": 1})},
            Level.WARNING,
            "Webhooks: 1 webhook of tenant acme is suspended.",
            "lucius webhook list --tenant acme",
        ),
        (
            {"suspended_hooks": Counter({"acme": 1, "b c": 2})},
            Level.WARNING,
            "Webhooks: 3 webhooks of 2 tenants are suspended.",
            "lucius webhook list --tenant 'b c'",
        ),
        (
            {"tenant": "acme", "suspended_hooks": Counter({"acme": 2})},
            Level.WARNING,
            "Webhooks: 2 webhooks are suspended.",
            "lucius webhook list --tenant acme",
        ),
    ],
)
def test_a_problem(change: dict[str, Any], level: Level, sentence: str, command: str) -> None:
    [problem] = problems_of(replace(FINE, **change))
    assert (problem.level, problem.sentence, problem.command) == (level, sentence, command)
    assert problem.kind is not None
    assert problem.subject
    assert problem.consequence


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"quotas": [quota()]},
        {"services": [Service(name="ocr", waiting=9, waiting_since=NOW - timedelta(seconds=119))]},
        # few, a small share, or long ago
        {"minutes": {NOW: ended(FAILED_FINAL=4)}},
        {"minutes": {NOW: ended(SUCCEEDED=96, FAILED_FINAL=19)}},
        {"minutes": {NOW - timedelta(minutes=11): ended(FAILED_FINAL=50)}},
    ],
)
def test_no_problem(change: dict[str, Any]) -> None:
    overview = replace(FINE, **change)
    assert problems_of(overview) == []
    assert health_of(overview, []).sentence == "All good. 1,200 jobs in progress, waiting or paused."


def test_a_held_service_concerns_a_tenant_with_active_jobs() -> None:
    """Its steps may wait; a tenant without jobs cannot act on the hold of an operator."""
    held = [quota(gate=Gate.over_all(GateKind.SERVICE, "ocr"), held=True, waiting=0)]
    own = replace(FINE, tenant="acme", quotas=held)
    assert len(problems_of(own)) == 1
    assert problems_of(replace(own, active=Counter())) == []


@pytest.mark.parametrize(
    ("number", "sentence"),
    [(1, "1 quota is held."), (2, "2 quotas are held."), (MAX_TIGHT, f"At least {MAX_TIGHT} quotas are held.")],
)
def test_holds_without_waiting_jobs_are_named(number: int, sentence: str) -> None:
    overview = replace(FINE, quotas=[quota(held=True, waiting=0)] * number)
    assert problems_of(overview) == []
    assert health_of(overview, []).sentence == f"All good. 1,200 jobs in progress, waiting or paused. {sentence}"


def test_the_worst_comes_first_and_the_number_is_bounded() -> None:
    held = [quota(gate=replace(OCR, name=f"T{number}"), held=True) for number in range(MAX_PROBLEMS + 1)]
    problems = problems_of(replace(FINE, quotas=held, services=[Service(name="ocr", silent_since=START)]))
    assert len(problems) == MAX_PROBLEMS
    assert [each.level for each in problems[:2]] == [Level.CRITICAL, Level.WARNING]
    assert health_of(FINE, problems) is problems[0]


def test_a_cause_is_named_once() -> None:
    """The incident of a silent service or of an open breaker is not a second problem."""
    silent = [Service(name="ocr", silent_since=START)]
    about = [incident(1, IncidentKind.SERVICE, subject="ocr"), incident(2, IncidentKind.BREAKER, subject=OCR.id)]
    quotas = [quota(breaker=BreakerState.OPEN)]
    assert len(problems_of(replace(FINE, services=silent, quotas=quotas, incidents=about))) == 2
    assert len(problems_of(replace(FINE, incidents=about))) == 2


def test_a_name_stays_one_word_of_the_command() -> None:
    """A caller names job types and sources."""
    gate = Gate(GateKind.SOURCE, "acme", "a'; rm -r\n\x1b[31m")
    [problem] = problems_of(replace(FINE, quotas=[quota(gate=gate, held=True)]))
    assert problem.command == """lucius quota show --tenant acme --source 'a'"'"'; rm -r??[31m'"""


def test_the_tightest_quotas() -> None:
    """Held ones, open breakers, then those at which most jobs wait."""
    many = [quota(gate=replace(OCR, name=f"T{number}"), waiting=number) for number in range(MAX_TIGHT + 5)]
    held, open_ = quota(held=True, waiting=0), quota(breaker=BreakerState.OPEN, waiting=0)
    found = tightest([*many, open_, held])
    assert found[:2] == [held, open_]
    assert [each.waiting for each in found[2:]] == list(range(MAX_TIGHT + 4, 6, -1))
