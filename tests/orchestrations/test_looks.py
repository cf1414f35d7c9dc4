"""The sweeper's wake-up is received in every wait, and the RESULT after it, with any earlier event."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from orchestrations.job import job, step
from shared.core.jobs import durable_names
from shared.core.jobs.verdict import Shown, Verdict, VerdictKind
from tests.functions_emulator.durable.hub import START, Hub

JOB = "job_1"
LATER = START + timedelta(minutes=5)


class Activities:
    """`dispatch` and `settle` answer one verdict after the other."""

    def __init__(self, *verdicts: Verdict) -> None:
        self._verdicts = list(verdicts)
        self.asked: list[str] = []

    def dispatch(self, request: Any) -> dict[str, Any]:
        self.asked.append("dispatch")
        return self._verdicts.pop(0).to_json()

    def settle(self, request: Any) -> dict[str, Any]:
        self.asked.append(f"settle {request['attempt_no']}")
        return self._verdicts.pop(0).to_json()


def started(*verdicts: Verdict, steps: tuple[str, ...] = ("ocr",)) -> tuple[Hub, Activities]:
    activities = Activities(*verdicts)
    hub = Hub(
        {
            each: code._function.get_user_function().orchestrator_function
            for each, code in (("job", job), ("step", step))
        },
        {durable_names.DISPATCH: activities.dispatch, durable_names.SETTLE: activities.settle},
    )
    hub.start(durable_names.JOB, {"job_id": JOB, "steps": list(steps)}, JOB)
    hub.run()
    return hub, activities


def verdict(kind: VerdictKind, attempt_no: int = 1) -> Verdict:
    return Verdict(kind, attempt_no, LATER, park_no=1)


WAITS = [
    VerdictKind.SENT,
    VerdictKind.AWAIT_ACK,
    VerdictKind.AWAIT_RESULT,
    VerdictKind.BACKOFF,
    VerdictKind.PUBLISH_FAILED,
    VerdictKind.PARK,
]


def hears(hub: Hub, name: str, payload: dict[str, Any] | None = None) -> None:
    hub.raise_event(JOB, name, payload or {})
    hub.run()


def shown(hub: Hub) -> Shown:
    return Shown.of(json.loads(hub.status(JOB).custom_status or "null"))


@pytest.mark.parametrize("kind", WAITS)
def test_every_wait_hears_three_looks_and_then_its_event(kind: VerdictKind) -> None:
    """Each look reads the ledger and sends nothing; the RESULT after them is received at once."""
    waiting = verdict(kind)
    hub, activities = started(waiting, waiting, waiting, waiting, Verdict(VerdictKind.END))
    for look_no in (1, 2, 3):
        assert shown(hub).look_no == look_no
        hears(hub, durable_names.look_event(look_no))
    assert activities.asked == ["dispatch", *["settle 1"] * 3]
    event = durable_names.resume_event(1) if kind is VerdictKind.PARK else durable_names.result_event("ocr", 1)
    hears(hub, event, {"next": "NEXT"})
    assert hub.outcome(JOB) == ("Completed", {"job_id": JOB})


def test_a_result_that_was_heard_leaves_nobody_deaf() -> None:
    """After a retryable RESULT its name is used: a look replaces a lost timer."""
    backoff = verdict(VerdictKind.BACKOFF)
    hub, activities = started(verdict(VerdictKind.SENT), backoff, Verdict(VerdictKind.BACKOFF, 1, START), backoff)
    hears(hub, durable_names.result_event("ocr", 1), {"next": "DISPATCH"})
    hears(hub, durable_names.look_event(1))
    hub.advance(seconds=5)
    assert activities.asked == ["dispatch", "dispatch", "settle 1", "dispatch"]


@pytest.mark.parametrize("repeated", ["look:1", "look:7", "resume:9"])
def test_early_and_repeated_events_are_harmless(repeated: str) -> None:
    """A look that two sweeps raise, or that arrives before its number, wakes no wait twice."""
    hub, activities = started(*[verdict(VerdictKind.SENT)] * 3)
    hears(hub, durable_names.look_event(1))
    for _ in range(3):
        hears(hub, repeated)
    assert activities.asked == ["dispatch", "settle 1"]
    hears(hub, durable_names.result_event("ocr", 1), {"next": "NEXT"})
    assert hub.outcome(JOB) == ("Completed", {"job_id": JOB})


def test_looks_are_counted_over_all_steps() -> None:
    """A second waiter for a name would lose its event: the next step waits for the next number."""
    sent = verdict(VerdictKind.SENT)
    hub, _ = started(sent, sent, sent, sent, steps=("ocr", "embedding"))
    hears(hub, durable_names.look_event(1))
    hears(hub, durable_names.result_event("ocr", 1), {"next": "NEXT"})
    assert shown(hub) == Shown("embedding", 1, "SENT", 2)
    hears(hub, durable_names.look_event(2))
    hears(hub, durable_names.result_event("embedding", 1), {"next": "NEXT"})
    assert hub.outcome(JOB) == ("Completed", {"job_id": JOB})


@pytest.mark.parametrize("status", [None, "text", 3, [], {}, {"look": "1"}, {"step": 4, "attempt": "x", "look": None}])
def test_a_custom_status_that_is_none_of_ours_counts_as_nothing(status: Any) -> None:
    """An orchestration that never ran has none; it waits for the first look."""
    assert Shown.of(status) == Shown(None, 0, None, 1)
