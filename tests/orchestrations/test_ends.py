"""A job that ends without an end of its step: the orchestration of that step ends at once, in any wait."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from orchestrations.job import job, step
from shared.core.jobs import durable_names
from shared.core.jobs.verdict import Verdict, VerdictKind
from tests.functions_emulator.durable.hub import START, Hub

LATER = START + timedelta(minutes=5)
JOB = "job_1"
SIBLING = durable_names.group_instance_id(JOB, 1)


def verdict(kind: VerdictKind, attempt_no: int = 1) -> Verdict:
    return Verdict(kind, attempt_no, LATER, park_no=1)


class Activities:
    """`ocr` is over; `embedding` gets one verdict after the other."""

    def __init__(self, *verdicts: Verdict) -> None:
        self._verdicts = list(verdicts)

    def dispatch(self, request: Any) -> dict[str, Any]:
        return (Verdict(VerdictKind.END) if request["step_id"] == "ocr" else self._verdicts.pop(0)).to_json()


def started(*verdicts: Verdict, steps: list[Any] | None = None) -> Hub:
    hub = Hub(
        {
            each: code._function.get_user_function().orchestrator_function
            for each, code in (("job", job), ("step", step))
        },
        {durable_names.DISPATCH: Activities(*verdicts).dispatch},
    )
    hub.start(durable_names.JOB, {"job_id": JOB, "steps": steps or [["ocr", "embedding"]]}, JOB)
    hub.run()
    return hub


@pytest.mark.parametrize(
    ("kind", "attempt_no", "name"),
    [
        (VerdictKind.SENT, 1, "result:embedding:1"),
        (VerdictKind.AWAIT_RESULT, 2, "result:embedding:2"),
        (VerdictKind.PUBLISH_FAILED, 1, "result:embedding:1"),
        (VerdictKind.BACKOFF, 1, "result:embedding:2"),
        # a guard keeps the next attempt back
        (VerdictKind.GATED, 0, "result:embedding:1"),
        (VerdictKind.GATED, 1, "result:embedding:2"),
        # before its first attempt, while the job waits for a sibling to end
        (VerdictKind.BACKOFF, 0, "result:embedding:1"),
    ],
)
def test_a_sibling_ends_at_once_and_the_job_with_it(kind: VerdictKind, attempt_no: int, name: str) -> None:
    """The lease is five minutes, and no time passes: one event, and no activity after it."""
    hub = started(verdict(kind, attempt_no))
    assert [hub.status(each).status.value for each in (JOB, SIBLING)] == ["Running", "Running"]
    asked = len(hub.calls)
    hub.raise_event(SIBLING, name, {"next": "END"})
    hub.run()
    assert [hub.outcome(each) for each in (JOB, SIBLING)] == [
        ("Completed", {"job_id": JOB}),
        ("Completed", "JOB_ENDED"),
    ]
    assert len(hub.calls) == asked


def test_a_sibling_whose_result_was_heard_ends_at_once() -> None:
    """Between attempts after a RESULT, which no wait can receive again."""
    hub = started(verdict(VerdictKind.SENT), verdict(VerdictKind.BACKOFF))
    hub.raise_event(SIBLING, "result:embedding:1", {"next": "DISPATCH"})
    hub.run()
    assert hub.status(SIBLING).status.value == "Running"
    hub.raise_event(SIBLING, "result:embedding:2", {"next": "END"})
    hub.run()
    assert hub.outcome(SIBLING) == ("Completed", "JOB_ENDED")


def test_the_next_attempt_hears_its_own_result() -> None:
    """The wait of a backoff is the wait of the attempt after it: one waiter a name."""
    sent = Verdict(VerdictKind.SENT, 2, LATER + timedelta(minutes=5))
    hub = started(verdict(VerdictKind.BACKOFF), sent, steps=["embedding"])
    hub.advance(minutes=6)
    assert hub.status(JOB).status.value == "Running"
    hub.raise_event(JOB, "result:embedding:2", {"next": "NEXT"})
    hub.run()
    assert hub.outcome(JOB) == ("Completed", {"job_id": JOB})


def test_a_guard_is_asked_again_when_its_wait_is_over() -> None:
    """GATED is waited for like a backoff, as by older versions, and the sweeper's look is received meanwhile."""
    gated, sent = verdict(VerdictKind.GATED, 0), Verdict(VerdictKind.SENT, 1, LATER + timedelta(minutes=30))
    hub = started(gated, Verdict(VerdictKind.GATED, 0, LATER + timedelta(minutes=5)), sent, steps=["embedding"])
    hub.advance(minutes=4)
    assert len(hub.calls) == 1
    hub.advance(minutes=2)
    assert len(hub.calls) == 2
    hub.advance(minutes=5)
    assert len(hub.calls) == 3
    hub.raise_event(JOB, "result:embedding:1", {"next": "NEXT"})
    hub.run()
    assert hub.outcome(JOB) == ("Completed", {"job_id": JOB})
