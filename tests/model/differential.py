"""Compares the core with the reference model: both get every occurrence, and they must agree.

After each occurrence the invariants of a job are checked on the outcome of the core alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from shared.contracts.protocol import Backoffs, StepDefinition
from shared.core.jobs.decide import apply
from shared.core.jobs.durable_names import restarts
from shared.core.jobs.history import Provenance, lease_digest
from shared.core.jobs.job import Event, Record, Step
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
    ReplyArrived,
    TimePassed,
)
from shared.core.jobs.outcome import Outcome, OutcomeKind
from shared.core.jobs.plan import compute_digests, plan_job, with_first_event
from shared.core.jobs.retry import JITTER, backoff_s
from shared.core.jobs.routing import decide_lane
from shared.core.jobs.states import JobStatus, StepStatus
from tests.jobs import DEFAULTS, START, envelope, registry
from tests.model import attempts
from tests.model.attempts import IN_FLIGHT
from tests.model.invariants import check_citation, check_link, check_move, fold, rows_of
from tests.model.reference import Model
from tests.model.steps import ModelStep, Rules

#: a longest time that a rule does not name is never met
_FAR = replace(DEFAULTS, attempt_max_s=1e9, total_timeout_s=1e9)

#: the EVENT rows that each answer of the model represents
ROWS = {
    attempts.MOVED: 1,
    attempts.WENT_ON: 2,
    attempts.IGNORED: 1,
    attempts.WAITED: 0,
    attempts.UNHEARD: 0,
    attempts.REFUSED: 0,
}


def stretch(at: int, attempt_no: int) -> float:
    """The jitter of a wait: up to a tenth longer, by a hash of (job, step, attempt), the same for every list."""
    factor = backoff_s((1.0,), 1, job_id="job_1", step_id=f"s{at}", attempt_no=attempt_no)
    assert 1 <= factor <= 1 + JITTER
    return factor


def new_job(
    rules: tuple[Rules, ...],
    total: float | None = None,
    initial_status: JobStatus = JobStatus.QUEUED,
    expires: float | None = None,
) -> tuple[Record, Event]:
    """Returns a job as POST creates it, with a step for each rule, each with its own timings."""
    request = envelope(expires_at=None if expires is None else (START + timedelta(seconds=expires)).isoformat())
    known = registry().find(request.request_type)
    assert known is not None
    numbers = sorted({rule.group for rule in rules if rule.group is not None})
    groups = tuple(tuple(f"s{at}" for at, rule in enumerate(rules) if rule.group == number) for number in numbers)
    definition = known.definition.model_copy(
        update={
            "steps": tuple(_definition(index, rule) for index, rule in enumerate(rules)),
            "parallel": groups,
            "total_timeout_s": total,
        }
    )
    record = plan_job(
        request,
        replace(known, definition=definition),
        decide_lane(request, default_mode="DEFAULT", lanes=16),
        _FAR,
        job_id="job_1",
        created_at=START,
        correlation_id="corr-1",
        workspace_uri="https://account.blob.core.windows.net/workspace",
        initial_status=initial_status,
        dependencies=["job_0"] if initial_status is JobStatus.WAITING_FOR_JOBS else (),
        identity=compute_digests(request),
    )
    return with_first_event(record, "")


def _definition(index: int, rule: Rules) -> StepDefinition:
    return StepDefinition(
        step_id=f"s{index}",
        step_type="OCR",
        service="ocr",
        ack_timeout_s=rule.ack_timeout,
        lease_s=rule.lease,
        heartbeat_cadence_s=rule.cadence,
        max_attempts=rule.max_attempts,
        total_timeout_s=rule.total,
        attempt_max_s=rule.attempt_max,
        backoffs=Backoffs(dispatch=rule.dispatch_waits, ack=rule.ack_waits, execution=rule.execution_waits),
    )


@dataclass
class Pair:
    """One job, twice. `now` is in seconds since its beginning."""

    record: Record
    model: Model
    head: Event
    now: float = 0.0
    #: the rows as the EVENT rows give them: the created rows with every change since
    folded: dict[str, Any] | None = None
    causes: int = 0

    @classmethod
    def of(
        cls,
        rules: tuple[Rules, ...],
        total: float | None = None,
        *,
        initial_status: JobStatus = JobStatus.QUEUED,
        expires: float | None = None,
    ) -> Pair:
        record, event = new_job(rules, total, initial_status, expires)
        model = Model(
            rules,
            stretch,
            total=total,
            staged=initial_status is not JobStatus.QUEUED,
            dependent=initial_status is JobStatus.WAITING_FOR_JOBS,
            expires=expires,
        )
        return cls(record, model, event, folded=rows_of(record))

    def copy(self) -> Pair:
        """A pair to try something with; both rows and values are never changed in place."""
        return replace(self, model=self.model.copy(), folded=None)

    def occurs(self, occurrence: Occurrence) -> Outcome:
        """Raises AssertionError where the two disagree, or where an invariant does not hold."""
        self.now = round(self.now, 6)
        self.causes += 1
        provenance = Provenance(
            cause_id=f"cause-{self.causes}", actor="test", source="test", at=self.at(self.now), salt=""
        )
        before, outcome = self.record, apply(self.record, occurrence, provenance)
        expected = self._model_outcome(occurrence)
        assert (expected, ROWS[expected]) == (_in_models_words(outcome, expected), len(outcome.events)), (
            f"{occurrence} at {self.now}: the core says {outcome.kind} ({outcome.reason_code}) "
            f"with {len(outcome.events)} EVENT rows, the model {expected}"
        )
        self.record = outcome.record
        self._compare()
        self._keeps_invariants(before, outcome)
        return outcome

    def at(self, seconds: float) -> datetime:
        return START + timedelta(seconds=seconds)

    def _model_outcome(self, occurrence: Occurrence) -> str:
        model, now = self.model, self.now
        match occurrence:
            case RecordAttempt(step_id, _):
                return model.attempt_recorded(self._index(step_id), now)
            case RenewLease(step_id, attempt_no):
                return model.lease_renewed(self._index(step_id), attempt_no, now)
            case PublishFailed(step_id, attempt_no, _):
                return model.publish_failed(self._index(step_id), attempt_no, now)
            case DeadlinePassed(step_id, attempt_no):
                return model.deadline_passed(self._index(step_id), attempt_no, now)
            case TimePassed(step_id):
                return model.time_passed(self._index(step_id), now)
            case LaneBacklog(step_id, attempt_no, _):
                return model.lane_backlog(self._index(step_id), attempt_no, now)
            case Gated(step_id):
                return model.gated(self._index(step_id), now)
            case Control(ControlKind.CANCEL):
                return model.cancel(now)
            case Control(ControlKind.PAUSE):
                return model.pause(now)
            case Control(ControlKind.RESUME):
                return model.resume(now)
            case Admitted(_, park_no):
                return model.admitted(now, park_no)
            case Awaited():
                return model.awaits()
            case DependenciesSettled():
                return model.dependencies_settled()
            case DependencyFailed():
                return model.dependency_failed()
            case Expired():
                return model.expired(now)
            case PriorityChanged(priority):
                return model.priority_changed(priority)
            case OrchestrationEnded(instance_id, silent):
                return model.orchestration_ended(restarts(instance_id), silent=silent)
            case Redriven(by):
                return model.redriven(by)
            case Repaired():
                return model.repaired()
            case ReplyArrived(told, _, next_attempt):
                known = any(step.step_id == told.stepId for step in self.record.steps)
                current = self.record.step(told.stepId)
                mine = current is not None and (told.attempt_no, lease_digest(told.lease_id)) == (
                    current.attempt_no,
                    current.lease_digest,
                )
                return model.replied(
                    self._index(told.stepId) if known and told.tenant_id == self.record.job.tenant_id else None,
                    told.type,
                    now,
                    mine=mine,
                    result=told.status,
                    goes_on=next_attempt is not None,
                )
        raise AssertionError(f"the model knows nothing of {occurrence}")

    def _index(self, step_id: str) -> int:
        return next(index for index, step in enumerate(self.record.steps) if step.step_id == step_id)

    def _compare(self) -> None:
        job, model = self.record.job, self.model
        assert (job.status, job.park_no, job.first_ack_at is not None) == (model.status, model.park_no, model.acked)
        assert job.attempts_total == sum(step.attempt for step in model.steps)
        assert (job.paused_at is None, job.drained_at is None) == (model.paused_since is None,) * 2
        assert (restarts(job.instance_id), job.orchestration_failures) == (model.restarts, model.failures)
        assert (job.completed_at is not None, job.redriven_by) == (model.over, model.redriven_by)
        if job.status == "FAILED_FINAL":
            assert job.error_code == model.error
        assert job.suppressed == model.ignored
        assert (job.is_staged, job.is_dependent, job.awaited) == (model.staged, model.dependent, model.awaited)
        assert job.current_priority == model.priority
        assert model.total is None or _seconds(job.deadline_at) == _rounded(model.deadline)
        for real, step in zip(self.record.steps, model.steps, strict=True):
            assert _as_model(real) == _as_compared(step), f"{real.step_id} at {self.now}"

    def _keeps_invariants(self, before: Record, outcome: Outcome) -> None:
        after = outcome.record
        check_move(before, after)
        for event in outcome.events:
            check_link(self.head, event)
            self.head = event
            check_citation(event)
            if self.folded is not None and outcome.transitioned:
                fold(self.folded, event)
        if outcome.transitioned and self.folded is not None:
            assert self.folded == rows_of(after), "folding the events does not give the rows"


def _in_models_words(outcome: Outcome, expected: str) -> str:
    if outcome.kind is OutcomeKind.IGNORED:
        return expected if expected in (attempts.IGNORED, attempts.UNHEARD) else attempts.IGNORED
    if outcome.transitioned:
        return (attempts.WAITED, attempts.MOVED, attempts.WENT_ON)[len(outcome.events)]
    return outcome.kind.value


def _as_model(step: Step) -> tuple[Any, ...]:
    flying, waiting = step.status.in_flight, step.status in (StepStatus.FAILED_RETRY, StepStatus.INITIATED)
    return (
        step.status.value,
        step.attempt_no,
        _seconds(step.lease_expires_at) if flying else None,
        _seconds(step.backlog_until) if flying else None,
        _seconds(step.gated_until) if not (flying or step.status.terminal) else None,
        _seconds(step.due_at) if waiting else None,
        step.retry_cause.value if step.retry_cause and waiting else None,
        step.completed_at is not None,
    )


def _as_compared(step: ModelStep) -> tuple[Any, ...]:
    flying, waiting = step.status in IN_FLIGHT, step.status in ("FAILED_RETRY", "INITIATED")
    return (
        step.status,
        step.attempt,
        _rounded(step.lease_ends) if flying else None,
        _rounded(step.backlog_ends) if flying else None,
        _rounded(step.gated_ends) if step.status in ("PENDING", "FAILED_RETRY") else None,
        _rounded(step.wait_ends) if waiting else None,
        step.failed_by if waiting else None,
        step.status in attempts.SETTLED,
    )


def _seconds(instant: datetime | None) -> float | None:
    return None if instant is None else _rounded((instant - START).total_seconds())


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)
