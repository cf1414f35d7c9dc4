"""EVENT rows: gapless, chained by their hashes, in the order of the transitions (R32)."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from shared.core.canonical import canonical_json, digest
from shared.core.job import Event, Record, Step

#: prev_hash of the first event
GENESIS = ""


class EventType(StrEnum):
    """The types of EVENT rows; the log line of a committed one has the same name."""

    JOB_CREATED = "JOB_CREATED"
    JOB_WITHDRAWN = "JOB_WITHDRAWN"
    JOB_REDRIVEN = "JOB_REDRIVEN"
    ATTEMPT_RECORDED = "ATTEMPT_RECORDED"
    LEASE_RENEWED = "LEASE_RENEWED"
    PUBLISH_FAILED = "PUBLISH_FAILED"
    ACK = "ACK"
    HEARTBEAT = "HEARTBEAT"
    RESULT = "RESULT"
    REPLY_IGNORED = "REPLY_IGNORED"
    ACK_TIMEOUT = "ACK_TIMEOUT"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    TIME_EXCEEDED = "TIME_EXCEEDED"
    LANE_BACKLOG = "LANE_BACKLOG"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    PAUSE_REQUESTED = "PAUSE_REQUESTED"
    RESUME_REQUESTED = "RESUME_REQUESTED"
    ORCHESTRATION_RESTARTED = "ORCHESTRATION_RESTARTED"
    ORCHESTRATION_FAILED = "ORCHESTRATION_FAILED"
    REPAIRED = "REPAIRED"


#: EVENT rows of replies that were taken
REPLY_EVENTS = frozenset({EventType.ACK, EventType.HEARTBEAT, EventType.RESULT})


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Who made a move happen, by what, and when."""

    #: identifies this occurrence, the same when it is delivered or tried again
    cause_id: str
    actor: str
    source: str
    at: datetime
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise ValueError("a cause needs an aware instant")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A cause before its time: the same through every retry, each of which decides at an instant of its own."""

    cause_id: str
    actor: str
    source: str
    reason: str | None = None

    def at(self, now: datetime) -> Provenance:
        return Provenance(cause_id=self.cause_id, actor=self.actor, source=self.source, reason=self.reason, at=now)


def append(
    before: Record | None,
    after: Record,
    type_: EventType,
    provenance: Provenance,
    *,
    step: Step | None = None,
    from_status: str | None = None,
    attempt_no: int | None = None,
    lease_id: str | None = None,
    step_id: str | None = None,
    reason: str | None = None,
    data: Any = None,
) -> tuple[Record, Event]:
    """Adds one event to `after` and moves the head on its JOB; gives both.

    `step` is the step as it is after the move; `attempt_no`, `lease_id` and `step_id` say otherwise where a
    reply spoke of something else.
    """
    head = after.job
    values: dict[str, Any] = {
        "job_id": head.job_id,
        "seq": head.event_seq + 1,
        "type": str(type_),
        "step_id": step_id if step is None else step.step_id,
        "attempt_no": attempt_no if attempt_no is not None else (step.attempt_no if step else None),
        "lease_id": lease_id if lease_id is not None else (step.lease_id if step else None),
        "from_status": from_status,
        "to_status": step.status.value if step else None,
        "job_from": before.job.status.value if before else None,
        "job_to": head.status.value,
        "actor": provenance.actor,
        "source": provenance.source,
        "reason": reason if reason is not None else provenance.reason,
        "at": provenance.at.astimezone(UTC),
        "data": data,
        "cause_id": provenance.cause_id,
        "prev_hash": head.event_hash,
    }
    event = Event(**values, hash=event_hash(values))
    return after.with_job(event_seq=event.seq, event_hash=event.hash, updated_at=provenance.at), event


def event_hash(values: dict[str, Any]) -> str:
    """The chain link: SHA-256 over the canonical JSON of every field but `hash` itself."""
    plain = {name: value for name, value in values.items() if name != "hash"}
    plain["at"] = values["at"].astimezone(UTC).isoformat(timespec="microseconds")
    return digest(canonical_json(plain))


def verify(events: list[Event]) -> None:
    """Raises ValueError at the first event that breaks the sequence or the chain."""
    previous = GENESIS
    for expected, event in enumerate(events, start=1):
        values = {field.name: getattr(event, field.name) for field in fields(Event)}
        if event.seq != expected:
            raise ValueError(f"event {expected} is missing")
        if event.prev_hash != previous or event.hash != event_hash(values):
            raise ValueError(f"event {event.seq} breaks the hash chain")
        previous = event.hash
