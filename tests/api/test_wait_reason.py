"""The reason that a job waiting for a quota shows: the quota, the cause, and the condition that starts the job."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from shared.api.wait_reason import quota_wait, wait_reason
from shared.core.gates.admission_state import BlockReason, GateVerdict
from shared.core.gates.rules import Gate, GateKind, Hold, Rule
from tests.jobs import START

TENANT = Gate(GateKind.TENANT, "acme")
OCR = Gate(GateKind.TYPE, "acme", "OCR")
PLATFORM = Gate.over_all(GateKind.PLATFORM)
LATER = START + timedelta(minutes=5)
HOLD = Hold(reason="repair; until noon", actor="user:1", at=START)
HOLD_FOR_A_TIME = Hold(reason="repair", actor="user:1", at=START, until=LATER)
SLOT = "after a job of its tenant ends, or after the next allocation among tenants grants its tenant a slot"


@pytest.mark.parametrize(
    ("verdict", "expected_at", "cause", "starts"),
    [
        (
            GateVerdict(TENANT, BlockReason.HELD, hold=HOLD),
            None,
            "the quota of tenant acme, which is held by user:1 since 2026-01-27T10:00:00Z (repair; until noon)",
            "after the quota is resumed",
        ),
        (
            GateVerdict(OCR, BlockReason.HELD, LATER, hold=HOLD_FOR_A_TIME),
            LATER,
            "the quota of tenant acme, type OCR, which is held by user:1 since 2026-01-27T10:00:00Z"
            " until 2026-01-27T10:05:00Z (repair)",
            "after 2026-01-27T10:05:00Z, or after the quota is resumed",
        ),
        (
            # the reason may name another tenant
            GateVerdict(PLATFORM, BlockReason.HELD, hold=HOLD),
            None,
            "the quota of platform, which is held since 2026-01-27T10:00:00Z",
            "after the quota is resumed",
        ),
        (
            GateVerdict(TENANT, BlockReason.FULL, rule=Rule(max_active=2)),
            None,
            "the quota of tenant acme, which has its maximum of active jobs (2)",
            "after a job of this quota ends",
        ),
        (
            GateVerdict(TENANT, BlockReason.FULL, rule=Rule(max_active=2, emergency_max_active=1), allowed=1),
            None,
            "the quota of tenant acme, which has its maximum of active emergencies (1)",
            "after an emergency of this quota ends",
        ),
        (
            GateVerdict(PLATFORM, BlockReason.FULL, rule=Rule(max_active=2)),
            None,
            "the quota of platform, which has its maximum of active jobs (2)",
            SLOT,
        ),
        (
            GateVerdict(TENANT, BlockReason.RATE, LATER),
            LATER,
            "the quota of tenant acme, which has reached its rate",
            "after the rate allows its start, estimated at 2026-01-27T10:05:00Z",
        ),
        (
            GateVerdict(PLATFORM, BlockReason.RATE),
            None,
            "the quota of platform, which has reached its rate",
            "after the next allocation among tenants grants its tenant a start",
        ),
        (
            GateVerdict(OCR, BlockReason.BREAKER, LATER, allowed=0),
            None,
            "the breaker of type OCR of tenant acme, which is open until 2026-01-27T10:05:00Z",
            "after the breaker allows its start",
        ),
        (
            GateVerdict(TENANT, BlockReason.LINE),
            None,
            "the quota of tenant acme, which has other jobs ahead",
            "after the jobs ahead have started",
        ),
    ],
)
def test_a_waiting_job_names_the_cause_and_what_starts_it(
    verdict: GateVerdict, expected_at: datetime | None, cause: str, starts: str
) -> None:
    """A job's end starts no job behind a hold."""
    wait = quota_wait(verdict, expected_at)
    assert (wait.cause, wait.starts) == (cause, starts)
    assert wait_reason(wait, 2) == f"{cause}; position 2; starts {starts}"
