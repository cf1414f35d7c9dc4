"""The proof of audit bundles of format `lucius-audit/2`.

This is a second implementation on purpose: it shares no code with the app that wrote the history.

- All digests are SHA-256 over the canonical JSON of RFC 8785. An integer past 2^53 counts as the double next to it, as
  in JSON parsers of other languages.
- The `hash` of an event is the digest of its fields but `hash`, `data` and `salt`, in whose place `data_digest` stands:
  the SHA-256 of the bytes of `salt` and the canonical JSON of `data`. Among the fields is `prev_hash`, the hash of the
  event before; the first one is empty. The JOB row names the hash of the last event.
- A column that has the value of every new row is left out of a row.
- The first event holds the digest of the rows as created (`data.rows`), and each event the columns that it changed
  (`data.changes`). So the rows can be taken back to their first state, and computed again from it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import rfc8785

Json = Any
Row = dict[str, Json]

#: columns that every transition writes, or that are counted without an event
_UNRECORDED = frozenset({"updated_at", "event_seq", "event_hash", "suppressed"})
#: what a column that is left out may have been set back to
_EMPTY: tuple[Json, ...] = (None, 0, "", [], {})
#: integers past this are doubles (RFC 7493, section 2.2)
_EXACT = 2**53 - 1


def chain_faults(job: Row, steps: list[Row], events: list[Row], head: str | None) -> list[str]:
    """Faults of the chain of events; if it is whole, also those of the rows."""
    previous = ""
    for seq, event in enumerate(events, start=1):
        if event["seq"] != seq:
            return [f"event {seq} is missing"]
        if event["prev_hash"] != previous or event["hash"] != _event_hash(event):
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


def digest(value: Json) -> str:
    return hashlib.sha256(_jcs(value)).hexdigest()


def _event_hash(event: Row) -> str:
    content = {name: value for name, value in event.items() if name not in ("hash", "data", "salt")}
    salted = bytes.fromhex(event["salt"]) + _jcs(event["data"])
    return digest(content | {"data_digest": hashlib.sha256(salted).hexdigest()})


def _row_faults(job: Row, steps: list[Row], events: list[Row]) -> list[str]:
    """Faults of the rows, taken back to their first state and computed again from the events."""
    faults = []
    rows = _as_created(job, steps, events)
    if _rows_digest(rows) != events[0]["data"]["rows"]:
        faults.append("the rows as created are not those of the first event")
    for event in events:
        for name, changed in _changes(event).items():
            if name in rows:
                rows[name] = {**rows[name], **changed}
    given = _rows_by_name(job, steps)
    for name, row in rows.items():
        rows[name] = {column: row[column] for column in row if column in given[name] or row[column] not in _EMPTY}
    if _rows_digest(rows) != _rows_digest(given):
        faults.append("the rows are not what the events made of them")
    return faults


def _as_created(job: Row, steps: list[Row], events: list[Row]) -> dict[str | None, Row]:
    """The rows as they were before any event changed them."""
    first = events[0]["data"]
    rows = _rows_by_name(job, steps)
    touched: dict[str | None, set[str]] = {}
    for event in events:
        for name, changed in _changes(event).items():
            touched.setdefault(name, set()).update(changed)
    for name, row in rows.items():
        reset = touched.get(name, set())
        known = {"status": first["status"], "instance_id": job["job_id"]} if name is None else {"status": "PENDING"}
        rows[name] = {column: row[column] for column in row if column not in reset}
        rows[name] |= {column: known[column] for column in reset if column in known}
    if "deadline_at" in first:
        rows[None]["deadline_at"] = first["deadline_at"]
    current = next((step for step in steps if not step.get("carried")), None)
    if current is not None:
        group = current.get("group")
        ahead = next(step for step in steps if step is current or (group is not None and step.get("group") == group))
        rows[None] |= {"current_step_id": ahead["step_id"], "current_step_index": ahead["step_index"]}
        if ahead["step_index"] == 0:
            del rows[None]["current_step_index"]
    return rows


def _rows_by_name(job: Row, steps: list[Row]) -> dict[str | None, Row]:
    """The JOB row under None and each STEP row under its id, in the order of the steps."""
    return {None: dict(job), **{step["step_id"]: dict(step) for step in steps}}


def _changes(event: Row) -> dict[str | None, Row]:
    """The columns that an event changed, by row as in `_rows_by_name`."""
    data = event["data"]
    changes = data.get("changes", {}) if isinstance(data, Mapping) else {}
    return {None: changes.get("job", {}), **changes.get("steps", {})}


def _rows_digest(rows: Mapping[str | None, Row]) -> str:
    return digest([{name: row[name] for name in row if name not in _UNRECORDED} for row in rows.values()])


def _jcs(value: Json) -> bytes:
    return rfc8785.dumps(_with_doubles(value))


def _with_doubles(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _with_doubles(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_with_doubles(each) for each in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        return float(value)
    return value
