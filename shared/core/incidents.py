"""Incidents: conditions that need an operator, and their results (R63, R64)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from shared.core.jobs.job import Job
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus
from shared.core.records.canonical import digest
from shared.core.records.chained_log import Entry, chain_entry

#: reasons for which a failed job opens an incident, if its protocol has no `escalate`
ESCALATED: tuple[str, ...] = (Reason.ATTEMPTS_EXHAUSTED, Reason.ORCHESTRATION_FAILED)
#: maximum length of `detail`; the job has the whole message
MAX_DETAIL = 1000

#: actor if LUCIUS itself opens or closes an incident
SYSTEM = "system"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_A_JOB = "inc_"
_OF_NO_JOB = re.compile(r"inc_(\d{13})_[0-9a-f]{16}")


class IncidentKind(StrEnum):
    """The kind of an incident, which decides the meaning of `subject`."""

    JOB = "JOB"
    """A job that failed permanently, by its id."""
    BREAKER = "BREAKER"
    """A breaker that opened, by the id of its quota."""
    SERVICE = "SERVICE"
    """A platform service that sends no reply, by its name."""
    ROW = "ROW"
    """A stored row that LUCIUS cannot read or act on, by its key."""


class IncidentState(StrEnum):
    """The state of an incident: OPEN until a caller closes the incident, or until the cause of the incident ends.
    The other states are final.
    """

    OPEN = "OPEN"
    RESOLVED = "RESOLVED"
    """A caller resolved the incident, or the cause of the incident ended."""
    RETRIED = "RETRIED"
    """Another job redrives the failed job."""
    DISMISSED = "DISMISSED"
    """A caller dismissed the incident."""


@dataclass(frozen=True, kw_only=True)
class Incident:
    """An INCIDENT row."""

    id: str
    kind: IncidentKind
    subject: str
    #: normalised tenant id; None if the incident belongs to no tenant
    tenant: str | None
    #: job type of the job or of the breaker; None if it is about neither
    request_type: str | None
    code: str
    detail: str | None
    state: IncidentState = IncidentState.OPEN
    opened_at: datetime
    settled_at: datetime | None = None
    settled_by: str | None = None
    reason: str | None = None
    #: id of the job that replaces the failed one
    retried_by: str | None = None
    #: number and hash of the last entry of its log
    log_seq: int = 0
    log_hash: str = ""

    @property
    def is_open(self) -> bool:
        return self.state is IncidentState.OPEN

    @property
    def home(self) -> str | None:
        """Returns the tenant whose partition has the incident, or None for incidents without a job."""
        return self.tenant if self.kind is IncidentKind.JOB else None


@dataclass(frozen=True, kw_only=True)
class IncidentEntry(Entry):
    """An INCIDENTLOG row. Its `data` is `{"before": ..., "after": ...}` with two states, and `retried_by` for a
    redrive.
    """

    incident_id: str


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """The closing of an open incident: final state, actor and reason."""

    state: IncidentState
    actor: str
    reason: str
    at: datetime
    #: id of the new job, for RETRIED
    retried_by: str | None = None


def job_incident_id(job_id: str) -> str:
    """Returns the id of a job's incident. A job has at most one, since it fails permanently only once."""
    return f"{_OF_A_JOB}{job_id}"


def incident_id_of(kind: IncidentKind, subject: str, at: datetime) -> str:
    """Returns the id of an incident without a job, from its kind, subject, and opening time in milliseconds."""
    millis = (at - _EPOCH) // timedelta(milliseconds=1)
    return f"inc_{millis:013d}_{digest(f'{kind}:{subject}')[:16]}"


def find_job_id(incident_id: str) -> str | None:
    """Returns the id of the job whose incident has this id. Returns None if the incident belongs to no job."""
    if find_opening_time(incident_id) is not None or not incident_id.startswith(_OF_A_JOB):
        return None
    return incident_id.removeprefix(_OF_A_JOB)


def find_opening_time(incident_id: str) -> datetime | None:
    """Returns the opening time of an incident without a job, to the millisecond, from its id. Returns None for another
    kind of id.
    """
    found = _OF_NO_JOB.fullmatch(incident_id)
    return _EPOCH + timedelta(milliseconds=int(found[1])) if found is not None else None


def escalates(job: Job) -> bool:
    """Returns `True` if the ended job opens an incident, by the reasons in its protocol. Default: `ESCALATED`."""
    reasons = ESCALATED if job.escalate is None else job.escalate
    return job.status is JobStatus.FAILED_FINAL and job.error_code in reasons


def incident_of(job: Job) -> tuple[Incident, IncidentEntry] | None:
    """Returns the incident that an ended job opens, and its first log entry. Every process that writes the terminal
    state makes the same incident.

    Returns None if the job does not escalate, or if another job already redrives the job.
    """
    if not escalates(job) or job.redriven_by is not None:
        return None
    return _open(
        Incident(
            id=job_incident_id(job.job_id),
            kind=IncidentKind.JOB,
            subject=job.job_id,
            tenant=job.tenant,
            request_type=job.request_type,
            code=job.error_code or "",
            detail=_shorten(job.error_message),
            opened_at=job.completed_at or job.updated_at,
        )
    )


def open_incident(
    kind: IncidentKind,
    subject: str,
    *,
    tenant: str | None,
    request_type: str | None,
    code: str,
    detail: str | None,
    at: datetime,
) -> tuple[Incident, IncidentEntry]:
    """Makes an incident without a job, and its first log entry."""
    return _open(
        Incident(
            id=incident_id_of(kind, subject, at),
            kind=kind,
            subject=subject,
            tenant=tenant,
            request_type=request_type,
            code=code,
            detail=_shorten(detail),
            opened_at=at,
        )
    )


def apply_settlement(incident: Incident, settlement: Settlement) -> tuple[Incident, IncidentEntry] | None:
    """Returns the incident after `settlement`, and its log entry. Returns None if the incident is already closed."""
    if not incident.is_open:
        return None
    after = replace(
        incident,
        state=settlement.state,
        settled_at=settlement.at,
        settled_by=settlement.actor,
        reason=settlement.reason,
        retried_by=settlement.retried_by,
    )
    return _log_change(incident, after, settlement.actor, settlement.reason, settlement.at)


def make_unseen_retry(job: Job) -> Settlement:
    """Makes the `Settlement` of an incident whose job was redriven by a request that did not name the incident."""
    reason = "another job redrives the failed job"
    at, new = job.updated_at, job.redriven_by
    return Settlement(state=IncidentState.RETRIED, actor=SYSTEM, reason=reason, at=at, retried_by=new)


def _open(incident: Incident) -> tuple[Incident, IncidentEntry]:
    return _log_change(None, incident, SYSTEM, incident.code, incident.opened_at)


def _log_change(
    before: Incident | None, after: Incident, actor: str, reason: str, at: datetime
) -> tuple[Incident, IncidentEntry]:
    data: dict[str, Any] = {"before": before.state.value if before is not None else None, "after": after.state.value}
    if after.retried_by is not None:
        data["retried_by"] = after.retried_by
    values = {
        "incident_id": after.id,
        "type": "OPENED" if before is None else after.state.value,
        "actor": actor,
        "reason": reason,
        "at": at,
        "data": data,
    }
    entry = IncidentEntry(**chain_entry(values, seq=after.log_seq, prev_hash=after.log_hash))
    return replace(after, log_seq=entry.seq, log_hash=entry.hash), entry


def _shorten(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 3]}..."
