"""Every (job status, step status, occurrence) has one decided outcome, checked by enumeration.

The states here are constructed, and a real job reaches few of them: the core must decide all, since later versions of
the code read every row once written.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.jobs.decide import apply
from shared.core.jobs.history import Provenance, lease_digest
from shared.core.jobs.job import Job, Record, Step
from shared.core.jobs.occurrences import Occurrence, RecordAttempt, Redriven, Repaired, ReplyArrived
from shared.core.jobs.outcome import Outcome, OutcomeKind
from shared.core.jobs.states import FailureCause, JobStatus, StepStatus
from tests.jobs import START, planned
from tests.model.generators import around_a_step

NOW = START + timedelta(hours=1)
PAST, FUTURE = NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)
CAUSE = Provenance(cause_id="cause-1", actor="test", source="test", at=NOW, salt="")
MAX_ATTEMPTS = 3

#: columns of JOB that an ignored reply can change
HEAD = {"event_seq", "event_hash", "suppressed", "updated_at"}


def step_states(step: Step) -> Iterator[Step]:
    """The step in every status, its clocks before and after now, with attempts left and without."""
    yield step
    settled = (StepStatus.SUCCEEDED, StepStatus.FAILED_FINAL, StepStatus.CANCELLED)
    for attempt_no, status in itertools.product((1, MAX_ATTEMPTS), StepStatus):
        if status is StepStatus.PENDING:
            continue
        begun = replace(
            step,
            status=status,
            attempt_no=attempt_no,
            lease_id=f"lease {attempt_no}",
            lease_digest=lease_digest(f"lease {attempt_no}"),
            workspace_ref={"uri": "https://account.blob.core.windows.net/workspace/x/"},
            # the number of failures that earlier attempts can have caused
            ack_failures=1,
            execution_failures=1,
        )
        if status in settled:
            yield replace(begun, completed_at=PAST)
        elif status is StepStatus.FAILED_RETRY:
            for why, due_at in itertools.product(FailureCause, (PAST, FUTURE)):
                yield replace(begun, retry_cause=why, due_at=due_at)
        else:
            for lease_ends in (PAST, NOW, FUTURE):
                yield replace(begun, lease_expires_at=lease_ends)
            if status is StepStatus.INITIATED:
                for failures, due_at in itertools.product((1, 3), (PAST, FUTURE)):
                    yield replace(
                        begun,
                        publish_failures=failures,
                        due_at=due_at,
                        lease_expires_at=due_at + timedelta(seconds=30),
                    )


def job_states(steps: tuple[Step, ...]) -> Iterator[Record]:
    fresh = planned()
    begun = any(step.attempt_no for step in steps)
    for status, acked in itertools.product(JobStatus, (None, PAST)):
        staged = status in (JobStatus.THROTTLED, JobStatus.WAITING_FOR_JOBS)
        if staged and (begun or acked):
            # impossible: the quotas come before the first attempt
            continue
        paused_at = PAST if status is JobStatus.PAUSED else None
        job = replace(
            fresh.job,
            status=status,
            first_ack_at=acked,
            staged_at=PAST if staged else None,
            paused_at=paused_at,
            drained_at=paused_at,
            park_no=1 if paused_at else 0,
            completed_at=PAST if status.terminal else None,
            attempts_total=sum(step.attempt_no for step in steps),
        )
        yield Record(job, steps)


def records(*, contradictory: bool = False) -> Iterator[tuple[Record, str]]:
    """Yields every job state with every state of its first and of its last step, and that step.

    `contradictory` ones are jobs that ended with a step in flight, kept apart.
    """
    ocr, embedding, sis = planned().steps
    done: dict[str, Any] = {
        "status": StepStatus.SUCCEEDED,
        "attempt_no": 1,
        "lease_id": "lease",
        "lease_digest": lease_digest("lease"),
        "workspace_ref": {"uri": "https://account.blob.core.windows.net/workspace/x/"},
    }
    first, second = replace(ocr, **done), replace(embedding, **done)
    stories = {
        "ocr": [(state, embedding, sis) for state in step_states(ocr)],
        "sis": [(first, second, state) for state in step_states(sis)],
    }
    for step_id, text in stories.items():
        for record in itertools.chain.from_iterable(map(job_states, text)):
            if contradictory is (record.job.status.terminal and record.in_flight):
                yield record, step_id


@dataclass(frozen=True)
class Case:
    """One occurrence in one state, and its outcome."""

    record: Record
    step_id: str
    occurrence: Occurrence
    outcome: Outcome

    def __str__(self) -> str:
        job, step = self.record.job.status, self.record.step(self.step_id)
        return f"job {job}, {step}, {self.occurrence}: {self.outcome.kind} {self.outcome.reason_code}"


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    """Every case there is; that none of them raises is the first thing proved."""
    return [
        Case(record, step_id, occurrence, apply(record, occurrence, CAUSE))
        for record, step_id in records()
        for occurrence in around_a_step(record, step_id)
    ]


def touched(before: Job | Step, after: Job | Step) -> set[str]:
    return {field.name for field in fields(before) if getattr(before, field.name) != getattr(after, field.name)}


def test_every_case_has_one_decided_outcome(cases: list[Case]) -> None:
    """MOVED with one EVENT, or with a RESULT and the next attempt; IGNORED with at most one, REFUSED with none; never
    an exception.
    """
    went_on = 0
    for case in cases:
        before, outcome = case.record, case.outcome
        assert outcome.record.job.event_seq - before.job.event_seq == len(outcome.events), case
        if outcome.kind is OutcomeKind.MOVED:
            is_result = isinstance(case.occurrence, ReplyArrived) and case.occurrence.next_attempt is not None
            if is_result and len(outcome.events) == 2:
                assert [event.type for event in outcome.events] == ["RESULT", "ATTEMPT_RECORDED"], case
                went_on += 1
            else:
                assert len(outcome.events) == 1, case
            assert outcome.reason_code is None, case
        elif outcome.kind is OutcomeKind.REFUSED:
            assert outcome.record is before, case
            assert outcome.reason_code, case
        else:
            assert outcome.reason_code, case
            assert outcome.record.steps == before.steps, case
            assert touched(before.job, outcome.record.job) <= HEAD, case
            assert [event.type for event in outcome.events] in ([], ["REPLY_IGNORED"]), case
    assert {case.outcome.kind for case in cases} == set(OutcomeKind)
    assert went_on
    assert len(cases) > 30_000


def test_terminal_means_terminal(cases: list[Case]) -> None:
    """On an ended job nothing moves: replies, repairs and a redrive become EVENT rows, all else leaves no trace."""
    for case in cases:
        before, after = case.record, case.outcome.record
        if before.job.status.terminal:
            assert after.steps == before.steps, case
            if isinstance(case.occurrence, Redriven):
                # the one thing that an ended job still learns
                allowed = HEAD | {"redriven_by"}
            elif isinstance(case.occurrence, Repaired):
                allowed = HEAD  # the sweeper closed it
            else:
                assert not case.outcome.transitioned, case
                allowed = HEAD if isinstance(case.occurrence, ReplyArrived) else set()
            assert touched(before.job, after.job) <= allowed, case


def test_settled_steps_never_move(cases: list[Case]) -> None:
    """A step that succeeded, failed permanently or was cancelled stays so, with any change of its job."""
    for case in cases:
        for old, new in zip(case.record.steps, case.outcome.record.steps, strict=True):
            assert old == new or not old.status.terminal, case


def test_replies_are_never_refused(cases: list[Case]) -> None:
    """A reply is accepted or ignored, unless it does not belong to the job: then it is quarantined."""
    for case in cases:
        step, occurrence = case.record.step(case.step_id), case.occurrence
        if isinstance(occurrence, ReplyArrived) and step is not None:
            if (occurrence.reply.tenant_id, occurrence.reply.stepId) != (case.record.job.tenant_id, step.step_id):
                continue
            assert case.outcome.kind is not OutcomeKind.REFUSED, case


def test_nothing_starts_but_for_a_job_that_runs(cases: list[Case]) -> None:
    """No attempt begins for a job that is CANCELLING, PAUSING, PAUSED or ended."""
    for case in cases:
        runs = case.record.job.status in (JobStatus.QUEUED, JobStatus.IN_PROGRESS)
        if isinstance(case.occurrence, RecordAttempt) and not runs:
            assert case.outcome.kind is OutcomeKind.REFUSED, case


def test_an_ended_job_with_a_step_in_flight_stands_still() -> None:
    """Rows that contradict each other, which the app never writes, change nothing and raise nothing."""
    for record, step_id in records(contradictory=True):
        for occurrence in around_a_step(record, step_id):
            outcome = apply(record, occurrence, CAUSE)
            if not isinstance(occurrence, Redriven | Repaired):
                assert not outcome.transitioned, Case(record, step_id, occurrence, outcome)


def test_strangers_change_nothing_else(cases: list[Case]) -> None:
    """A reply of another attempt or lease is one EVENT row with its reason, of another tenant or step nothing."""
    for case in cases:
        step = case.record.step(case.step_id)
        if not isinstance(case.occurrence, ReplyArrived) or step is None:
            continue
        text, why = case.occurrence.reply, None
        if text.tenant_id == "tenant_b":
            why = "TENANT_MISMATCH"
        elif text.stepId != step.step_id:
            why = "UNKNOWN_STEP"
        elif (text.attempt_no, lease_digest(text.lease_id)) != (step.attempt_no, step.lease_digest):
            why = "STALE_ATTEMPT"
        if why in ("TENANT_MISMATCH", "UNKNOWN_STEP"):
            assert (case.outcome.kind, case.outcome.reason_code) == (OutcomeKind.REFUSED, why), case
            assert case.outcome.record is case.record, case
        elif why is not None:
            assert (case.outcome.kind, case.outcome.reason_code) == (OutcomeKind.IGNORED, why), case
            [event] = case.outcome.events
            assert (event.type, event.reason, event.job_from) == ("REPLY_IGNORED", why, event.job_to), case


def test_a_later_step_waits_for_the_earlier_ones() -> None:
    """An attempt of a step is refused while a step before it has not succeeded, in any state."""
    ocr, embedding, sis = planned().steps
    for state in step_states(ocr):
        for record in job_states((state, embedding, sis)):
            refused = apply(record, RecordAttempt("embedding", "lease"), CAUSE).kind is OutcomeKind.REFUSED
            runs = record.job.status in (JobStatus.QUEUED, JobStatus.IN_PROGRESS)
            assert refused is not (state.status is StepStatus.SUCCEEDED and runs)


def test_naive_instants_are_turned_away() -> None:
    """A time without a zone is a bug in the app and raises at once."""
    with pytest.raises(ValueError, match="time zone"):
        Provenance(cause_id="c", actor="a", source="s", at=datetime(2026, 1, 27), salt="")  # noqa: DTZ001  # on purpose
