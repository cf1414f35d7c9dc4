"""Level 2: the chain of a job's events, and the rows that follow from the chain.

This module shares no code with the app that wrote the history.

- All digests are SHA-256 over the canonical JSON of RFC 8785.
- The `hash` of an event is the digest of its fields, with `data_digest` instead of `hash`, `data` and `salt`.
  `data_digest` is the SHA-256 of the bytes of `salt` and the canonical JSON of `data`. The field `prev_hash` is the
  hash of the previous event, or empty in the first event. The JOB row has the hash of the last event.
- An event whose content is withheld has `data_digest` and neither `data` nor `salt`.
- A row omits each column that has its default value.
- The first event has the digest of the created rows (`data.rows`). Each event has the columns that it changed
  (`data.changes`). The verifier restores the created rows, and computes the present rows from these rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from lucius_verify.faults import Fault
from lucius_verify.histories import History
from lucius_verify.json_rows import Json, Row, canonical, digest

FORMAT = 2
TERMINAL = frozenset({"SUCCEEDED", "FAILED_FINAL", "CANCELLED"})

#: columns that every transition writes, or that are counted without an event
_UNRECORDED = frozenset(
    {"updated_at", "event_seq", "event_hash", "suppressed", "backlog_until", "gated_until", "gated_by"}
)
#: values to which an absent column may have been set back
_EMPTY: tuple[Json, ...] = (None, 0, "", [], {})


def is_withheld(event: Row) -> bool:
    return "data" not in event


def event_hash(event: Row) -> str:
    """Returns the hash that an event must have."""
    content = {name: value for name, value in event.items() if name not in ("hash", "data", "salt")}
    if not is_withheld(event):
        salted = bytes.fromhex(event["salt"]) + canonical(event["data"])
        content["data_digest"] = hashlib.sha256(salted).hexdigest()
    return digest(content)


def check_job(history: History) -> Fault | None:
    """Returns the first broken link of a job's chain, of its terminal state, or of its rows, or None if all are
    correct.

    A value of a wrong type can raise any exception.
    """
    return check_events(history) or _head(history) or _outcome(history) or _rows(history)


def check_events(history: History) -> Fault | None:
    """Returns a fault of the first event that breaks the sequence, the chain of hashes, or the states of the job.
    Returns None if all events are correct.
    """
    previous, state = "", None
    for number, event in enumerate(history.events, start=1):
        if event["seq"] != number:
            return history.fault(number, f"event {number} is missing")
        if event["job_id"] != history.job_id:
            return history.fault(number, "the event belongs to another job")
        if ("data" in event) == ("data_digest" in event) or ("data" in event) != ("salt" in event):
            return history.fault(number, "the event must have either data and salt, or data_digest")
        if event["prev_hash"] != previous:
            return history.fault(number, "prev_hash is not the hash of the previous event")
        if event["hash"] != event_hash(event):
            return history.fault(number, "the hash is not the hash of the event's content")
        if event["job_from"] != state:
            return history.fault(number, f"the job was {state}, and job_from is {event['job_from']}")
        previous, state = event["hash"], event["job_to"]
    return None


def _head(history: History) -> Fault | None:
    """Checks that the job names its last event, and has the status after this event."""
    job, last = history.job, history.events[-1] if history.events else {}
    if not last or (job.get("event_seq"), job.get("event_hash")) != (len(history.events), last["hash"]):
        return history.row_fault("the last event is not the event that the job names")
    if job["status"] != last["job_to"]:
        return history.row_fault(f"the job is {job['status']}, and job_to of the last event is {last['job_to']}")
    return None


def _outcome(history: History) -> Fault | None:
    job, status = history.job, history.job["status"]
    if (status in TERMINAL) != (job.get("completed_at") is not None):
        return history.row_fault(f"the job is {status}, which contradicts `completed_at`")
    if status == "FAILED_FINAL" and not job.get("error_code"):
        return history.row_fault("the job failed without an error code")
    if status == "SUCCEEDED":
        if any(step["status"] != "SUCCEEDED" for step in history.steps):
            return history.row_fault("the job succeeded, and a step did not succeed")
        if not job.get("final_output"):
            return history.row_fault("the job succeeded without a result")
    return None


def _rows(history: History) -> Fault | None:
    """Computes the rows again from their first state and the events, and compares the results with the present rows. If
    an event is withheld, checks only the order of the steps.
    """
    if [(step["step_index"], step["step_id"]) for step in history.steps] != _in_order(history.steps):
        return history.row_fault("a step is missing, repeated or out of order")
    if any(is_withheld(event) for event in history.events):
        return None
    first = history.events[0]["data"]
    if first.get("format") != FORMAT:
        return history.fault(1, f"the format of the event is not {FORMAT}")
    rows = _as_created(history, first)
    if not history.withheld and _rows_digest(rows) != first["rows"]:
        return history.fault(1, "the created rows do not have the digest that the event names")
    for event in history.events:
        for name, changed in changes_of(event).items():
            if name in rows:
                rows[name] = {**rows[name], **changed}
    for name, given in _rows_by_name(history).items():
        if columns := _differing(rows[name], given):
            return history.row_fault(f"{name or 'the job'} differs from the result of its events: {', '.join(columns)}")
    return None


def _differing(computed: Row, given: Row) -> list[str]:
    """Returns columns of a row that differ from `computed`. A column whose computed value is empty may be absent."""
    names = (computed.keys() | given.keys()) - _UNRECORDED
    pairs = ((name, computed.get(name), given.get(name)) for name in sorted(names))
    return [
        name
        for name, mine, its in pairs
        if mine is not its and not (name not in given and mine in _EMPTY) and canonical(mine) != canonical(its)
    ]


def changes_of(event: Row) -> dict[str | None, Row]:
    """Returns the columns that an event changed. The key None has the columns of the job, and a step's id has the
    columns of the step.
    """
    data = event["data"]
    changes = data.get("changes", {}) if isinstance(data, Mapping) else {}
    return {None: changes.get("job", {}), **changes.get("steps", {})}


def _in_order(steps: Sequence[Row]) -> list[tuple[int, str]]:
    """Returns the number and the id that each step must have, with numbers from 0 and unique ids."""
    return list(enumerate(dict.fromkeys(step["step_id"] for step in steps)))


def _as_created(history: History, first: Row) -> dict[str | None, Row]:
    """Returns the created rows, without the changes of later events."""
    rows = _rows_by_name(history)
    touched: dict[str | None, set[str]] = {}
    for event in history.events:
        for name, changed in changes_of(event).items():
            touched.setdefault(name, set()).update(changed)
    for name, row in rows.items():
        reset = touched.get(name, set())
        known = {"status": first["status"], "instance_id": history.job_id} if name is None else {"status": "PENDING"}
        rows[name] = {column: row[column] for column in row if column not in reset}
        rows[name] |= {column: known[column] for column in reset if column in known}
    if "deadline_at" in first:
        rows[None]["deadline_at"] = first["deadline_at"]
    current = next((step for step in history.steps if not step.get("carried")), None)
    if current is not None:
        group = current.get("group")
        together = (
            each for each in history.steps if each is current or (group is not None and each.get("group") == group)
        )
        ahead = next(together)
        rows[None] |= {"current_step_id": ahead["step_id"], "current_step_index": ahead["step_index"]}
        if ahead["step_index"] == 0:
            del rows[None]["current_step_index"]
    return rows


def _rows_by_name(history: History) -> dict[str | None, Row]:
    """Returns the JOB row under None and each STEP row under its id, in the order of the steps."""
    return {None: dict(history.job), **{step["step_id"]: dict(step) for step in history.steps}}


def _rows_digest(rows: Mapping[str | None, Row]) -> str:
    return digest([_recorded(row) for row in rows.values()])


def _recorded(row: Row) -> Row:
    return {name: row[name] for name in row if name not in _UNRECORDED}


def check_entry(before: Row | None, entry: Row) -> str | None:
    """Returns the fault of a log entry of a quota or an incident, or None if the entry is correct.

    `before` is the previous entry of the file. Old entries of a log are deleted, so the first present entry can have
    any number.
    """
    content = {name: value for name, value in entry.items() if name not in ("log", "hash")}
    content["at"] = datetime.fromisoformat(entry["at"]).astimezone(UTC).isoformat(timespec="microseconds")
    if before is not None and before["log"] == entry["log"]:
        if entry["seq"] != before["seq"] + 1:
            return f"entry {before['seq'] + 1} is missing"
        if entry["prev_hash"] != before["hash"]:
            return "prev_hash is not the hash of the previous entry"
    if entry["hash"] != digest(content):
        return "the hash is not the hash of the entry's content"
    return None
