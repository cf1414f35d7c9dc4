"""A job as it was after any of its events: EVENT rows applied to the created rows (R32).

The created rows are not stored. A column that no event changed has its present value. The other columns began with the
default of a new job. The first EVENT has a digest of the created rows, with which `lucius audit verify` checks the
result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from shared.core.jobs.history import FORMAT
from shared.core.jobs.job import HIDDEN, UNTOLD, Event, Job, JsonValue, Record, Step, Timings
from shared.core.jobs.states import StepStatus
from shared.core.records.canonical import jcs_digest

#: columns without history: those that no event names, and the count of ignored replies, which can grow without an event
NOT_FOLDED = UNTOLD | {"suppressed"}

_Row = TypeVar("_Row", Job, Step, Event)

_HINTS: dict[type[Any], dict[str, Any]] = {row: get_type_hints(row) for row in (Job, Step, Event)}


def make_creation_data(record: Record) -> dict[str, JsonValue]:
    """Makes `data` of the first EVENT from the job's new rows."""
    job = record.job
    data: dict[str, JsonValue] = {
        "format": FORMAT,
        "status": job.status.value,
        "request_type": job.request_type,
        "steps": [step.step_id for step in record.steps],
        "rows": compute_rows_digest(record),
    }
    if job.deadline_at is not None:
        # the other columns that transitions change have a default, or `rebuild_created` computes them
        data["deadline_at"] = encode_value(job.deadline_at)
    if job.total_time_s is not None:
        data["total_time_s"] = job.total_time_s
    return data


def find_total_time(first: Event) -> timedelta | None:
    """Returns the job's total time from its first EVENT. None means no limit."""
    data = first.data or {}
    if (staged := data.get("total_time_s")) is not None:
        return timedelta(seconds=staged)
    given = data.get("deadline_at")
    return datetime.fromisoformat(given) - first.at if given is not None else None


def compute_rows_digest(record: Record) -> str:
    """Returns the SHA-256 over the canonical JSON (RFC 8785) of the JOB and STEP columns that events have."""
    rows = [encode_columns(record.job), *(encode_columns(step) for step in record.steps)]
    return jcs_digest([{name: row[name] for name in row if name not in NOT_FOLDED} for row in rows])


def encode_columns(row: Job | Step | Timings) -> dict[str, JsonValue]:
    """Returns the columns of a row for external readers, without hidden columns and without defaults of a new row.

    So a release that adds a column changes nothing in the history of a job that does not use the column.
    """
    named = {field.name: (getattr(row, field.name), field.default) for field in fields(row)}
    return {
        name: encode_columns(value) if isinstance(value, Timings) else encode_value(value)
        for name, (value, default) in named.items()
        if value != default and name not in HIDDEN
    }


def rebuild_created(record: Record, events: Iterable[Event]) -> Record:
    """Returns the rows as they were created, before any event. `events` has all events of the job."""
    touched: dict[str | None, set[str]] = {}
    first: Mapping[str, JsonValue] = {}
    for event in events:
        if event.seq == 1:
            first = event.data or {}
        for row, columns in _read_changes(event).items():
            touched.setdefault(row, set()).update(columns)
    known: dict[str, Any] = {"instance_id": record.job.job_id}
    known |= {name: decode_value(Job, name, first[name]) for name in ("status", "deadline_at") if name in first}
    steps = tuple(
        replace(step, **_first_values(Step, touched.get(step.step_id, set()), {"status": StepStatus.PENDING}))
        for step in record.steps
    )
    current = next((step for step in steps if not step.carried), None)
    if current is not None:
        ahead = Record(record.job, steps).group_of(current)[0]
        known |= {"current_step_id": ahead.step_id, "current_step_index": ahead.step_index}
    job = replace(record.job, **_first_values(Job, touched.get(None, set()), known))
    return Record(job, steps)


def rebuild_as_of(record: Record, events: Sequence[Event], seq: int) -> Record:
    """Returns the rows after event `seq`. `events` has all events of the job, in order.

    Columns that change without an event have their current values: `suppressed`, `backlog_until`, `gated_until` and
    `gated_by`. Steps have no `lease_id` and no count of heartbeats. Raises ValueError if there is no such event.
    """
    if not 1 <= seq <= len(events):
        raise ValueError(f"the job has events 1 to {len(events)}")
    at = rebuild_created(record, events)
    at = Record(
        replace(at.job, updated_at=at.job.created_at, suppressed=record.job.suppressed),
        tuple(replace(step, updated_at=step.created_at, lease_id=None, heartbeats=0) for step in at.steps),
    )
    for event in events[:seq]:
        at = apply_event(at, event)
    return at


def apply_event(record: Record, event: Event) -> Record:
    """Returns the rows after `event`."""
    changes = _read_changes(event)
    steps = tuple(
        replace(step, **_decode_columns(Step, changes[step.step_id]), updated_at=event.at)
        if step.step_id in changes
        else step
        for step in record.steps
    )
    job_changes = _decode_columns(Job, changes.get(None, {}))
    head: dict[str, Any] = {"event_seq": event.seq, "event_hash": event.hash, "updated_at": event.at}
    return Record(replace(record.job, **job_changes, **head), steps)


#: types that JSON represents unchanged, which most columns have
_PLAIN = frozenset({str, int, float, bool})


def encode_value(row: Any) -> Any:
    """Converts an EVENT row or a column to JSON: times as ISO text in UTC, states as their names."""
    if row is None or type(row) in _PLAIN:
        return row
    if isinstance(row, datetime):
        return row.astimezone(UTC).isoformat(timespec="microseconds")
    if isinstance(row, Event):
        return {field.name: encode_value(getattr(row, field.name)) for field in fields(row)}
    if isinstance(row, Mapping):
        return {str(name): encode_value(each) for name, each in row.items()}
    if isinstance(row, list | tuple):
        return [encode_value(each) for each in row]
    return row.value if isinstance(row, StrEnum) else row


def decode_value(row: type[Any], name: str, given: JsonValue) -> Any:
    """Converts a column's value from its JSON (the inverse of `encode_value`). Raises KeyError for an unknown column.

    Raises TypeError or ValueError for an invalid value.
    """
    hint = _HINTS[row][name]
    if given is None:
        return None
    for kind in get_args(hint) if isinstance(hint, UnionType) else (hint,):
        if kind is datetime:
            return datetime.fromisoformat(given)
        if isinstance(kind, type) and issubclass(kind, str) and kind is not str:
            return kind(given)
        if kind is Timings:
            return Timings(**{each: _decode_timing(each, given[each]) for each in given})
    return given


def decode_row(row: type[_Row], given: Mapping[str, JsonValue]) -> _Row:
    """Makes a row from its columns as JSON (the inverse of `encode_columns`). Ignores columns of a later release.

    Raises TypeError and ValueError.
    """
    return row(
        **{each.name: decode_value(row, each.name, given[each.name]) for each in fields(row) if each.name in given}
    )


def _decode_timing(name: str, given: JsonValue) -> Any:
    return tuple(given) if name.endswith("_backoffs") else given


def _read_changes(event: Event) -> dict[str | None, Mapping[str, JsonValue]]:
    """Returns the changed columns by step id, and those of the job under None."""
    changes = (event.data or {}).get("changes", {}) if isinstance(event.data, Mapping) else {}
    return {None: changes.get("job", {}), **changes.get("steps", {})}


def _decode_columns(row: type[_Row], columns: Mapping[str, JsonValue]) -> dict[str, Any]:
    return {name: decode_value(row, name, given) for name, given in columns.items()}


def _first_values(row: type[_Row], touched: set[str], known: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {field.name: field.default for field in fields(row) if field.default is not MISSING}
    return {name: known[name] if name in known else defaults[name] for name in touched}
