"""One step of a job: from its first dispatch until it has ended by the ledger (R30)."""

from __future__ import annotations

from collections.abc import Generator
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

import azure.durable_functions as df

from orchestrations.waiting import ask, decoded, timer_at, wait_until
from shared.core import durable_names
from shared.core.verdict import VerdictKind

Yields = Generator[Any, Any, Any]

#: a resume that was raised too early leaves the job parked; then it is asked about at this pace
_PARKED_AGAIN_WAIT = timedelta(minutes=1)


class StepEnd(Enum):
    """How a step's part of the orchestration ends."""

    SETTLED = "SETTLED"
    JOB_ENDED = "JOB_ENDED"


class _Waits:
    """The external events of one step: one waiter a name, ever.

    A second waiter for a name loses or repeats its event in durable-python 1.7; a name that was heard is not
    waited for again.
    """

    def __init__(self, context: df.DurableOrchestrationContext) -> None:
        self._context = context
        self._tasks: dict[str, Any] = {}
        self._heard: set[str] = set()

    def open(self, *names_: str) -> list[Any]:
        """The tasks for those of the names that are still to be heard."""
        for name in names_:
            if name not in self._tasks:
                self._tasks[name] = self._context.wait_for_external_event(name)
        return [self._tasks[name] for name in names_ if name not in self._heard]

    def hear(self, task: Any) -> str:
        """Which name a winning task was for."""
        name = next(name for name, known in self._tasks.items() if known is task)
        self._heard.add(name)
        return name


def run_step(context: df.DurableOrchestrationContext, job_id: str, instance_id: str, step_id: str) -> Yields:
    """Dispatches `step_id` and obeys the verdicts until the step or the job is over.

    `instance_id` is the job's orchestration, which tells this run from one that was replaced.
    """
    waits = _Waits(context)
    request = {"job_id": job_id, "instance_id": instance_id, "step_id": step_id}
    verdict = yield from ask(context, durable_names.DISPATCH, request)
    while True:
        kind, attempt_no = verdict["verdict"], verdict.get("attempt_no", 0)
        context.set_custom_status({"step": step_id, "attempt": attempt_no, "verdict": kind})
        if kind == VerdictKind.END:
            return StepEnd.JOB_ENDED
        if kind == VerdictKind.SKIP:
            return StepEnd.SETTLED
        if kind == VerdictKind.PARK:
            yield from _parked(context, waits, verdict["park_no"])
            verdict = yield from ask(context, durable_names.DISPATCH, request)
            continue
        ack, result = durable_names.ack(step_id, attempt_no), durable_names.result(step_id, attempt_no)
        if kind in (VerdictKind.SENT, VerdictKind.AWAIT_ACK):
            tasks = waits.open(ack, result)
        elif kind in (VerdictKind.AWAIT_RESULT, VerdictKind.PUBLISH_FAILED):
            tasks = waits.open(result)
        else:
            # BACKOFF: an attempt that only timed out may still deliver its RESULT; that of the next one can only be
            # the word that the job has ended (`shared.core.verdict.end_event`)
            tasks = waits.open(result, durable_names.result(step_id, attempt_no + 1))
        winner = yield from wait_until(context, tasks, datetime.fromisoformat(verdict["until"]))
        heard = waits.hear(winner) if winner is not None else None
        payload = decoded(winner.result) if winner is not None else {}
        if heard == ack and payload.get("until"):
            verdict = {"verdict": VerdictKind.AWAIT_RESULT.value, "attempt_no": attempt_no, "until": payload["until"]}
        elif payload.get("next") == "END":
            return StepEnd.JOB_ENDED
        elif heard == result and payload.get("next") == "NEXT":
            return StepEnd.SETTLED
        elif heard is None and kind in (VerdictKind.SENT, VerdictKind.AWAIT_ACK, VerdictKind.AWAIT_RESULT):
            verdict = yield from ask(context, durable_names.SETTLE, {**request, "attempt_no": attempt_no})
        else:
            verdict = yield from ask(context, durable_names.DISPATCH, request)


def _parked(context: df.DurableOrchestrationContext, waits: _Waits, park_no: int) -> Yields:
    tasks = waits.open(durable_names.resume(park_no))
    if tasks:
        yield tasks[0]
        waits.hear(tasks[0])
    else:
        yield timer_at(context, context.current_utc_datetime + _PARKED_AGAIN_WAIT)
