"""Compares two histories of a job by type, state, attempt and cause of their events.

Times, ids, leases, digests and texts are not compared, nor are events of LUCIUS's own environment. A tape has no
quotas, dispatch limits, outages or restarts of instances. Parallel steps are compared one by one, because the order of
their events is random.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.jobs.history import EventType
from shared.core.jobs.states import JobStatus

Row = Mapping[str, Any]

#: events that only the recorded environment can repeat; AWAITED and JOB_REPLAYED change no state, and occur when
#: another job is submitted
_ENVIRONMENT = frozenset(
    {
        *(EventType.ADMITTED, EventType.PRIORITY_CHANGED, EventType.GATED, EventType.LEASE_RENEWED, EventType.AWAITED),
        *(EventType.ORCHESTRATION_RESTARTED, EventType.ORCHESTRATION_FAILED, EventType.REPAIRED),
        EventType.JOB_REPLAYED,
    }
)
#: kind of cause by the first part of a cause id
_CAUSES = {
    **dict.fromkeys(("message", "callback"), "reply"),
    **dict.fromkeys(("settle", "sweep", "backlog"), "deadline"),
    **dict.fromkeys(("dispatch", "publish", "renew"), "dispatch"),
    **dict.fromkeys(("request", "bulk"), "caller"),
}


@dataclass(frozen=True)
class Seen:
    """The compared fields of an event."""

    type: str
    step: str | None
    attempt: int | None
    state: str
    cause: str
    reason: str | None

    def __str__(self) -> str:
        step = f" {self.step} attempt {self.attempt}" if self.step is not None else ""
        reason = f" ({self.reason})" if self.reason else ""
        return f"{self.type}{step}: {self.state}, by {self.cause}{reason}"


@dataclass(frozen=True)
class Difference:
    """The first event of a job that differs. `recorded` or `played` is None if that history has ended."""

    place: int
    job_id: str
    request_type: str
    #: time of the recorded event, or of the played event if there is none
    at: str
    #: the last two events of this stream before it
    before: tuple[str, ...]
    recorded: str | None
    played: str | None


def first_difference(
    place: int, job: Row, recorded: Sequence[Row], played: Sequence[Row], end: Row, parallel: Collection[str]
) -> Difference | None:
    """Returns the first difference, or None if the histories are equal. The histories of a job that has not ended are
    compared up to the last recorded event.

    `end` is the JOB row after the played events. `parallel` are the ids of steps that run in groups.
    """
    is_whole = job.get("completed_at") is not None
    found: list[Difference] = []
    streams = _streams(recorded, job, parallel), _streams(played, end, parallel)
    for name in streams[0].keys() | streams[1].keys():
        left, right = (each.get(name, []) for each in streams)
        for number in range(max(len(left), len(right)) if is_whole else len(left)):
            one, other = (each[number] if number < len(each) else None for each in (left, right))
            if one is not None and other is not None and one[1] == other[1]:
                continue
            before = tuple(str(seen) for _, seen in left[max(number - 2, 0) : number])
            sides = [str(each[1]) if each is not None else None for each in (one, other)]
            at = (one or other or ("", None))[0]
            found.append(Difference(place, job["job_id"], job["request_type"], at, before, *sides))
            break
    return min(found, key=lambda each: each.at, default=None)


def compared(events: Iterable[Row]) -> int:
    """Returns the number of events that are compared."""
    return sum(each["type"] not in _ENVIRONMENT for each in events)


def _streams(events: Iterable[Row], job: Row, parallel: Collection[str]) -> dict[str, list[tuple[str, Seen]]]:
    """Returns the events with their times: those of each parallel step, and all others with the end of the job."""
    found: dict[str, list[tuple[str, Seen]]] = defaultdict(list)
    for event in events:
        if event["type"] not in _ENVIRONMENT:
            name = event["step_id"] if event["step_id"] in parallel else ""
            found[name].append((event["at"], _seen(event, with_job=not name)))
    if job.get("completed_at") is not None:
        end = Seen("job ended", None, None, job["status"], job.get("error_code") or "-", None)
        found[""].append((job["completed_at"], end))
    return found


def _seen(event: Row, *, with_job: bool) -> Seen:
    moves = [(event["from_status"], event["to_status"])]
    if with_job:
        moves.append((_admitted(event["job_from"]), _admitted(event["job_to"])))
    state = "; ".join(f"{before or '-'} -> {after}" for before, after in moves if after is not None)
    kind = str(event["cause_id"]).partition(":")[0]
    ignored = event["reason"] if event["type"] == EventType.REPLY_IGNORED else None
    return Seen(event["type"], event["step_id"], event["attempt_no"], state, _CAUSES.get(kind, kind), ignored)


def _admitted(status: str | None) -> str | None:
    """Returns QUEUED for THROTTLED, and any other status unchanged, since a played job waits for no quota."""
    return JobStatus.QUEUED.value if status == JobStatus.THROTTLED.value else status
