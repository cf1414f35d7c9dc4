"""The proof of audit bundles that LUCIUS 0.1 wrote (`lucius-audit/1`). Frozen: no release writes them any more.

- `digest` is the SHA-256 of the canonical JSON of all other fields: keys sorted, no white space, `1.0` as `1`, nulls in
  objects left out.
- The `hash` of an event is the SHA-256 of its other fields, including `prev_hash`, the hash of the event before it. The
  first `prev_hash` is empty. The JOB row names the hash of the last event.
- The first event holds the digest of the rows as created (`data.rows`). Each event holds the columns that it changed
  (`data.changes`). The rows can therefore be taken back to their first state, and computed again from it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

#: columns that every transition writes, or that are counted without an event
_UNRECORDED = frozenset({"updated_at", "event_seq", "event_hash", "suppressed"})
#: values of columns before their first change; other columns are null
_FIRST_OF_JOB = {"status": "QUEUED", "attempts_total": 0, "park_no": 0}
_FIRST_OF_STEP = {
    "status": "PENDING",
    "attempt_no": 0,
    "ack_failures": 0,
    "execution_failures": 0,
    "publish_failures": 0,
}

Json = Any
Row = dict[str, Json]


def chain_faults(job: Row, steps: list[Row], events: list[Row], head: str | None) -> list[str]:
    """Faults of the chain of events; where it is whole, also those of the rows."""
    previous = ""
    for seq, event in enumerate(events, start=1):
        if event["seq"] != seq:
            return [f"event {seq} is missing"]
        content = {name: value for name, value in event.items() if name != "hash"}
        if event["prev_hash"] != previous or event["hash"] != digest(content):
            return [f"event {seq} breaks the hash chain"]
        previous = event["hash"]
    if not events or (job["event_seq"], job["event_hash"]) != (len(events), previous):
        return ["the last event is not the one that JOB names as its head"]
    faults = []
    if head is not None and head != previous:
        faults.append("the head is not the one that was noted")
    if {event["job_id"] for event in events} != {job["job_id"]}:
        faults.append("an event belongs to another job")
    return faults + _row_faults(job, steps, events)


def _row_faults(job: Row, steps: list[Row], events: list[Row]) -> list[str]:
    """Faults of the rows, taken back to their first state and computed again from the events."""
    first = events[0].get("data") or {}
    digest_as_created = first.get("rows")
    if digest_as_created is None:
        return ["the first event holds no digest of the rows"] if steps else []
    faults = []
    rows = _as_created(job, steps, events, first)
    if _rows_digest(rows) != digest_as_created:
        faults.append("the rows as created are not those of the first event")
    for event in events:
        for name, changed in _changes(event).items():
            if name in rows:
                rows[name] = {**rows[name], **changed}
    if _rows_digest(rows) != _rows_digest(_rows_by_name(job, steps)):
        faults.append("the rows are not what the events made of them")
    return faults


def _as_created(job: Row, steps: list[Row], events: list[Row], first: Row) -> dict[str | None, Row]:
    """The rows as they were before any event changed them."""
    rows = _rows_by_name(job, steps)
    touched: dict[str | None, set[str]] = {}
    for event in events:
        for name, changed in _changes(event).items():
            touched.setdefault(name, set()).update(changed)
    for name in rows:
        before = _FIRST_OF_JOB | {"instance_id": job["job_id"]} if name is None else _FIRST_OF_STEP
        rows[name] = {**rows[name], **{column: before.get(column) for column in touched.get(name, ())}}
    if "deadline_at" in first:
        rows[None]["deadline_at"] = first["deadline_at"]
    current = next((step for step in steps if not step["carried"]), None)
    if current is not None:
        group = (
            [step for step in steps if step["group"] == current["group"]] if current["group"] is not None else [current]
        )
        rows[None] |= {"current_step_id": group[0]["step_id"], "current_step_index": group[0]["step_index"]}
    return rows


def _rows_by_name(job: Row, steps: list[Row]) -> dict[str | None, Row]:
    """The JOB row under None and each STEP row under its id, in the order of the steps."""
    return {None: dict(job), **{step["step_id"]: dict(step) for step in steps}}


def _changes(event: Row) -> dict[str | None, Row]:
    """The columns that an event changed, by row as in `_rows_by_name`."""
    data = event.get("data")
    changes = data.get("changes", {}) if isinstance(data, Mapping) else {}
    return {None: changes.get("job", {}), **changes.get("steps", {})}


def _rows_digest(rows: Mapping[str | None, Row]) -> str:
    return digest([{name: row[name] for name in row if name not in _UNRECORDED} for row in rows.values()])


def digest(value: Json) -> str:
    text = json.dumps(_canonical(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _canonical(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _canonical(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
