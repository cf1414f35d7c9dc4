"""Incidents: what went so wrong that a person has to look, and what became of it (R63, R64)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from shared.core.canonical import digest
from shared.core.chained_log import Entry, chained
from shared.core.jobs.job import Job
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus

#: reasons for which a job's end is an incident where its protocol names none
ESCALATED: tuple[str, ...] = (Reason.ATTEMPTS_EXHAUSTED, Reason.ORCHESTRATION_FAILED)
#: characters of `detail`; the job has its whole message
MAX_DETAIL = 1000

#: actor of a settlement without a caller
SYSTEM = "system"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_OF_A_JOB = "inc_"
_OF_NO_JOB = re.compile(r"inc_(\d{13})_[0-9a-f]{16}")


class IncidentKind(StrEnum):
    """What an incident is about; its `subject` names it."""

    JOB = "JOB"
    """A job that failed for good, by its id."""
    BREAKER = "BREAKER"
    """A breaker that opened, by the id of its gate."""
    SERVICE = "SERVICE"
    """A platform service that does not answer, by its name."""
    ROW = "ROW"
    """A stored row that LUCIUS cannot read or act on, by its key."""


class IncidentState(StrEnum):
    """OPEN until an operator acts on it, or its cause ends; then it never changes again."""

    OPEN = "OPEN"
    RESOLVED = "RESOLVED"
    """An operator resolved it, or its cause ended."""
    RETRIED = "RETRIED"
    """Another job took the job's place."""
    DISMISSED = "DISMISSED"
    """An operator dismissed it."""


@dataclass(frozen=True, kw_only=True)
class Incident:
    """An INCIDENT row."""

    id: str
    kind: IncidentKind
    subject: str
    #: normalised; None: it is no tenant's own
    tenant: str | None
    #: the job's, or the one that a breaker is of
    request_type: str | None
    code: str
    detail: str | None
    state: IncidentState = IncidentState.OPEN
    opened_at: datetime
    settled_at: datetime | None = None
    settled_by: str | None = None
    reason: str | None = None
    #: the job that took the place of the failed one
    retried_by: str | None = None
    #: the head of its log
    log_seq: int = 0
    log_hash: str = ""

    @property
    def is_open(self) -> bool:
        return self.state is IncidentState.OPEN

    @property
    def home(self) -> str | None:
        """Returns the tenant in whose partition it is stored. None: in the partition of incidents without a job."""
        return self.tenant if self.kind is IncidentKind.JOB else None


@dataclass(frozen=True, kw_only=True)
class IncidentEntry(Entry):
    """An INCIDENTLOG row; its `data` is `{"before": ..., "after": ...}`, states."""

    incident_id: str


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """The end of an open incident: its state, actor and reason."""

    state: IncidentState
    actor: str
    reason: str
    at: datetime
    #: RETRIED: the new job
    retried_by: str | None = None


def job_incident_id(job_id: str) -> str:
    """Returns the id of a job's incident. A job has at most one, since it fails for good once."""
    return f"{_OF_A_JOB}{job_id}"


def incident_id_of(kind: IncidentKind, subject: str, at: datetime) -> str:
    """Returns the id of an incident without a job that was opened at this time, to the millisecond."""
    millis = (at - _EPOCH) // timedelta(milliseconds=1)
    return f"inc_{millis:013d}_{digest(f'{kind}:{subject}')[:16]}"


def job_of(incident_id: str) -> str | None:
    """Returns the job whose incident has this id. None: it belongs to no job."""
    if opened_of(incident_id) is not None or not incident_id.startswith(_OF_A_JOB):
        return None
    return incident_id.removeprefix(_OF_A_JOB)


def opened_of(incident_id: str) -> datetime | None:
    """Returns when an incident without a job was opened, to the millisecond, by its id only. None: not such an id."""
    found = _OF_NO_JOB.fullmatch(incident_id)
    return _EPOCH + timedelta(milliseconds=int(found[1])) if found is not None else None


def escalates(job: Job) -> bool:
    """Returns whether the job's end opens an incident, by the reasons that its protocol names."""
    reasons = ESCALATED if job.escalate is None else job.escalate
    return job.status is JobStatus.FAILED_FINAL and job.error_code in reasons


def incident_of(job: Job) -> tuple[Incident, IncidentEntry] | None:
    """Returns the incident that a job's end opens. Each process that writes the end makes the same one.

    None: the job did not fail for good, or its end is written after another job has replaced it.
    """
    if not escalates(job) or job.redriven_by is not None:
        return None
    return _opened(
        Incident(
            id=job_incident_id(job.job_id),
            kind=IncidentKind.JOB,
            subject=job.job_id,
            tenant=job.tenant,
            request_type=job.request_type,
            code=job.error_code or "",
            detail=_cut(job.error_message),
            opened_at=job.completed_at or job.updated_at,
        )
    )


def opened(
    kind: IncidentKind,
    subject: str,
    *,
    tenant: str | None,
    request_type: str | None,
    code: str,
    detail: str | None,
    at: datetime,
) -> tuple[Incident, IncidentEntry]:
    """Makes an incident without a job."""
    return _opened(
        Incident(
            id=incident_id_of(kind, subject, at),
            kind=kind,
            subject=subject,
            tenant=tenant,
            request_type=request_type,
            code=code,
            detail=_cut(detail),
            opened_at=at,
        )
    )


def settled(incident: Incident, settlement: Settlement) -> tuple[Incident, IncidentEntry] | None:
    """Returns the incident after `settlement`, and the entry of its log. None: it is no longer open."""
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
    return _logged(incident, after, settlement.actor, settlement.reason, settlement.at)


def retried_unseen(job: Job) -> Settlement:
    """Records the redrive of a job by a caller that did not name its incident."""
    reason = "another job took its place"
    at, new = job.updated_at, job.redriven_by
    return Settlement(state=IncidentState.RETRIED, actor=SYSTEM, reason=reason, at=at, retried_by=new)


def _opened(incident: Incident) -> tuple[Incident, IncidentEntry]:
    return _logged(None, incident, SYSTEM, incident.code, incident.opened_at)


def _logged(
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
    entry = IncidentEntry(**chained(values, seq=after.log_seq, prev_hash=after.log_hash))
    return replace(after, log_seq=entry.seq, log_hash=entry.hash), entry


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_DETAIL else f"{text[: MAX_DETAIL - 3]}..."
