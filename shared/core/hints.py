"""A hint: a commit of a job's had public events, which `shared.operations.tell` shall write into the feed (R71).

It proves nothing: what is written is read from the ledger, or follows on what the feed has of the job. So one that is
lost, doubled, late or out of order costs a read or a minute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.core.deliveries import callback_names
from shared.core.job import Event, Job, JsonValue
from shared.core.public_events import TERMINAL, PublicEvent, encoded, public_events
from shared.core.strict_json import parse_json

#: of a hint as JSON; one whose events make it larger leaves them out, and they are read from the ledger
MAX_HINT_BYTES = 100 * 1024


@dataclass(frozen=True, kw_only=True)
class Hint:
    """EVENT rows `first` to `last` of a job, and the public events that they mean."""

    tenant: str
    job_id: str
    #: 0: not known; the rows are read
    first: int = 0
    #: None: whatever the ledger has
    last: int | None = None
    #: each with its row's number as `jobseq`; None: they are read
    events: tuple[PublicEvent, ...] | None = None
    #: how often the job could not be read
    tries: int = 0
    #: names of the job's `callback_urls`, where the events end it; None: nobody looked
    callbacks: tuple[str, ...] | None = None


def hint_of(job: Job, rows: Sequence[Event]) -> Hint:
    """Of a commit with these EVENT rows, which follow on each other; without any, of all that the job has."""
    if not rows:
        return Hint(tenant=job.tenant, job_id=job.job_id, last=job.event_seq)
    events = tuple(each for row in rows for each in public_events(row, job))
    names = callback_names(job.callback_urls) if any(each["type"] in TERMINAL for each in events) else None
    return Hint(
        tenant=job.tenant, job_id=job.job_id, first=rows[0].seq, last=rows[-1].seq, events=events, callbacks=names
    )


def encode_hint(hint: Hint) -> bytes:
    """The body of its message."""
    body: dict[str, JsonValue] = {"tenant": hint.tenant, "job_id": hint.job_id, "from": hint.first}
    body |= {"to": hint.last} if hint.last is not None else {}
    body |= {"tries": hint.tries} if hint.tries else {}
    if hint.events is not None:
        body |= {"callbacks": list(hint.callbacks)} if hint.callbacks is not None else {}
        whole = encoded({**body, "events": list(hint.events)})
        if len(whole) <= MAX_HINT_BYTES:
            return whole
    return encoded(body)


def decode_hint(body: bytes) -> Hint | None:
    """None: it is no hint, or one of a later release."""
    try:
        values = parse_json(body)
    except ValueError:
        return None
    if not isinstance(values, dict):
        return None
    tenant, job_id, events = values.get("tenant"), values.get("job_id"), values.get("events")
    first, last, tries = values.get("from", 0), values.get("to"), values.get("tries", 0)
    if not (isinstance(tenant, str) and tenant and isinstance(job_id, str) and job_id):
        return None
    if not (isinstance(first, int) and isinstance(last, int | None) and isinstance(tries, int)):
        return None
    known = isinstance(events, list) and all(_is_event(each, job_id, tenant) for each in events)
    names = values.get("callbacks")
    are_names = isinstance(names, list) and all(isinstance(each, str) and each for each in names)
    return Hint(
        tenant=tenant,
        job_id=job_id,
        first=first,
        last=last,
        events=tuple(events) if known and events is not None else None,
        tries=tries,
        callbacks=tuple(names) if are_names and names is not None else None,
    )


def _is_event(value: JsonValue, job_id: str, tenant: str) -> bool:
    """Whether it may go into the tenant's feed as the job's."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("jobseq"), int)
        and all(isinstance(value.get(name), str) for name in ("id", "type", "time"))
        and isinstance(value.get("data"), dict)
        and isinstance(value["data"].get("payload"), dict)
        and (value.get("subject"), value.get("tenant")) == (job_id, tenant)
    )
