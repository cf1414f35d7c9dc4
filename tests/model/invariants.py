"""Invariants of the rows of every job, after any transitions in any order."""

from __future__ import annotations

from dataclasses import fields
from datetime import datetime
from enum import StrEnum
from typing import Any

from shared.api.explain import TableRow, cite
from shared.core.jobs.history import event_hash
from shared.core.jobs.job import Event, Job, Record, Step
from shared.core.jobs.states import JobStatus, StepStatus

Rows = dict[str, dict[str, Any]]

#: columns that the fields of each EVENT give, and the count of replies that are in no EVENT
_NOT_FOLDED = frozenset(
    {"updated_at", "event_seq", "event_hash", "suppressed", "lease_id", "backlog_until", "gated_until", "gated_by"}
    | {"heartbeats"}
)
_COLUMNS = {row: [field.name for field in fields(row) if field.name not in _NOT_FOLDED] for row in (Job, Step)}
#: EVENT rows that no row of a table led to
_WITHOUT_TRANSITION = frozenset(
    {"AWAITED", "PRIORITY_CHANGED", "REPLY_IGNORED", "REPAIRED", "JOB_REDRIVEN", "JOB_CREATED", "JOB_WITHDRAWN"}
)
#: columns of an ended job that a late reply or a redrive still changes
_HEAD = frozenset({"event_seq", "event_hash", "suppressed", "updated_at", "redriven_by"})


def check_move(before: Record, after: Record) -> None:
    """From one transaction of a job to the next. Raises AssertionError."""
    old, new = before.job, after.job
    if old.status.terminal:
        changed = [one.name for one in fields(old) if getattr(old, one.name) != getattr(new, one.name)]
        assert set(changed) <= _HEAD, f"an ended job was changed: {changed}"
        assert before.steps == after.steps, "a step of an ended job was changed"
    flying = [step for step in after.steps if step.status.in_flight]
    if len(flying) > 1:
        assert {step.group for step in flying} == {flying[0].group} != {None}, "two steps in flight outside a group"
    assert not (flying and new.status.terminal), "an ended job has a step in flight"
    assert new.attempts_total == sum(step.attempt_no for step in after.steps), "attempts_total is not the sum"
    for was, step in zip(before.steps, after.steps, strict=True):
        assert step.attempt_no - was.attempt_no in (0, 1), "an attempt was skipped or taken back"
        assert step.attempt_no <= step.timings.max_attempts, "more attempts than the budget"
        assert not was.status.terminal or was == step, "a settled step was changed"
        if step.attempt_no > was.attempt_no:
            assert old.status in (JobStatus.QUEUED, JobStatus.IN_PROGRESS), f"an attempt began in {old.status}"
            assert step.lease_digest != was.lease_digest, "a new attempt has the old lease"
            assert (was.lane, was.routing_key_used, was.service) == (step.lane, step.routing_key_used, step.service)
        if step.status.in_flight:
            first = step if step.group is None else next(one for one in after.steps if one.group == step.group)
            earlier = {one.status for one in after.steps[: first.step_index]}
            assert earlier <= {StepStatus.SUCCEEDED}, f"{step.step_id} runs before its turn"
            assert new.current_step_index == first.step_index, "current_step_index is not the group's first"
    if new.status is JobStatus.PAUSED:
        assert not flying, "PAUSED means drained"
        assert new.drained_at is not None
    if new.status is JobStatus.SUCCEEDED:
        assert {step.status for step in after.steps} == {StepStatus.SUCCEEDED}
    if new.status is JobStatus.CANCELLED:
        assert all(step.status.terminal for step in after.steps), "CANCELLED left a step alive"


def check_link(previous: Event | None, event: Event) -> None:
    """Gapless and chained. Raises AssertionError."""
    seq, link = (previous.seq, previous.hash) if previous else (0, "")
    assert event.seq == seq + 1, f"event {seq + 1} is missing"
    assert event.prev_hash == link, f"event {event.seq} hangs on another"
    assert event.hash == event_hash(vars(event)), f"event {event.seq} was changed"


def check_citation(event: Event) -> tuple[TableRow, ...]:
    """The rows that a transition cites form a chain from its first to its last state. Raises AssertionError."""
    rows = cite(event)
    assert bool(rows) is (event.type not in _WITHOUT_TRANSITION), f"{event.type} cites {len(rows)} rows"
    ends = {"job": (event.job_from, event.job_to), "step": (event.from_status, event.to_status)}
    for machine, (before, to) in ends.items():
        at = before
        for row in (row for row in rows if row.machine == machine):
            assert row.state == at, f"{event.type} cites a row of {row.state}, and the {machine} was {at}"
            at = row.to
        assert at == to, f"{event.type} led the {machine} to {to}, and its rows lead to {at}"
    return rows


def rows_of(record: Record) -> Rows:
    """Every column of JOB and the STEPs, in the form of an EVENT's `data.changes`."""
    return {"": _columns(record.job), **{step.step_id: _columns(step) for step in record.steps}}


def fold(rows: Rows, event: Event) -> None:
    """Applies the changes of `event` to the rows before it."""
    changes = (event.data or {}).get("changes", {})
    rows[""] |= changes.get("job", {})
    for step_id, columns in changes.get("steps", {}).items():
        rows[step_id] |= columns


def _columns(row: Job | Step) -> dict[str, Any]:
    return {name: _value(getattr(row, name)) for name in _COLUMNS[type(row)]}


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    return value.value if isinstance(value, StrEnum) else value
