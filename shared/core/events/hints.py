"""Hints: advisory messages that notify the feed writer of commits with public events (R71).

A hint names EVENT rows of a job, or entries of a quota's or incident's log. The writer continues from the last number
that the feed has of the hint's subject. The writer reads the rows from their store if the hint does not follow that
number.

A lost, repeated, late or reordered hint never loses an event. The hint causes one more read, or a delay until the
sweeper compares the subject with the feed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date

from shared.core.audit.heads import INCIDENT_LOG, QUOTA_LOG, DayHead, last_of_days
from shared.core.events.event_types import TERMINAL
from shared.core.events.public_events import PublicEvent, encode_json, make_public_events
from shared.core.events.public_log_events import feed_of, gate_events, incident_events
from shared.core.gates.log import LogEntry
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.incidents import Incident, IncidentEntry
from shared.core.jobs.job import Event, Job, JsonValue
from shared.core.jobs.routing import PLATFORM
from shared.core.records.chained_log import Entry
from shared.core.records.strict_json import parse_json

#: maximum size of a hint as JSON; a larger one has no events, and the writer reads them from the ledger
MAX_HINT_BYTES = 100 * 1024
#: maximum number of callback URLs of one job that are called
MAX_CALLBACKS = 10
_GATE_KINDS = frozenset(GateKind)


@dataclass(frozen=True, kw_only=True)
class Hint:
    """Rows `first` to `last` of a job, a quota's log or an incident's log, with the public events of these rows."""

    #: tenant of the feed
    tenant: str
    #: id of the subject: exactly one of the next three fields is set
    job_id: str = ""
    gate: Gate | None = None
    incident_id: str = ""
    #: number of the first row; 0: not known, and the rows are read
    first: int = 0
    #: number of the last row; None means all rows in the ledger
    last: int | None = None
    #: events, each with its row's number as `jobseq`; None means read from the ledger
    events: tuple[PublicEvent, ...] | None = None
    #: number of failed reads
    tries: int = 0
    #: names of the job's `callback_urls`, if the events end the job; None means read from the ledger
    callbacks: tuple[str, ...] | None = None
    #: the last of these rows for each day; None if not known
    heads: tuple[DayHead, ...] | None = None

    @property
    def head_name(self) -> str:
        """Returns the name of the subject's heads: the job id, or the name of the log."""
        if self.gate is not None:
            return QUOTA_LOG + self.gate.id
        return self.job_id or INCIDENT_LOG + self.incident_id

    @property
    def key(self) -> str:
        """Returns the id of the job, quota or incident. These ids never collide."""
        return self.gate.id if self.gate is not None else self.job_id or self.incident_id


def hint_of(job: Job, rows: Sequence[Event]) -> Hint:
    """Makes the hint of a commit with these consecutive EVENT rows. If `rows` is empty, the hint covers all
    events of the job.
    """
    if not rows:
        return Hint(tenant=job.tenant, job_id=job.job_id, last=job.event_seq)
    events = tuple(each for row in rows for each in make_public_events(row, job))
    names = callback_names(job.callback_urls) if any(each["type"] in TERMINAL for each in events) else None
    return _with_rows(Hint(tenant=job.tenant, job_id=job.job_id, callbacks=names), rows, events)


def callback_names(urls: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of the job's `callback_urls` to call: at most ten, in alphabetical order."""
    return tuple(sorted(name for name in urls if name)[:MAX_CALLBACKS])


def gate_hint(gate: Gate, entries: Sequence[LogEntry], *, last: int | None = None) -> Hint:
    """Makes the hint of consecutive entries of the quota's log. Without entries, the hint covers all entries up to
    `last`.
    """
    tenant = feed_of(gate.tenant)
    if not entries:
        return Hint(tenant=tenant, gate=gate, last=last)
    events = tuple(each for entry in entries for each in gate_events(entry, gate))
    return _with_rows(Hint(tenant=tenant, gate=gate), entries, events)


def incident_hint(incident: Incident, entries: Sequence[IncidentEntry] = ()) -> Hint:
    """Makes the hint of consecutive entries of an incident's log, as `gate_hint` does."""
    tenant = feed_of(incident.tenant)
    if not entries:
        return Hint(tenant=tenant, incident_id=incident.id, last=incident.log_seq)
    events = tuple(each for entry in entries for each in incident_events(entry, incident))
    return _with_rows(Hint(tenant=tenant, incident_id=incident.id), entries, events)


def _with_rows(hint: Hint, rows: Sequence[Event | Entry], events: tuple[PublicEvent, ...]) -> Hint:
    heads = last_of_days(hint.head_name, rows)
    return replace(hint, first=rows[0].seq, last=rows[-1].seq, events=events, heads=heads)


def encode_hint(hint: Hint) -> bytes:
    """Encodes the body of the hint's message."""
    body: dict[str, JsonValue] = {"tenant": hint.tenant}
    if hint.gate is not None:
        body["gate"] = [hint.gate.kind.value, hint.gate.name]
    elif hint.incident_id:
        body["incident_id"] = hint.incident_id
    else:
        body["job_id"] = hint.job_id
    body["from"] = hint.first
    body |= {"to": hint.last} if hint.last is not None else {}
    body |= {"tries": hint.tries} if hint.tries else {}
    if hint.events is not None:
        called = {"callbacks": list(hint.callbacks)} if hint.callbacks is not None else {}
        heads = {"heads": [[str(each.day), each.seq, each.hash] for each in hint.heads]} if hint.heads else {}
        whole = encode_json({**body, **called, **heads, "events": list(hint.events)})
        if len(whole) <= MAX_HINT_BYTES:
            return whole
    return encode_json(body)


def decode_hint(body: bytes) -> Hint | None:
    """Decodes a hint. Returns None for any other message, and for a hint with a subject of a later release."""
    try:
        values = parse_json(body)
    except ValueError:
        return None
    if not isinstance(values, dict):
        return None
    tenant, events = values.get("tenant"), values.get("events")
    if not (isinstance(tenant, str) and tenant):
        return None
    whose = _whose(values, tenant)
    first, last, tries = values.get("from", 0), values.get("to"), values.get("tries", 0)
    if whose is None or not (isinstance(first, int) and isinstance(last, int | None) and isinstance(tries, int)):
        return None
    names = values.get("callbacks")
    are_names = isinstance(names, list) and all(isinstance(each, str) and each for each in names)
    known = isinstance(events, list) and all(_is_event(each, whose) for each in events)
    return replace(
        whose,
        first=first,
        last=last,
        events=tuple(events) if known and events is not None else None,
        tries=tries,
        callbacks=tuple(names) if are_names and names is not None else None,
        heads=_heads_of(values.get("heads"), whose.head_name),
    )


def _heads_of(values: JsonValue, name: str) -> tuple[DayHead, ...] | None:
    """Returns the heads of the rows, or None if the rows must be read."""
    if not isinstance(values, list):
        return None
    found = []
    for each in values:
        match each:
            case [str(day), int(seq), str(hash_)] if _is_day(day):
                found.append(DayHead(name=name, day=date.fromisoformat(day), seq=seq, hash=hash_))
            case _:
                return None
    return tuple(found)


def _is_day(text: str) -> bool:
    with suppress(ValueError):
        return bool(date.fromisoformat(text))
    return False


def _whose(values: dict[str, JsonValue], tenant: str) -> Hint | None:
    """Returns a hint that has only the subject, or None if `values` has no subject."""
    match values:
        case {"job_id": str(job_id)} if job_id:
            return Hint(tenant=tenant, job_id=job_id)
        case {"incident_id": str(incident_id)} if incident_id:
            return Hint(tenant=tenant, incident_id=incident_id)
        case {"gate": [str(kind), str(name)]} if kind in _GATE_KINDS:
            gate = Gate(GateKind(kind), EVERY if tenant == PLATFORM else tenant, name)
            return Hint(tenant=tenant, gate=gate) if feed_of(gate.tenant) == tenant else None
    return None


def _is_event(value: JsonValue, whose: Hint) -> bool:
    """Returns `True` if the value is an event of this subject and tenant."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("jobseq"), int)
        and all(isinstance(value.get(name), str) for name in ("id", "type", "time"))
        and isinstance(value.get("data"), dict)
        and isinstance(value["data"].get("payload"), dict)
        and (value.get("subject"), value.get("tenant")) == (whose.key, whose.tenant)
    )
