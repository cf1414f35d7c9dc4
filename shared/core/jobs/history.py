"""EVENT rows: numbered without gaps and hash-chained, in the order of the transitions (R32)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from shared.core.jobs.job import Event, Record, Step
from shared.core.records.canonical import digest, jcs, jcs_digest

#: version of the format of EVENT rows and their hashes; the first event of a job has it
FORMAT = 2
#: version of the rules in `shared.core.jobs.decide`. Raise it with every change in the outcome of the same rows
#: and occurrence, so that a verifier knows the rules of each history
RULES = 1


class EventType(StrEnum):
    """The types of EVENT rows. The log event of a committed row has the same name."""

    JOB_CREATED = "JOB_CREATED"
    JOB_WITHDRAWN = "JOB_WITHDRAWN"
    JOB_REDRIVEN = "JOB_REDRIVEN"
    JOB_REPLAYED = "JOB_REPLAYED"
    ADMITTED = "ADMITTED"
    AWAITED = "AWAITED"
    DEPENDENCIES_SETTLED = "DEPENDENCIES_SETTLED"
    DEPENDENCY_FAILED = "DEPENDENCY_FAILED"
    PRIORITY_CHANGED = "PRIORITY_CHANGED"
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
    GATED = "GATED"
    CANCEL_REQUESTED = "CANCEL_REQUESTED"
    PAUSE_REQUESTED = "PAUSE_REQUESTED"
    RESUME_REQUESTED = "RESUME_REQUESTED"
    ORCHESTRATION_RESTARTED = "ORCHESTRATION_RESTARTED"
    ORCHESTRATION_FAILED = "ORCHESTRATION_FAILED"
    REPAIRED = "REPAIRED"


#: types of EVENT rows of accepted replies
REPLY_EVENTS = frozenset({EventType.ACK, EventType.HEARTBEAT, EventType.RESULT})


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """The cause of a transition: actor, source, and time."""

    #: id of this occurrence, the same for a repeated delivery or a retry
    cause_id: str
    actor: str
    source: str
    at: datetime
    #: salt of the EVENT row; see `shared.core.jobs.job.Event`
    salt: str
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise ValueError("a cause needs a timestamp with a time zone")


@dataclass(frozen=True, kw_only=True)
class Origin:
    """A cause without its time, the same for every retry. Each retry adds its own time."""

    cause_id: str
    actor: str
    source: str
    reason: str | None = None

    def at(self, now: datetime, salt: str) -> Provenance:
        return Provenance(
            cause_id=self.cause_id, actor=self.actor, source=self.source, reason=self.reason, at=now, salt=salt
        )


def append(
    before: Record | None,
    after: Record,
    type_: EventType,
    provenance: Provenance,
    *,
    step: Step | None = None,
    from_status: str | None = None,
    attempt_no: int | None = None,
    lease_digest: str | None = None,
    step_id: str | None = None,
    reason: str | None = None,
    data: Any = None,
) -> tuple[Record, Event]:
    """Adds one event to `after` and updates the head of the history in its JOB row. Returns the record and the event.

    `step` is the step after the transition. `attempt_no` and `lease_digest` replace the step's own values. `step_id`
    applies only without `step`, for a reply that changes no step.
    """
    head = after.job
    values: dict[str, Any] = {
        "job_id": head.job_id,
        "seq": head.event_seq + 1,
        "type": str(type_),
        "step_id": step_id if step is None else step.step_id,
        "attempt_no": attempt_no if attempt_no is not None else (step.attempt_no if step else None),
        "lease_digest": lease_digest if lease_digest is not None else (step.lease_digest if step else None),
        "from_status": from_status,
        "to_status": step.status.value if step else None,
        "job_from": before.job.status.value if before else None,
        "job_to": head.status.value,
        "actor": provenance.actor,
        "source": provenance.source,
        "reason": reason if reason is not None else provenance.reason,
        "at": provenance.at.astimezone(UTC),
        "data": data,
        "salt": provenance.salt,
        "cause_id": provenance.cause_id,
        "rules": RULES,
        "prev_hash": head.event_hash,
    }
    event = Event(**values, hash=event_hash(values))
    return after.with_job(event_seq=event.seq, event_hash=event.hash, updated_at=provenance.at), event


def event_hash(values: dict[str, Any]) -> str:
    """Returns the chain link: SHA-256 over the canonical JSON (RFC 8785) of every field except `hash`, `data` and
    `salt`.

    `data_digest` replaces `data` and `salt`, so a history whose `data` was withheld or erased can still be verified.
    """
    plain = {name: value for name, value in values.items() if name not in ("hash", "data", "salt")}
    plain["at"] = values["at"].astimezone(UTC).isoformat(timespec="microseconds")
    plain["data_digest"] = data_digest(values["salt"], values["data"])
    return jcs_digest(plain)


def data_digest(salt: str, data: Any) -> str:
    """Returns the SHA-256, in hex, over the bytes of `salt` and the canonical JSON (RFC 8785) of `data`."""
    return hashlib.sha256(bytes.fromhex(salt) + jcs(data)).hexdigest()


def lease_digest(lease_id: str) -> str:
    """Returns `sha256:{hex}` of a lease. Readers see this digest, and LUCIUS compares replies by the digest (R5)."""
    return f"sha256:{digest(lease_id)}"
