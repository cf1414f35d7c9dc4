"""The cost of a job on the durable engine: episodes, activities, and the bytes of its history."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from orchestrations.job import job, step
from shared.core.jobs import durable_names
from shared.core.jobs.verdict import Verdict, VerdictKind
from tests.functions_emulator.durable.hub import START, Hub

JOB = "job_1"
STEPS = ("ocr", "embedding", "sis")
#: of one step's events and of the start, as the engine stores them; more is a heavier history for every replay
START_BYTES, STEP_BYTES = 600, 1_700


@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("together", [False, True], ids=["an ACK, then a RESULT", "both at once"])
def test_a_job_without_faults(steps: int, together: bool) -> None:
    """1 + 3N episodes and N activities at most; one episode less a step where ACK and RESULT come together."""
    names = STEPS[:steps]

    def dispatch(request: Any) -> dict[str, Any]:
        return Verdict(VerdictKind.SENT, 1, START + timedelta(minutes=5)).to_json()

    hub = Hub(
        {
            each: code._function.get_user_function().orchestrator_function
            for each, code in (("job", job), ("step", step))
        },
        {durable_names.DISPATCH: dispatch},
    )
    hub.start(durable_names.JOB, {"job_id": JOB, "steps": list(names)}, JOB)
    hub.run()
    for number, name in enumerate(names, 1):
        following = {"next": "END" if number == steps else "NEXT"}
        hub.raise_event(JOB, durable_names.ack_event(name, 1), {"until": (START + timedelta(minutes=15)).isoformat()})
        if not together:
            hub.run()
        hub.raise_event(JOB, durable_names.result_event(name, 1), following)
        hub.run()
    assert hub.outcome(JOB)[0] == "Completed"
    assert [name for name, _ in hub.calls] == [durable_names.DISPATCH] * steps
    assert hub.episodes == 1 + (2 if together else 3) * steps
    stored = sum(len(str(event)) for event in hub.client.history(hub.status(JOB)))
    assert stored <= START_BYTES + STEP_BYTES * steps
