"""Level 3: executes each event again with the app's own transition function (`shared.core.jobs.decide.apply`).

The verifier begins with the created rows. The verifier reads the occurrence (cause, reply, control, verdicts of quotas,
time, lease) from the event. The computed event must have the same effects (states, counts, due times, changes) in every
column.

A history has the digest of a lease, but not the lease. The verifier executes with placeholders for leases, and replaces
their digests by the digests of the history before the comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, TypeVar

from lucius_verify.faults import Fault
from lucius_verify.histories import History
from lucius_verify.json_rows import Json, Row, canonical
from shared.contracts.messages import RESULT_CONTENT, Reply
from shared.core.jobs.as_of import NOT_FOLDED, decode_value, encode_value, make_creation_data, rebuild_created
from shared.core.jobs.decide import apply
from shared.core.jobs.history import RULES, EventType, Provenance, append, lease_digest
from shared.core.jobs.job import Event, Job, Record, Step
from shared.core.jobs.occurrences import (
    Admitted,
    Awaited,
    Control,
    ControlKind,
    DeadlinePassed,
    DependenciesSettled,
    DependencyFailed,
    Expired,
    Gated,
    LaneBacklog,
    Occurrence,
    OrchestrationEnded,
    PriorityChanged,
    PublishFailed,
    RecordAttempt,
    Redriven,
    RenewLease,
    Repaired,
    Replayed,
    ReplyArrived,
    TimePassed,
)
from shared.core.jobs.redrive import JOB_KEPT, STEP_CARRIED, STEP_KEPT
from shared.core.jobs.replay import NOT_REPLAYED
from shared.core.jobs.states import JobStatus
from shared.core.jobs.transitions import JOB_CREATION

#: columns that a redrive copies from a job, from a step, and from a step that succeeded; and a replay from a job
KEPT = {
    "job": JOB_KEPT - {"priority"},
    "step": STEP_KEPT,
    "carried": STEP_CARRIED,
    "replay": JOB_KEPT - NOT_REPLAYED,
}

_Typed = TypeVar("_Typed", Job, Step, Event)

#: minimum that a deployment can set (`LUCIUS_PROGRESS_SECONDS`)
_LEAST_PROGRESS_S = 5.0
#: columns that a new job can have; each transition can change others
_OF_NEW_JOBS = JOB_KEPT | {
    *("job_id", "instance_id", "status", "idempotency_key", "idempotency_hash", "requested_at", "created_at"),
    *("deadline_at", "staged_at", "total_time_s", "expires_at", "dependencies", "redrive_of", "first_job_id"),
    *("current_step_id", "current_step_index"),
}
_OF_WITHDRAWN = _OF_NEW_JOBS | {"error_code", "error_message", "completed_at"}
_OF_NEW_STEPS = STEP_KEPT | {"status", "created_at"}
_OF_CARRIED_STEPS = _OF_NEW_STEPS | STEP_CARRIED | {"carried"}
#: rows of `JOB_CREATION` that the first event can follow from, by its type
_CREATED_AS = {
    EventType.JOB_CREATED: ("JOB_CREATED", "JOB_STAGED", "JOB_DEPENDENT"),
    EventType.JOB_WITHDRAWN: ("JOB_WITHDRAWN",),
}


def execute(history: History) -> tuple[int, Fault | None]:
    """Executes a job's events again, up to the first withheld event.

    Returns the number of executed events. Also returns the fault of the first event that the rules do not allow or this
    program cannot execute, or None.
    """
    seq = 1
    try:
        events: list[Event] = []
        for seq, row in enumerate(history.events, start=1):
            if "data" not in row:
                break
            if row["rules"] != RULES:
                return seq - 1, history.fault(
                    seq, f"the event follows version {row['rules']} of the rules, and this program has version {RULES}"
                )
            events.append(typed_row(Event, row))
        if not events:
            return 0, None
        seq = 1
        given = Record(
            typed_row(Job, history.job), tuple(typed_row(Step, step, payload=None) for step in history.steps)
        )
        whole = len(events) == len(history.events)
        record = rebuild_created(given, events if whole else [*events, _changing_all(given, events[0])])
        if wrong := _creation(record, events[0], history):
            return 0, history.fault(1, wrong)
        record = record.with_job(event_seq=1, event_hash=events[0].hash, suppressed=0)
        leases = Leases()
        for seq, event in enumerate(events[1:], start=2):
            wrong, record = _next(record, event, leases)
            if wrong:
                return seq - 1, history.fault(seq, wrong)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return seq - 1, history.fault(seq, f"the event cannot be executed again: {type(error).__name__}: {error}")
    return len(events), None


class Leases:
    """Placeholders for leases, of which a history has only the digests."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def of(self, digest: str | None) -> str:
        stand_in = f"stand-in of {digest}"
        if digest is not None:
            self._known[lease_digest(stand_in)] = digest
        return stand_in

    def turned_back(self, event: Row) -> Row:
        """Replaces the digests of the placeholders by the digests of the history. Returns the event as JSON."""
        steps = (event["data"] or {}).get("changes", {}).get("steps", {})
        for columns in (event, *steps.values()):
            if (digest := columns.get("lease_digest")) is not None:
                columns["lease_digest"] = self._known.get(digest, digest)
        return event


def _next(record: Record, event: Event, leases: Leases) -> tuple[str | None, Record]:
    """Returns the reason why the event cannot have happened, or None, and the job after the event."""
    provenance = _provenance(event)
    why = "this program cannot execute an event of this type"
    for occurrence in occurrences(record, event, leases):
        outcome = apply(record, occurrence, provenance)
        if not outcome.events:
            why = f"{event.type} does not change the job in this state: {outcome.reason_code}"
            continue
        found = _difference(leases.turned_back(encode_value(outcome.events[0])), encode_value(event))
        if found is None:
            return None, outcome.record.with_job(event_hash=event.hash)
        why = found
    return why, record


def _provenance(event: Event) -> Provenance:
    return Provenance(
        cause_id=event.cause_id,
        actor=event.actor,
        source=event.source,
        at=event.at,
        salt=event.salt,
        reason=event.reason,
    )


def _difference(computed: Row, given: Row) -> str | None:
    """Returns the first column in which an event differs from the computed event."""
    for name in computed:
        compared = name not in ("hash", "prev_hash", "rules")
        if compared and (place := _differs(computed[name], given[name], name)):
            return place
    return None


def _differs(computed: Json, given: Json, place: str) -> str | None:
    if isinstance(computed, Mapping) and isinstance(given, Mapping):
        for name in sorted({*computed, *given}, key=str):
            if name not in given or name not in computed:
                return f"{place}.{name} is {'missing' if name not in given else 'not the computed value'}"
            if found := _differs(computed[name], given[name], f"{place}.{name}"):
                return found
        return None
    mine, its = canonical(computed), canonical(given)
    return None if mine == its else f"{place} is {its.decode()}, and must be {mine.decode()}"


def _creation(record: Record, event: Event, history: History) -> str | None:
    """Returns the reason why a job cannot be created in this form, or None for a valid creation."""
    kind = EventType(event.type)
    statuses = {JobStatus(JOB_CREATION[each].to) for each in _CREATED_AS.get(kind, ())}
    if record.job.status not in statuses:
        return f"{event.type} cannot create a job that is {record.job.status}"
    allowed = _OF_WITHDRAWN if kind is EventType.JOB_WITHDRAWN else _OF_NEW_JOBS
    if others := _set(record.job) - allowed:
        return f"a new job cannot have {', '.join(sorted(others))}"
    carried = [step.step_id for step in record.steps if step.carried]
    for step in record.steps:
        if others := _set(step) - (_OF_CARRIED_STEPS if step.carried else _OF_NEW_STEPS):
            return f"a new step cannot have {', '.join(sorted(others))}"
        if step.status != ("SUCCEEDED" if step.carried else "PENDING"):
            return f"a new step cannot be {step.status}"
    data = make_creation_data(record)
    if record.job.redrive_of is not None:
        data |= {"redrive_of": record.job.redrive_of, "carried": carried}
    elif carried:
        return "only a redrive can carry steps"
    elif record.job.replay_of is not None:
        data |= {"replay_of": record.job.replay_of}
    if history.withheld:
        # its digest covers the columns that were left out
        data["rows"] = event.data["rows"]
    _, created = append(None, record.with_job(event_seq=0, event_hash=""), kind, _provenance(event), data=data)
    return _difference(encode_value(created), encode_value(event))


def _changing_all(record: Record, first: Event) -> Event:
    """Returns an event to use instead of withheld events, which may have changed every column that no plan fixes."""
    changed = {"status", "instance_id", "current_step_id", "current_step_index", "deadline_at"}
    fixed = (_OF_NEW_JOBS | NOT_FOLDED) - changed
    job = {each.name: None for each in fields(Job) if each.name not in fixed}
    fixed = (_OF_NEW_STEPS | NOT_FOLDED) - {"status"}
    columns = {each.name: None for each in fields(Step) if each.name not in fixed}
    steps = {step.step_id: columns for step in record.steps if not step.carried}
    return replace(first, seq=0, data={"changes": {"job": job, "steps": steps}})


def _set(row: Job | Step) -> set[str]:
    """Returns the columns that differ from the default of a new row. Leaves out columns that no event names."""
    named = (each for each in fields(row) if each.name not in NOT_FOLDED)
    return {each.name for each in named if each.default is MISSING or getattr(row, each.name) != each.default}


def occurrences(record: Record, event: Event, leases: Leases) -> Iterator[Occurrence]:
    """Yields the occurrences that can have led to the event, usually one."""
    make = _MADE_BY.get(EventType(event.type))
    if make is not None:
        yield from make(_EventRow(record, event), leases)


class _EventRow:
    """An event, with its values for the step."""

    def __init__(self, record: Record, event: Event) -> None:
        self.record = record
        self.event = event
        self.data: Mapping[str, Any] = event.data or {}
        self.step_id: str = event.step_id or ""
        self.attempt_no: int = event.attempt_no or 0
        self._changed: Mapping[str, Any] = self.data.get("changes", {}).get("steps", {}).get(self.step_id, {})

    def column(self, name: str) -> Any:
        """Returns a column of the step after the event."""
        return self._changed[name] if name in self._changed else getattr(self.record.step(self.step_id), name)


def _reply(row: _EventRow, leases: Leases) -> Iterator[Occurrence]:
    event, data = row.event, row.data
    ignored = event.type == EventType.REPLY_IGNORED
    kind = data["reply"] if ignored else event.type
    reply: dict[str, Any] = {
        "type": kind,
        "jobId": event.job_id,
        "stepId": event.step_id,
        "attempt_no": event.attempt_no,
        "tenant_id": row.record.job.tenant_id,
        "lease_id": leases.of(event.lease_digest),
        "timestamp": data.get("sent_at"),
        **{name: data[name] for name in ("error", "note", "worker_id", "task_runner_id") if name in data},
    }
    if kind == "RESULT":
        reply["status"] = data.get("result")
        content = data if ignored else row.column("result") or {}
        reply |= {name: content[name] for name in RESULT_CONTENT if name in content}
        reply["result_ref"] = None if ignored else row.column("result_ref")
    elif not ignored:
        reply["progress"] = row.column("progress")
    yield ReplyArrived(Reply.model_validate(reply), _LEAST_PROGRESS_S)


def _time_exceeded(row: _EventRow, leases: Leases) -> Iterator[Occurrence]:
    if row.event.step_id is None:
        yield Expired()
        return
    yield TimePassed(row.step_id)
    yield RecordAttempt(row.step_id, leases.of(None))


_Maker = Callable[[_EventRow, Leases], Iterator[Occurrence]]


def _one(make: Callable[[_EventRow], Occurrence]) -> _Maker:
    def made(row: _EventRow, leases: Leases) -> Iterator[Occurrence]:
        yield make(row)

    return made


def _attempt(row: _EventRow, leases: Leases) -> Iterator[Occurrence]:
    yield RecordAttempt(row.step_id, leases.of(row.event.lease_digest))


_deadline = _one(lambda row: DeadlinePassed(row.step_id, row.attempt_no))
_orchestration = _one(lambda row: OrchestrationEnded(row.record.job.instance_id, row.event.reason == "SILENT"))

#: functions by the type of an event
_MADE_BY: Mapping[EventType, _Maker] = {
    EventType.JOB_REDRIVEN: _one(lambda row: Redriven(row.data["redriven_by"])),
    EventType.JOB_REPLAYED: _one(lambda row: Replayed(row.data["replayed_by"], row.data["mode"])),
    EventType.ADMITTED: _one(lambda row: Admitted(tuple(row.data["gates"]), row.record.job.park_no)),
    EventType.AWAITED: _one(lambda row: Awaited()),
    EventType.DEPENDENCIES_SETTLED: _one(lambda row: DependenciesSettled()),
    EventType.DEPENDENCY_FAILED: _one(lambda row: DependencyFailed(row.data["job_id"])),
    EventType.PRIORITY_CHANGED: _one(lambda row: PriorityChanged(row.data["to"])),
    EventType.ATTEMPT_RECORDED: _attempt,
    EventType.LEASE_RENEWED: _one(lambda row: RenewLease(row.step_id, row.attempt_no)),
    EventType.PUBLISH_FAILED: _one(
        lambda row: PublishFailed(row.step_id, row.attempt_no, row.column("last_error_message"))
    ),
    EventType.ACK: _reply,
    EventType.HEARTBEAT: _reply,
    EventType.RESULT: _reply,
    EventType.REPLY_IGNORED: _reply,
    EventType.ACK_TIMEOUT: _deadline,
    EventType.LEASE_EXPIRED: _deadline,
    EventType.TIME_EXCEEDED: _time_exceeded,
    EventType.LANE_BACKLOG: _one(lambda row: LaneBacklog(row.step_id, row.attempt_no, row.event.reason or "")),
    EventType.GATED: _one(lambda row: Gated(row.step_id, "", row.event.reason or "")),
    EventType.CANCEL_REQUESTED: _one(lambda row: Control(ControlKind.CANCEL)),
    EventType.PAUSE_REQUESTED: _one(lambda row: Control(ControlKind.PAUSE)),
    EventType.RESUME_REQUESTED: _one(lambda row: Control(ControlKind.RESUME)),
    EventType.ORCHESTRATION_RESTARTED: _orchestration,
    EventType.ORCHESTRATION_FAILED: _orchestration,
    EventType.REPAIRED: _one(
        lambda row: Repaired(row.event.reason or "", row.data.get("before"), row.data.get("after"))
    ),
}


def executable() -> set[EventType]:
    """Returns the types of events that level 3 executes."""
    return set(_MADE_BY)


def typed_row(row: type[_Typed], given: Row, **absent: Any) -> _Typed:
    """Makes a row from its JSON, without columns of a later release. `absent` has the columns that the export
    withheld.
    """
    known = {field.name for field in fields(row)}
    return row(**absent | {name: decode_value(row, name, each) for name, each in given.items() if name in known})
