"""The outcome of an occurrence: a transition, IGNORED, or REFUSED."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.core.jobs.history import EventType, Provenance, append
from shared.core.jobs.job import UNTOLD, Event, Job, JsonValue, Record, Step, with_columns


class OutcomeKind(StrEnum):
    """The effect of an occurrence on a job."""

    MOVED = "MOVED"
    #: a reply, control or timer without effect, such as a late or repeated one: at most an EVENT row
    IGNORED = "IGNORED"
    #: a request that is not possible: nothing is written
    REFUSED = "REFUSED"


@dataclass(frozen=True)
class Outcome:
    """The outcome of an occurrence. If `record` is the same object as before, there is nothing to write."""

    kind: OutcomeKind
    record: Record
    events: tuple[Event, ...] = ()
    #: for IGNORED and REFUSED: an `IgnoreReason`, or `{trigger}_IN_{state}` if the table has no such row
    reason_code: str | None = None

    @property
    def transitioned(self) -> bool:
        return self.kind is OutcomeKind.MOVED


def ignore(record: Record, reason_code: str) -> Outcome:
    return Outcome(OutcomeKind.IGNORED, record, reason_code=reason_code)


def refuse(record: Record, reason_code: str) -> Outcome:
    return Outcome(OutcomeKind.REFUSED, record, reason_code=reason_code)


def make_transition(
    before: Record,
    after: Record,
    type_: EventType,
    provenance: Provenance,
    *,
    step: Step | None = None,
    reason: str | None = None,
    data: dict[str, Any] | None = None,
) -> Outcome:
    """Makes the outcome of a transition: `after` with its EVENT row.

    In addition to the given `data`, the row has `changes` (changed columns by row) and `transitions` (the used rows of
    the tables). `step` is the step of the EVENT row.
    """
    rows = {"transitions": list(after.applied)} if after.applied else {}
    earlier = before.step(step.step_id) if step else None
    record, event = append(
        before,
        with_columns(after, applied=()),
        type_,
        provenance,
        step=after.step(step.step_id) if step else None,
        from_status=earlier.status.value if earlier else None,
        reason=reason,
        data={**(data or {}), "changes": _find_changes(before, after), **rows},
    )
    return Outcome(OutcomeKind.MOVED, record, (event,))


def find_final_output(record: Record) -> Any:
    """Returns the `output_ref` of the last step's RESULT, else the step's `result_ref`, else the job's `output_ref`.

    For a last group, the first step of the group is used. If the job's `output_ref` names a blob, that step writes the
    blob.
    """
    last = record.last[0]
    return (last.result or {}).get("output_ref") or last.result_ref or record.job.output_ref


def _find_changes(before: Record, after: Record) -> JsonValue:
    """Returns the changes of a transition: `{"job": {column: value}, "steps": {step_id: {column: value}}}`, without
    empty parts.

    Applied in order to the created rows, the changes of all events give the rows after any event.
    """
    found: dict[str, JsonValue] = {}
    if job := _find_changed_columns(before.job, after.job):
        found["job"] = job
    pairs = zip(before.steps, after.steps, strict=True)
    if steps := {new.step_id: diff for old, new in pairs if (diff := _find_changed_columns(old, new))}:
        found["steps"] = steps
    return found


def _find_changed_columns(before: Job | Step, after: Job | Step) -> dict[str, JsonValue]:
    if before is after:
        return {}
    old = vars(before)
    return {
        name: _encode_value(value)
        for name, value in vars(after).items()
        if value is not old[name] and value != old[name] and name not in UNTOLD
    }


def _encode_value(value: Any) -> JsonValue:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return value.value if isinstance(value, StrEnum) else value
