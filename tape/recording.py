"""A tape: the jobs of an audit bundle in order of creation, with replies of services and requests of callers.

Each job has its JOB and STEP columns and its EVENT rows, as `GET /v1/jobs/{id}/audit` returns them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from lucius_verify.bundle import Bundle
from lucius_verify.faults import Unreadable
from lucius_verify.histories import History
from lucius_verify.signed_heads import SignedHeads
from lucius_verify.statements import Keys
from shared.core.jobs.history import REPLY_EVENTS, EventType
from shared.core.jobs.occurrences import ControlKind

Row = Mapping[str, Any]
#: (step id, attempt number)
Attempt = tuple[str, int]

#: maximum jobs of a tape, which are in memory together
MAX_JOBS = 10_000
#: events that start an attempt; its replies are timed relative to them
_SENT = frozenset({EventType.ATTEMPT_RECORDED, EventType.LEASE_RENEWED})
_CONTROLS = {
    EventType.CANCEL_REQUESTED: ControlKind.CANCEL,
    EventType.PAUSE_REQUESTED: ControlKind.PAUSE,
    EventType.RESUME_REQUESTED: ControlKind.RESUME,
}


class TapeError(Exception):
    """The tape cannot be played. The message is the reason."""


def read_histories(path: Path) -> Iterator[History]:
    """Reads the jobs of an audit bundle within the limits of `lucius-verify`. Raises TapeError if the bundle is
    unreadable.
    """
    try:
        yield from Bundle(path, SignedHeads(Keys(()))).histories()
    except (OSError, Unreadable) as wrong:
        raise TapeError(f"cannot read the audit bundle {path}: {wrong}") from None


@dataclass(frozen=True)
class RecordedReply:
    """A reply of a service, as its EVENT row recorded it."""

    #: fields of the message, without ids and lease
    body: dict[str, Any]
    step_id: str
    #: attempt number in the reply
    attempt_no: int
    #: the attempt that it replies to, by its lease or else by its number; None means no attempt of the job
    follows: Attempt | None
    #: `True` if the reply had the lease of that attempt
    has_lease: bool
    #: time when that attempt was sent; without an attempt the same as `at`
    sent_at: datetime
    at: datetime


@dataclass(frozen=True)
class RecordedJob:
    """One job of the tape."""

    #: number of the job in the order of creation, from 1
    place: int
    job: Row
    steps: Sequence[Row]
    events: Sequence[Row]

    @property
    def job_id(self) -> str:
        return str(self.job["job_id"])

    @property
    def starts_at(self) -> datetime:
        """Returns the time of submission. For a job that waited for a quota and has no dependencies, this is the time
        of the admission. For any other job, this is the time of the creation.

        A job with dependencies waits for them here too.
        """
        admitted_at = self.job.get("admitted_at") if not self.dependencies else None
        return instant(admitted_at or self.job["created_at"])

    @property
    def has_ended(self) -> bool:
        return self.job.get("completed_at") is not None

    @property
    def was_never_admitted(self) -> bool:
        return self.job.get("staged_at") is not None and self.job.get("admitted_at") is None and not self.dependencies

    @property
    def dependencies(self) -> Sequence[str]:
        return self.job.get("dependencies") or ()

    @property
    def needs(self) -> Sequence[str]:
        """Returns the jobs that this job redrives, replays or waits for."""
        origin = self.job.get("redrive_of") or self.job.get("replay_of")
        return (*self.dependencies, origin) if origin else self.dependencies

    def count(self, type_: EventType, attempt: Attempt) -> int:
        return sum(each["type"] == type_ and attempt_of(each) == attempt for each in self.events)

    @cached_property
    def attempts(self) -> dict[Attempt, datetime]:
        """Returns the time when each attempt was last sent."""
        return {attempt_of(each): instant(each["at"]) for each in self.events if each["type"] in _SENT}

    @cached_property
    def replies(self) -> tuple[RecordedReply, ...]:
        """Returns every reply that left an EVENT row, in order. Late, stale and repeated replies are included."""
        return tuple(self._replies())

    @cached_property
    def controls(self) -> tuple[tuple[datetime, ControlKind, Row], ...]:
        """Returns the controls that callers requested, with the EVENT rows."""
        return tuple(
            (instant(each["at"]), _CONTROLS[EventType(each["type"])], each)
            for each in self.events
            if each["type"] in _CONTROLS and each["source"] in ("http", "bulk")
        )

    def _replies(self) -> Iterator[RecordedReply]:
        leases = {each["lease_digest"]: attempt_of(each) for each in self.events if each["type"] in _SENT}
        sent: dict[Attempt, datetime] = {}
        for event in self.events:
            if event["type"] in _SENT:
                sent[attempt_of(event)] = instant(event["at"])
            is_reply = event["type"] in REPLY_EVENTS or event["type"] == EventType.REPLY_IGNORED
            if not is_reply:
                continue
            owner, at = leases.get(event["lease_digest"]), instant(event["at"])
            named = attempt_of(event) if attempt_of(event) in sent else None
            follows = owner if owner in sent else named
            sent_at = sent[follows] if follows is not None else at
            yield RecordedReply(
                _reply_body(event), event["step_id"], event["attempt_no"], follows, owner is not None, sent_at, at
            )


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def record(histories: Iterable[History]) -> list[RecordedJob]:
    """Returns the jobs in the order of their creation. Raises TapeError if the bundle withholds content, or has no jobs
    or more than MAX_JOBS.
    """
    found: list[History] = []
    for history in histories:
        if history.withheld or any("data" not in event for event in history.events):
            raise TapeError(
                "the bundle withholds content, such as payloads; export the bundle again with --with-content"
            )
        if len(found) == MAX_JOBS:
            raise TapeError(f"the bundle has more than {MAX_JOBS} jobs; export a shorter window")
        found.append(history)
    if not found:
        raise TapeError("the bundle has no jobs")
    found.sort(key=lambda each: (each.job["created_at"], each.job["job_id"]))
    return [RecordedJob(place, each.job, each.steps, each.events) for place, each in enumerate(found, start=1)]


def attempt_of(event: Row) -> Attempt:
    return event["step_id"], event["attempt_no"]


def _reply_body(event: Row) -> dict[str, Any]:
    """Returns the message that led to the event."""
    data = event["data"] or {}
    if event["type"] == EventType.REPLY_IGNORED:
        content = {name: value for name, value in data.items() if name not in ("reply", "result", "sent_at")}
        body = {"type": data["reply"], "status": data.get("result"), **content}
    else:
        columns = data.get("changes", {}).get("steps", {}).get(event["step_id"], {})
        body = {"type": event["type"], "status": data.get("result"), "error": data.get("error")}
        body |= {"result_ref": columns.get("result_ref"), "progress": columns.get("progress")}
        body |= columns.get("result") or {}
        body |= {name: data[name] for name in ("note", "worker_id", "task_runner_id") if name in data}
    return {name: value for name, value in body.items() if value is not None}
