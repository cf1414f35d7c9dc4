"""A job's audit bundle: its whole history as one document that can be verified offline (R32).

The first EVENT has a digest of the rows as created, and each later EVENT has the columns that it changed. All events
form one hash chain, and JOB stores the head of the chain. So the head's hash covers every column, except
columns that change without an event. A forger who rewrites all rows must also change the head, which an auditor can
compare with a head that was recorded earlier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from shared.api.response import Instant, Response
from shared.core.jobs.as_of import decode_row, encode_columns, encode_value
from shared.core.jobs.job import Event, Job, JsonValue, Record, Step
from shared.core.records.canonical import jcs_digest


class AuditBundle(Response):
    """Rows and events of a job, in the columns of the ledger, with a digest. Store and verify the bundle
    unchanged. A minor version can add columns. A column with its initial value is omitted."""

    format: Literal["lucius-audit/2"]
    taken_at: Instant
    job: dict[str, Any]
    """The JOB row."""
    steps: list[dict[str, Any]]
    """The STEP rows."""
    events: list[dict[str, Any]]
    """The EVENT rows, oldest first."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """SHA-256 over the canonical JSON (RFC 8785) of all other fields."""


FORMAT = "lucius-audit/2"


def bundle(record: Record, events: Sequence[Event], taken_at: datetime) -> dict[str, JsonValue]:
    """Makes `{"format", "taken_at", "job", "steps", "events", "digest"}`. `events` has all events up to the job's head.

    A column of JOB or STEP with the default of a new row is left out. Rows have the digest of a lease, and never the
    lease.
    """
    whole = {
        "format": FORMAT,
        "taken_at": encode_value(taken_at),
        "job": encode_columns(record.job),
        "steps": [encode_columns(step) for step in record.steps],
        "events": [encode_value(event) for event in events],
    }
    return {**whole, "digest": f"sha256:{jcs_digest(whole)}"}


def history_of(document: Mapping[str, Any]) -> tuple[Record, list[Event]]:
    """Returns the rows and events of an audit bundle (the inverse of `bundle`), without columns that no bundle has.

    Raises KeyError, TypeError and ValueError if the document is not an audit bundle. Checks no digest and no hash.
    """
    if document["format"] != FORMAT:
        raise ValueError(f"the audit bundle has format {document['format']!r}, not {FORMAT}")
    steps = tuple(decode_row(Step, each) for each in document["steps"])
    return Record(decode_row(Job, document["job"]), steps), [decode_row(Event, each) for each in document["events"]]
