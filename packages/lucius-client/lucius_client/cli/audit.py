"""`lucius audit verify`: proves an audit bundle (`lucius-audit/1`) from the bundle alone, without the API.

This is a second implementation on purpose: it shares no code with the app that wrote the history.

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
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lucius_client.cli import rendering
from lucius_client.cli.exits import Exit, UsageError

FORMAT = "lucius-audit/1"
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

audit_app = typer.Typer(help="Audit bundles (`lucius job audit ID`): verify.", no_args_is_help=True)


@audit_app.callback()
def audit() -> None:
    """Audit bundles."""


@audit_app.command("verify")
def verify_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A bundle; - is standard input.")],
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="The hash that the last event must have, as noted elsewhere.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Check the digest, the chain of events, and that the rows follow from the events. Exit code 1 if a check fails."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        bundle = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    faults = verify(bundle, head=head)
    noted = "" if faults else bundle["job"]["event_hash"]
    if json_:
        rendering.write_json({"proved": not faults, "wrong": faults, "head": noted or None})
    elif faults:
        rendering.write("\n".join(faults))
    else:
        job = bundle["job"]
        rendering.write(f"proved: {job['job_id']} {job['status']}, {len(bundle['events'])} events, head {noted}")
    if faults:
        raise typer.Exit(Exit.NOT_WELL)


def verify(bundle: Json, *, head: str | None = None) -> list[str]:
    """The faults of a bundle, in words; an empty list if it is proved.

    `head` is the hash that the last event must have, as noted elsewhere; None: any hash.
    """
    if not isinstance(bundle, Mapping) or bundle.get("format") != FORMAT:
        return [f"this is not an audit bundle of format {FORMAT}"]
    faults = []
    try:
        rest = {name: value for name, value in bundle.items() if name != "digest"}
        if bundle.get("digest") != "sha256:" + _digest(rest):
            faults.append("the digest is not that of the content")
        return faults + _chain_faults(bundle["job"], bundle["steps"], bundle["events"], head)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return [*faults, f"the content cannot be read: {type(error).__name__}: {error}"]


def _chain_faults(job: Row, steps: list[Row], events: list[Row], head: str | None) -> list[str]:
    """Faults of the chain of events; where it is whole, also those of the rows."""
    previous = ""
    for seq, event in enumerate(events, start=1):
        if event["seq"] != seq:
            return [f"event {seq} is missing"]
        content = {name: value for name, value in event.items() if name != "hash"}
        if event["prev_hash"] != previous or event["hash"] != _digest(content):
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
    return _digest([{name: row[name] for name in row if name not in _UNRECORDED} for row in rows.values()])


def _digest(value: Json) -> str:
    text = json.dumps(_canonical(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def _canonical(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _canonical(each) for name, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
