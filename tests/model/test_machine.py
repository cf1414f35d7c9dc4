"""Random jobs, random occurrences, random times: the core against the reference model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

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
    Redriven,
    RenewLease,
    Repaired,
    ReplyArrived,
    TimePassed,
)
from shared.core.jobs.states import JobStatus
from tests.jobs import next_attempt, recorded, reply
from tests.model.differential import Pair
from tests.model.steps import Rules

_seconds = st.floats(min_value=1, max_value=4000, allow_nan=False).map(lambda seconds: round(seconds, 3))
#: as a protocol may name them
_lease_seconds = st.floats(min_value=15, max_value=4000, allow_nan=False).map(lambda seconds: round(seconds, 3))
_waits = st.lists(_seconds, min_size=1, max_size=3).map(tuple)
_rules = st.builds(
    Rules,
    ack_timeout=_seconds,
    lease=_lease_seconds,
    cadence=st.none() | _lease_seconds,
    max_attempts=st.integers(1, 4),
    dispatch_waits=_waits,
    ack_waits=_waits,
    execution_waits=_waits,
    total=st.none() | _seconds,
    attempt_max=st.none() | _seconds,
)
_total = st.none() | st.none() | _seconds
#: of three steps: one after another, all side by side, or two of them
_GROUPS = ((None, None, None), (0, 0, 0), (None, 0, 0), (0, 0, None))
_initial = st.sampled_from([JobStatus.QUEUED, JobStatus.QUEUED, JobStatus.THROTTLED, JobStatus.WAITING_FOR_JOBS])
_expires = st.sampled_from([None, None, 0.0, 100.0])
_which = st.integers(0, 2)
_results = st.sampled_from(["SUCCEEDED", "SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"])


class JobMachine(RuleBasedStateMachine):
    """`Pair` compares and checks after every occurrence; the rules here only choose."""

    @initialize(
        rules=st.lists(_rules, min_size=1, max_size=3),
        groups=st.sampled_from(_GROUPS),
        total=_total,
        initial_status=_initial,
        expires=_expires,
    )
    def posted(
        self,
        rules: list[Rules],
        groups: tuple[int | None, ...],
        total: float | None,
        initial_status: JobStatus,
        expires: float | None,
    ) -> None:
        if len(rules) == len(groups):
            rules = [replace(rule, group=group) for rule, group in zip(rules, groups, strict=True)]
        self.pair = Pair.of(tuple(rules), total, initial_status=initial_status, expires=expires)

    def _step(self, which: int) -> str:
        steps = self.pair.record.steps
        return steps[min(which, len(steps) - 1)].step_id

    def _current(self, which: int = 0) -> str:
        """A step that the job is about; `which` of those side by side."""
        record = self.pair.record
        group = record.group_of(next((step for step in record.steps if not step.status.terminal), record.steps[-1]))
        return group[which % len(group)].step_id

    def _attempt(self, step_id: str, back: int) -> int:
        step = self.pair.record.step(step_id)
        assert step is not None
        return max(step.attempt_no - back, 0)

    # --- time

    @rule(seconds=_seconds)
    def time_passes(self, seconds: float) -> None:
        self.pair.now = round(self.pair.now + seconds, 3)

    @rule(which=st.integers(0, 5), off=st.sampled_from([-0.001, 0.0, 0.001]))
    def time_comes_to_a_deadline(self, which: int, off: float) -> None:
        """To the millisecond: just before it, at it, just after it."""
        model = self.pair.model
        ends = [step.lease_ends for step in model.steps] + [step.wait_ends for step in model.steps]
        ahead = sorted(end for end in ends if end is not None and end + off > self.pair.now)
        if ahead:
            self.pair.now = ahead[min(which, len(ahead) - 1)] + off

    # --- actions of the job's own functions

    @rule(which=_which)
    def dispatched(self, which: int) -> None:
        self.pair.occurs(recorded(self.pair.record, self._current(which)))

    @rule(which=_which)
    def dispatched_out_of_turn(self, which: int) -> None:
        self.pair.occurs(recorded(self.pair.record, self._step(which)))

    @rule(which=_which, back=st.integers(0, 1))
    def renewed(self, which: int, back: int) -> None:
        step_id = self._current(which)
        self.pair.occurs(RenewLease(step_id, self._attempt(step_id, back)))

    @rule(which=_which, back=st.sampled_from([0, 0, 0, 1]))
    def bus_did_not_take_it(self, which: int, back: int) -> None:
        step_id = self._current(which)
        self.pair.occurs(PublishFailed(step_id, self._attempt(step_id, back), "the bus is away"))

    @rule(which=_which, back=st.sampled_from([0, 0, 0, 1]))
    def timer_fired(self, which: int, back: int) -> None:
        step_id = self._current(which)
        self.pair.occurs(DeadlinePassed(step_id, self._attempt(step_id, back)))

    @rule(which=_which)
    def lane_is_full(self, which: int) -> None:
        step_id = self._current(which)
        self.pair.occurs(LaneBacklog(step_id, self._attempt(step_id, 0), "unread replies wait on the lane"))

    @rule(which=_which)
    def guard_is_shut(self, which: int) -> None:
        self.pair.occurs(Gated(self._current(which), "service:ocr", "service:ocr is held: it is slow"))

    # --- messages of platform services

    @rule(which=_which, type_=st.sampled_from(["ACK", "HEARTBEAT", "RESULT"]), status=_results, goes_on=st.booleans())
    def service_replies(self, which: int, type_: str, status: str, goes_on: bool) -> None:
        members = {"status": status} if type_ == "RESULT" else {}
        step_id = self._current(which)
        following = next_attempt(self.pair.record, step_id) if goes_on and type_ == "RESULT" else None
        self.pair.occurs(ReplyArrived(reply(self.pair.record, type_, step_id, **members), next_attempt=following))

    @rule(type_=st.sampled_from(["ACK", "HEARTBEAT", "RESULT"]), which=_which)
    def service_replies_for_any_step(self, type_: str, which: int) -> None:
        self.pair.occurs(ReplyArrived(reply(self.pair.record, type_, self._step(which))))

    @rule(
        type_=st.sampled_from(["ACK", "HEARTBEAT", "RESULT"]),
        which=_which,
        lie=st.sampled_from(
            [
                {"attempt_no": 1, "lease_id": "stale"},
                {"attempt_no": 7},
                {"lease_id": "another"},
                {"tenant_id": "tenant_b"},
                {"stepId": "nothing"},
            ]
        ),
    )
    def stranger_replies(self, type_: str, which: int, lie: dict[str, object]) -> None:
        self.pair.occurs(ReplyArrived(reply(self.pair.record, type_, self._step(which), **lie)))

    # --- requests of operators, quotas and the sweeper

    @rule(what=st.sampled_from([Awaited(), DependenciesSettled(), DependencyFailed("job_0"), Expired()]))
    def waits_or_goes_on(self, what: Occurrence) -> None:
        self.pair.occurs(what)

    @rule(pauses_since=st.sampled_from([0, 0, 0, 1]))
    def admitted(self, pauses_since: int) -> None:
        self.pair.occurs(Admitted(park_no=self.pair.record.job.park_no - pauses_since))

    @rule(priority=st.sampled_from(["low", "normal", "high"]))
    def prioritised(self, priority: str) -> None:
        self.pair.occurs(PriorityChanged(priority))

    @rule(which=_which)
    def time_over_is_found(self, which: int) -> None:
        self.pair.occurs(TimePassed(self._current(which)))

    @rule(kind=st.sampled_from([ControlKind.PAUSE, ControlKind.RESUME, ControlKind.RESUME, ControlKind.CANCEL]))
    def controlled(self, kind: ControlKind) -> None:
        self.pair.occurs(Control(kind))

    @precondition(lambda self: self.pair.now > 10)
    @rule(stale=st.booleans(), silent=st.booleans())
    def orchestration_ended(self, stale: bool, silent: bool) -> None:
        job = self.pair.record.job
        self.pair.occurs(OrchestrationEnded(f"{job.job_id}.r9" if stale else job.instance_id, silent))

    @rule(by=st.sampled_from(["job_2", "job_3"]))
    def redriven(self, by: str) -> None:
        self.pair.occurs(Redriven(by))

    @rule()
    def occurred_again(self) -> None:
        self.pair.occurs(Repaired("result:s0:1"))


def run(examples: int, steps: int, *, same_every_time: bool) -> None:
    run_state_machine_as_test(
        JobMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            # a failure is shown as it was found, within seconds; the long run makes it small
            phases=[Phase.generate] if same_every_time else list(Phase),
            derandomize=same_every_time,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_core_and_model_agree() -> None:
    """Core and model agree on any occurrences, in any order, at any time."""
    run(examples=150, steps=40, same_every_time=True)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_core_and_model_agree_for_long() -> None:
    """The same, for longer lives and many more of them."""
    run(examples=10_000, steps=80, same_every_time=False)
