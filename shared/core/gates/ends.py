"""Changes of an admission state's breakers by ended jobs and by time, with their log entries (R62)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from shared.core.gates import type_breaker
from shared.core.gates.admission_state import AdmissionState, find_epoch
from shared.core.gates.breaker import Breaker, BreakerState, JobEnd, advance, count_end, encode_breaker, reset
from shared.core.gates.changes import ChangeType, number_epoch
from shared.core.gates.log import LogEntry, append_entry
from shared.core.gates.places import Place, PlaceState
from shared.core.gates.queue_position import count_waiting
from shared.core.gates.rules import Directory, Gate, GateKind, GateState
from shared.core.jobs.job import Job
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import JobStatus

#: `True` if the end is good for its job type, by status and reason. Other ends do not count, such as a final failure
#: that a service reported, a cancellation, or a fault of LUCIUS
GOOD_ENDS: Mapping[tuple[JobStatus, str | None], bool] = {
    (JobStatus.SUCCEEDED, None): True,
    (JobStatus.FAILED_FINAL, Reason.ATTEMPTS_EXHAUSTED): False,
    (JobStatus.FAILED_FINAL, Reason.DISPATCH_FAILED): False,
    (JobStatus.FAILED_FINAL, Reason.TIME_EXCEEDED): False,
}
#: maximum number of log entries by elapsed time in one transaction; the next one writes the rest
MAX_ADVANCED = 4
_LOG_TYPES = {
    BreakerState.OPEN: ChangeType.BREAKER_OPENED,
    BreakerState.HALF_OPEN: ChangeType.BREAKER_HALF_OPEN,
    BreakerState.CLOSED: ChangeType.BREAKER_CLOSED,
}


@dataclass(frozen=True, kw_only=True)
class Freed:
    """A FREED row: an ended job that is still in its tenant's counts (R48).

    The transaction that deletes the job's ACTIVE row, or marks that row as ENDED, creates the FREED row, so the counts
    are never too low. A later write of the tenant's admission state subtracts the job and deletes the FREED row.
    """

    place: Place
    created_at: datetime
    freed_at: datetime
    #: `True` if its ACTIVE row has a place; False: the process that created the job did not know of the quota
    is_placed: bool = True
    #: result of `is_good` for the job's end
    good: bool | None = None

    @property
    def job_id(self) -> str:
        return self.place.candidate.job_id

    def is_counted(self, counted_at: datetime) -> bool:
        """Returns `True` if the counts made at `counted_at` include the job."""
        return self.is_placed or self.created_at <= counted_at


@dataclass(frozen=True)
class RecordedOutcome:
    """An admission state after a job ended, with log entries, opened breakers, and the quota to allocate."""

    admission: AdmissionState
    log: tuple[LogEntry, ...] = ()
    #: quotas whose breaker the end opened
    opened: tuple[GateState, ...] = ()
    #: a quota over all tenants that needs an allocation, which must count the end
    to_allocate: Gate | None = None


def is_good(job: Job) -> bool | None:
    """Returns `True` for a good result of the ended job and `False` for a bad result. Returns None if a breaker does
    not count the job.
    """
    return GOOD_ENDS.get((job.status, job.error_code if job.status is JobStatus.FAILED_FINAL else None))


def record_outcome(
    admission: AdmissionState, directory: Directory, place: Place, now: datetime, *, good: bool | None
) -> RecordedOutcome:
    """Returns the admission state after counting an ended job at the breakers of its type. The job's slot must already
    be released.

    `good` is the result of `is_good`. Only a job that was active is counted.
    """
    gate = Gate(GateKind.TYPE, admission.tenant, place.candidate.job_type)
    state = admission.state(gate)
    rule = directory.find_rule(state)
    if place.state is not PlaceState.ADMITTED or good is None:
        return RecordedOutcome(admission)
    admission, to_allocate = type_breaker.record_end(admission, directory, place, now, good=good)
    if rule is None or rule.breaker is None:
        # a later rule starts with a new breaker
        kept = reset(state.breaker) if state.breaker is not None else None
        if kept is state.breaker:
            return RecordedOutcome(admission, to_allocate=to_allocate)
        kept_state = number_epoch(state, replace(state, breaker=kept), find_epoch(admission, gate.name))
        return RecordedOutcome(admission.with_state(kept_state), to_allocate=to_allocate)
    state, log = change_breaker(state, advance(state.breaker or Breaker(), now), now)
    found = state.breaker or Breaker()
    # an end counts only for the epoch in which the job was admitted
    end = JobEnd(now, found.epoch if place.breaker_epoch >= found.epoch else -1, good)
    after = count_end(found, rule.breaker, end, now, has_waiting=count_waiting(admission, gate) > 0)
    after = number_epoch(state, replace(state, breaker=after), find_epoch(admission, gate.name)).breaker or after
    state, more = change_breaker(state, after, now)
    is_opened = after.epoch != found.epoch
    return RecordedOutcome(admission.with_state(state), (*log, *more), (state,) if is_opened else (), to_allocate)


def advance_breakers(
    admission: AdmissionState, directory: Directory, now: datetime
) -> tuple[AdmissionState, tuple[LogEntry, ...]]:
    """Returns the admission state with its breakers after the elapsed time, and the log entries of changed breakers.

    At most `MAX_ADVANCED` breakers change.
    """
    entries: list[LogEntry] = []
    for state in admission.gates.values():
        rule = directory.find_rule(state) if state.breaker is not None else None
        if state.breaker is None or rule is None or rule.breaker is None or len(entries) >= MAX_ADVANCED:
            continue
        after = advance(state.breaker, now)
        if after.state is not state.breaker.state:
            changed, log = change_breaker(state, after, now)
            admission, entries = admission.with_state(changed), [*entries, *log]
    return admission, tuple(entries)


def change_breaker(state: GateState, after: Breaker, now: datetime) -> tuple[GateState, tuple[LogEntry, ...]]:
    """Returns the quota with this breaker, and a log entry if the state or the epoch changed."""
    before = state.breaker or Breaker()
    state = replace(state, breaker=after)
    if (after.state, after.epoch) == (before.state, before.epoch):
        return state, ()
    state, entry = append_entry(
        state,
        _LOG_TYPES[after.state],
        actor="system",
        reason=_explain_change(before, after),
        at=now,
        data={"before": {"breaker": encode_breaker(before)}, "after": {"breaker": encode_breaker(after)}},
    )
    return state, (entry,)


def _explain_change(before: Breaker, after: Breaker) -> str:
    match after.state:
        case BreakerState.OPEN:
            bad, calls = after.opened_by
            return f"{bad} of {calls} jobs failed"
        case BreakerState.HALF_OPEN:
            return f"the cool-down of {before.cooldown_s} s is over"
        case BreakerState.CLOSED:
            return "jobs succeeded after the breaker opened, or no job ended"
