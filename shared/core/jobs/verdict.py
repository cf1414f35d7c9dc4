"""Verdicts: the next action of an orchestration, decided from the ledger alone (R30).

A verdict is a small JSON object, returned by the activities `dispatch` and `settle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from shared.core.jobs import durable_names
from shared.core.jobs.backlog import LONGEST_WAIT
from shared.core.jobs.job import Record, Step
from shared.core.jobs.states import JobStatus, StepStatus

#: first wait of a step that cannot start until another step of its group ends
SIBLING_WAIT = timedelta(seconds=30)


class VerdictKind(StrEnum):
    """The kind of a verdict: the next action of an orchestration or of an activity."""

    #: the bus has the directive of `attempt_no`; wait for its ACK until `until`
    SENT = "SENT"
    AWAIT_ACK = "AWAIT_ACK"
    AWAIT_RESULT = "AWAIT_RESULT"
    #: wait until `until`, then dispatch
    BACKOFF = "BACKOFF"
    #: a dispatch limit of the step's service or lane is reached; the orchestration treats it as BACKOFF
    GATED = "GATED"
    PUBLISH_FAILED = "PUBLISH_FAILED"
    #: the step SUCCEEDED: continue with the next one
    SKIP = "SKIP"
    #: wait for `resume:{park_no}`, then dispatch
    PARK = "PARK"
    #: the orchestration is finished
    END = "END"
    #: internal to the activity: record the next attempt, then publish it
    RECORD = "RECORD"


@dataclass(frozen=True)
class Verdict:
    """The next action of an orchestration, with the values that the action needs."""

    kind: VerdictKind
    attempt_no: int = 0
    until: datetime | None = None
    park_no: int = 0

    def to_json(self) -> dict[str, Any]:
        body: dict[str, Any] = {"verdict": self.kind.value}
        if self.attempt_no:
            body["attempt_no"] = self.attempt_no
        if self.until is not None:
            body["until"] = self.until.isoformat()
        if self.kind is VerdictKind.PARK:
            body["park_no"] = self.park_no
        return body


def custom_status(step_id: str, attempt_no: int, verdict: str, look_no: int) -> dict[str, Any]:
    """Makes an orchestration's custom status: its step and attempt, and the sweeper's wake-up that it waits for."""
    return {"step": step_id, "attempt": attempt_no, "verdict": verdict, "look": look_no}


@dataclass(frozen=True)
class Shown:
    """A custom status as the sweeper reads it. The status of an orchestration that never ran is empty."""

    step_id: str | None = None
    attempt_no: int = 0
    #: the last verdict that it followed
    verdict: str | None = None
    look_no: int = 1

    @classmethod
    def of(cls, status: Any) -> Shown:
        """Decodes any JSON value. Returns an empty status for a value that is not a custom status of the app."""
        if not isinstance(status, dict):
            return cls()
        step_id, attempt_no, verdict, look_no = (status.get(name) for name in ("step", "attempt", "verdict", "look"))
        return cls(
            step_id if isinstance(step_id, str) else None,
            attempt_no if isinstance(attempt_no, int) else 0,
            verdict if isinstance(verdict, str) else None,
            look_no if isinstance(look_no, int) else 1,
        )

    def awaits(self, step: Step) -> bool:
        """Returns `True` if the orchestration waits for the step's current attempt, and so knows that the directive was
        sent.
        """
        sent = self.verdict in (VerdictKind.SENT, VerdictKind.AWAIT_ACK, VerdictKind.AWAIT_RESULT)
        return sent and (self.step_id, self.attempt_no) == (step.step_id, step.attempt_no)


NOTHING_SHOWN = Shown()


def verdict_for(record: Record | None, step_id: str, instance_id: str, now: datetime) -> Verdict:
    """Returns the next action of orchestration `instance_id` for one step, decided from the ledger."""
    job = record.job if record is not None else None
    if record is None or job is None or job.status.terminal or job.is_staged or job.instance_id != instance_id:
        return Verdict(VerdictKind.END)
    step = record.step(step_id)
    if step is None:
        return Verdict(VerdictKind.END)
    match step.status:
        case StepStatus.SUCCEEDED:
            return Verdict(VerdictKind.SKIP, step.attempt_no)
        case StepStatus.INITIATED if step.due_at is not None and step.due_at > now:
            return Verdict(VerdictKind.PUBLISH_FAILED, step.attempt_no, step.due_at)
        case StepStatus.INITIATED:
            return Verdict(VerdictKind.AWAIT_ACK, step.attempt_no, step.silent_until)
        case StepStatus.PROCESSING:
            return Verdict(VerdictKind.AWAIT_RESULT, step.attempt_no, step.silent_until)
        case _ if record.job.status is JobStatus.CANCELLING:
            return Verdict(VerdictKind.END)
        case _ if record.job.status is JobStatus.PAUSED:
            return Verdict(VerdictKind.PARK, park_no=record.job.park_no)
        case _ if record.job.status is JobStatus.PAUSING:
            # only in a parallel group: another step is in flight, and it is open whether the job is then PAUSED or
            # continues. Each wait is as long as all before it, so that a long step does not fill the history
            wait = min(max(now - step.updated_at, SIBLING_WAIT), LONGEST_WAIT)
            return Verdict(VerdictKind.BACKOFF, step.attempt_no, now + wait)
        case StepStatus.FAILED_RETRY if step.due_at is not None and step.due_at > now:
            return Verdict(VerdictKind.BACKOFF, step.attempt_no, step.due_at)
        case _:
            return Verdict(VerdictKind.RECORD, step.attempt_no + 1)


def end_event(step: Step) -> str:
    """Returns the external event that ends the wait of the step's orchestration when the job ends for another reason
    (R12).

    For an attempt in flight it is the event of the attempt's RESULT. Between attempts it is the event of the next
    attempt's RESULT. The RESULT of the last attempt may have been received, and each event is awaited once (R31).
    """
    between = step.attempt_no == 0 or step.retry_cause is not None
    return durable_names.result_event(step.step_id, step.attempt_no + between)
