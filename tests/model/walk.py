"""Every state that a small job can reach, and every occurrence in each: by breadth-first search.

Two states are one if no occurrence distinguishes them: clocks count by the deadlines that they have passed, not by
their distance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from unittest import mock

from shared.core.jobs import history
from shared.core.jobs.job import Event
from shared.core.jobs.occurrences import (
    Gated,
    LaneBacklog,
    Occurrence,
    OrchestrationEnded,
    PublishFailed,
    RenewLease,
    ReplyArrived,
)
from shared.core.jobs.states import JobStatus
from tests.model import invariants
from tests.model.differential import Pair
from tests.model.generators import to_a_job
from tests.model.reference import RESTARTS, Model
from tests.model.steps import Rules
from tests.mutation.mutants import Place, watched


@dataclass(frozen=True)
class Shape:
    """A small job: its steps, and the cap on its time."""

    rules: tuple[Rules, ...]
    total: float | None = None
    #: without occurrences that concern one step alone (publishing, heartbeats, backlog), so that several are few enough
    plain: bool = False


#: two steps, two attempts each; the second step's service declares a heartbeat cadence
SEQUENCE = Shape(
    (
        Rules(30, 100, None, 2, dispatch_waits=(30,), ack_waits=(60,), execution_waits=(5,)),
        Rules(30, 100, 20, 2, dispatch_waits=(30,), ack_waits=(60,), execution_waits=(5,)),
    )
)
_SIDE = Rules(30, 100, None, 2, dispatch_waits=(30,), ack_waits=(60,), execution_waits=(5,), group=0)
#: two steps side by side
GROUP = Shape((_SIDE, replace(_SIDE, max_attempts=1)), plain=True)
_CAPPED_STEP = Rules(
    30, 100, None, 2, dispatch_waits=(30,), ack_waits=(60,), execution_waits=(5,), total=150, attempt_max=110
)
#: attempts with a cap, under a cap of the job
CAPPED = Shape((_CAPPED_STEP,), total=140)
#: a step with a cap and attempts with one, then a step under the job's
CAPPED_SEQUENCE = Shape(
    (_CAPPED_STEP, Rules(30, 100, None, 1, dispatch_waits=(30,), ack_waits=(60,), execution_waits=(5,))),
    total=260,
    plain=True,
)
SHAPES = (SEQUENCE, GROUP, CAPPED, CAPPED_SEQUENCE)

#: three steps, three attempts and lists of two
LONG_SEQUENCE = Shape(
    (
        Rules(30, 100, None, 3, dispatch_waits=(30, 120), ack_waits=(60, 300), execution_waits=(5, 30)),
        Rules(30, 100, 20, 3, dispatch_waits=(30,), ack_waits=(60,), execution_waits=(5, 30)),
        Rules(30, 100, None, 2, dispatch_waits=(30,), ack_waits=(60,), execution_waits=(5,)),
    )
)
#: with occurrences that concern one step alone
LONG_CAPPED = replace(CAPPED_SEQUENCE, plain=False)
#: a step, then three side by side
WIDE_GROUP = Shape(
    (
        Rules(30, 100, None, 1, dispatch_waits=(30,), ack_waits=(60,), execution_waits=(5,)),
        _SIDE,
        replace(_SIDE, max_attempts=1),
        replace(_SIDE, max_attempts=1),
    ),
    plain=True,
)


@dataclass(frozen=True)
class Edge:
    """Something that can happen in a reachable state."""

    pair: Pair
    occurrence: Occurrence
    #: the rows of the transition tables that the core read for it
    places: frozenset[Place] = frozenset()
    #: the EVENT rows that it led to
    events: tuple[Event, ...] = ()

    def run(self) -> Pair:
        """The pair afterwards. Raises AssertionError where core and model disagree."""
        return self.outcome()[0]

    def outcome(self) -> tuple[Pair, tuple[Event, ...]]:
        """The pair afterwards, and the EVENT rows of it. Raises AssertionError where core and model disagree."""
        after = self.pair.copy()
        return after, after.occurs(self.occurrence).events


@dataclass(frozen=True)
class Walk:
    """All of it."""

    states: int
    edges: list[Edge]


@cache
def walk(shape: Shape) -> Walk:
    # jobs that begin at once: all that wait for jobs that end at the same time
    first = Pair.of(shape.rules, shape.total, initial_status=JobStatus.WAITING_FOR_JOBS, expires=0)
    seen: dict[Hashable, None] = {key(first, shape): None}
    found: deque[Pair] = deque([first])
    edges: list[Edge] = []
    places: set[Place] = set()
    # a hash takes as long as a decision, and is the same function in every state: `test_machine` has real ones
    unhashed = [mock.patch.object(module, "event_hash", _unhashed) for module in (history, invariants)]
    with watched(places.add), unhashed[0], unhashed[1]:
        while found:
            pair = found.popleft()
            reached = list(_later(pair, shape))
            for edge in _all_that_can_happen(pair, shape):
                places.clear()
                after, events = edge.outcome()
                reached.append(after)
                edges.append(replace(edge, places=frozenset(places), events=events))
            for after in reached:
                if (known := key(after, shape)) not in seen and after.model.restarts == 0:
                    seen[known] = None
                    found.append(after)
    return Walk(len(seen), edges)


def _unhashed(values: dict[str, Any]) -> str:
    return str(values["seq"])


def _all_that_can_happen(pair: Pair, shape: Shape) -> Iterator[Edge]:
    for occurrence in to_a_job(pair.record):
        if not (shape.plain and _concerns_one_step(occurrence)):
            yield Edge(pair, occurrence)
    last = pair.copy()
    last.model.restarts = last.model.failures = RESTARTS
    instance_id = f"{pair.record.job.job_id}.r{RESTARTS}"
    last.record = pair.record.with_job(instance_id=instance_id, orchestration_failures=RESTARTS)
    yield Edge(last, OrchestrationEnded(instance_id))


def _concerns_one_step(occurrence: Occurrence) -> bool:
    if isinstance(occurrence, ReplyArrived):
        return occurrence.reply.type == "HEARTBEAT"
    return isinstance(occurrence, RenewLease | PublishFailed | LaneBacklog | Gated)


def key(pair: Pair, shape: Shape) -> Hashable:
    model, now = pair.model, pair.now
    steps = tuple(_step_key(model, index, now, plain=shape.plain) for index in range(len(model.steps)))
    return (model.status, model.staged, model.dependent, model.acked, model.redriven_by, steps)


def _step_key(model: Model, index: int, now: float, *, plain: bool) -> Hashable:
    step, rules = model.steps[index], model.rules[index]
    if step.status in ("SUCCEEDED", "FAILED_FINAL", "CANCELLED"):
        return step.status
    heard: tuple[bool, ...] = ()
    if step.status == "PROCESSING" and step.lease_ends is not None:
        begun = step.lease_ends - rules.running_lease
        heard = (not plain and now - begun >= rules.heartbeat_every, now >= step.lease_ends)
        heard += (step.lease_ends == step.attempt_ends,)
    elif step.status == "INITIATED" and step.lease_ends is not None:
        heard = (now >= step.lease_ends,)
    if step.backlog_ends is not None:
        heard += (now >= step.backlog_ends,)
    if step.attempt_ends is not None:
        heard += (now >= step.attempt_ends, now + rules.running_lease >= step.attempt_ends)
    # how much of the total time is left, as far as a wait or lease depends on it
    spans = (
        0.0,
        *rules.execution_waits,
        rules.ack_timeout,
        *rules.dispatch_waits,
        *rules.ack_waits,
        rules.running_lease,
    )
    left = tuple(model.time_over(index, now + 1.1 * span) for span in spans)
    waits = None
    if step.wait_ends is not None:
        paused = model.paused_since
        waits = (step.wait_ends <= now, paused is not None and step.wait_ends <= paused)
    return (
        step.status,
        step.attempt,
        step.failed_by,
        step.ack_failures,
        step.execution_failures,
        step.publish_failures,
        heard,
        waits,
        left,
    )


def _later(pair: Pair, shape: Shape) -> Iterator[Pair]:
    """The same job at each instant that makes a difference."""
    for step, rules in zip(pair.model.steps, pair.model.rules, strict=True):
        instants = [step.wait_ends, step.lease_ends, step.backlog_ends, step.attempt_ends]
        instants += [step.deadline, pair.model.deadline]
        if step.status == "PROCESSING" and step.lease_ends is not None and not shape.plain:
            instants.append(step.lease_ends - rules.running_lease + rules.heartbeat_every)
        for instant in instants:
            if instant is not None and instant > pair.now:
                later = pair.copy()
                # a microsecond late, as the core keeps no less
                later.now = round(instant + 1e-6, 6)
                yield later
