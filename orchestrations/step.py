"""The orchestration of one step, from its first dispatch until the step has ended in the ledger (R30)."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime
from enum import Enum
from typing import Any

import azure.durable_functions as df

from orchestrations.waiting import MAX_TIMER, ask, decoded, wait_until
from shared.core.jobs import durable_names
from shared.core.jobs.verdict import VerdictKind, custom_status

Yields = Generator[Any, Any, Any]

#: verdicts whose time ends an attempt's lease, or has no effect; after the time of any other verdict, the step is
#: dispatched
_SETTLED_BY_TIME = (VerdictKind.SENT, VerdictKind.AWAIT_ACK, VerdictKind.AWAIT_RESULT, VerdictKind.PARK)


class StepEnd(Enum):
    """The result of the part of an orchestration that runs one step."""

    SETTLED = "SETTLED"
    JOB_ENDED = "JOB_ENDED"


class Waits:
    """The external events of one orchestration, with one waiter per name.

    A second waiter for a name loses or repeats its event in durable-python 1.7, so a received name is not awaited
    again. Every wait also waits for the sweeper's next wake-up, so that a lost event only delays the orchestration.
    """

    def __init__(self, context: df.DurableOrchestrationContext) -> None:
        self._context = context
        self._tasks: dict[str, Any] = {}
        self._heard: set[str] = set()
        #: number of the awaited wake-up
        self.look_no = 1

    def open(self, *names_: str) -> list[Any]:
        """Returns the tasks for the next wake-up, and for the names whose events have not been received."""
        names = (*names_, durable_names.look_event(self.look_no))
        for name in names:
            if name not in self._tasks:
                self._tasks[name] = self._context.wait_for_external_event(name)
        return [self._tasks[name] for name in names if name not in self._heard]

    def hear(self, task: Any) -> str | None:
        """Returns the name of the event of a completed task, or None if the task was a wake-up."""
        name = next(name for name, known in self._tasks.items() if known is task)
        self._heard.add(name)
        if name == durable_names.look_event(self.look_no):
            self.look_no += 1
            return None
        return name


def run_step(
    context: df.DurableOrchestrationContext, waits: Waits, job_id: str, instance_id: str, step_id: str
) -> Yields:
    """Dispatches `step_id` and follows the verdicts until the step or the job has ended.

    `waits` has the waits of this orchestration. `instance_id` is the job's instance id, which distinguishes this run
    from a replaced run.
    """
    request = {"job_id": job_id, "instance_id": instance_id, "step_id": step_id}
    verdict = yield from ask(context, durable_names.DISPATCH, request)
    while True:
        kind, attempt_no = verdict["verdict"], verdict.get("attempt_no", 0)
        context.set_custom_status(custom_status(step_id, attempt_no, kind, waits.look_no))
        if kind == VerdictKind.END:
            return StepEnd.JOB_ENDED
        if kind == VerdictKind.SKIP:
            return StepEnd.SETTLED
        winner = yield from _wait(context, waits, step_id, verdict)
        heard = waits.hear(winner) if winner is not None else None
        payload = decoded(winner.result) if winner is not None else {}
        if heard == durable_names.ack_event(step_id, attempt_no) and payload.get("until"):
            verdict = {"verdict": VerdictKind.AWAIT_RESULT.value, "attempt_no": attempt_no, "until": payload["until"]}
        elif payload.get("next") == "END":
            return StepEnd.JOB_ENDED
        elif heard == durable_names.result_event(step_id, attempt_no) and payload.get("next") == "NEXT":
            return StepEnd.SETTLED
        elif heard is None and (winner is not None or kind in _SETTLED_BY_TIME):
            verdict = yield from ask(context, durable_names.SETTLE, {**request, "attempt_no": attempt_no})
        else:
            verdict = yield from ask(context, durable_names.DISPATCH, request)


def _wait(context: df.DurableOrchestrationContext, waits: Waits, step_id: str, verdict: dict[str, Any]) -> Yields:
    """Returns the first completed task. Returns None if the verdict's time came first, or three days passed first."""
    kind, attempt_no = verdict["verdict"], verdict.get("attempt_no", 0)
    if kind == VerdictKind.PARK:
        # a paused job has no time to wait for, but its wait has a timer. The extension skips a wait whose event was
        # requested in an earlier one only if that timer is cancelled (R31)
        tasks = waits.open(durable_names.resume_event(verdict["park_no"]))
        return (yield from wait_until(context, tasks, context.current_utc_datetime + MAX_TIMER))
    result = durable_names.result_event(step_id, attempt_no)
    if kind in (VerdictKind.SENT, VerdictKind.AWAIT_ACK):
        tasks = waits.open(durable_names.ack_event(step_id, attempt_no), result)
    elif kind in (VerdictKind.AWAIT_RESULT, VerdictKind.PUBLISH_FAILED):
        tasks = waits.open(result)
    else:
        # BACKOFF: an attempt that only timed out may still deliver its RESULT. The RESULT event of the next one can
        # only mean that the job has ended (`shared.core.jobs.verdict.end_event`)
        tasks = waits.open(result, durable_names.result_event(step_id, attempt_no + 1))
    return (yield from wait_until(context, tasks, datetime.fromisoformat(verdict["until"])))
