"""Proves audit bundles and chains of EVENT rows with the app's own rules (R32).

`lucius audit verify` is the proof for users. It shares no code with the app, so it proves hashes and columns only.
This proof also replays the transitions that the events name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

from shared.api.audit import FORMAT
from shared.api.explain import cite
from shared.core.canonical import jcs_digest
from shared.core.jobs.as_of import as_created, as_of, from_json, rows_digest
from shared.core.jobs.history import event_hash
from shared.core.jobs.job import Event, Job, JsonValue, Record, Step

_Row = TypeVar("_Row", Job, Step, Event)


def verify(given: Any, *, head: str | None = None) -> list[str]:
    """Returns the faults of an audit bundle, in words; an empty list if the bundle is proved.

    `head` is the hash that the last event must have, as noted elsewhere; None: any hash.
    """
    if not isinstance(given, Mapping) or given.get("format") != FORMAT:
        return [f"this is no audit bundle of format {FORMAT}"]
    wrong = []
    try:
        if given.get("digest") != "sha256:" + jcs_digest({name: given[name] for name in given if name != "digest"}):
            wrong.append("the digest is not that of the content")
        record = Record(_row(Job, given["job"]), tuple(_row(Step, step) for step in given["steps"]))
        events = [_row(Event, event) for event in given["events"]]
        return wrong + _broken(record, events, head)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as unreadable:
        return [*wrong, f"the content cannot be read: {unreadable}"]


def _broken(record: Record, events: Sequence[Event], head: str | None) -> list[str]:
    """What is wrong with rows that have the right form."""
    wrong = []
    try:
        verify_chain(list(events))
    except ValueError as broken:
        return [str(broken)]
    job = record.job
    if not events or (events[-1].seq, events[-1].hash) != (job.event_seq, job.event_hash):
        return ["the last event is not the one that JOB names as its head"]
    if head is not None and head != job.event_hash:
        wrong.append("the head is not the one that was noted")
    if {event.job_id for event in events} != {job.job_id}:
        wrong.append("an event belongs to another job")
    return wrong + _illegal(events) + _unproved(record, events)


def _illegal(events: Sequence[Event]) -> list[str]:
    """Transitions that the tables do not have."""
    wrong = []
    before: str | None = None
    for event in events:
        if event.job_from != before:
            wrong.append(f"event {event.seq}: the job was {before}, not {event.job_from}")
        before = event.job_to
        if isinstance(event.data, Mapping) and "transitions" in event.data:
            wrong += _misled(event)
            continue
        if event.job_from is not None and event.job_from != event.job_to:
            wrong.append(f"event {event.seq}: no row leads the job from {event.job_from} to {event.job_to}")
        if event.from_status is not None and event.from_status != event.to_status:
            wrong.append(f"event {event.seq}: no row leads the step from {event.from_status} to {event.to_status}")
    return wrong


def _misled(event: Event) -> list[str]:
    """Where the rows that an event names do not lead from its states before to its states after."""
    try:
        rows = cite(event)
    except (LookupError, ValueError) as unknown:
        return [f"event {event.seq}: the tables have no such row: {unknown}"]
    wrong = []
    for machine, start, end in (("job", event.job_from, event.job_to), ("step", event.from_status, event.to_status)):
        state = start
        for row in (row for row in rows if row.machine == machine):
            if row.state != state:
                wrong.append(f"event {event.seq}: a row of {row.state} was used, and the {machine} was {state}")
            state = row.to
        if state != end:
            wrong.append(f"event {event.seq}: its rows lead the {machine} to {state}, not to {end}")
    return wrong


def _unproved(record: Record, events: Sequence[Event]) -> list[str]:
    """Rows that are not what the events made of them."""
    wrong = []
    if rows_digest(as_created(record, events)) != (events[0].data or {}).get("rows"):
        wrong.append("the rows as created are not those of the first event")
    if rows_digest(as_of(record, events, len(events))) != rows_digest(record):
        wrong.append("the rows are not what the events made of them")
    return wrong


def _row(row: type[_Row], given: Mapping[str, JsonValue]) -> _Row:
    if unknown := set(given) - {field.name for field in fields(row)}:
        raise ValueError(f"{row.__name__} has other columns: {', '.join(sorted(unknown))}")
    return row(**{name: from_json(row, name, given[name]) for name in given})


def verify_chain(events: list[Event]) -> None:
    """Raises ValueError at the first event that breaks the sequence or the chain of hashes."""
    previous = ""
    for expected, event in enumerate(events, start=1):
        values = {field.name: getattr(event, field.name) for field in fields(Event)}
        if event.seq != expected:
            raise ValueError(f"event {expected} is missing")
        if event.prev_hash != previous or event.hash != event_hash(values):
            raise ValueError(f"event {event.seq} breaks the hash chain")
        previous = event.hash
