"""Operations over the memory ledger, with a clock that a test moves, and ports that can fail."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.adapters.memory_tables import MemoryTexts
from shared.contracts.messages import Directive
from shared.core.jobs.backlog import MAX_SHOWN, LaneLook
from shared.core.jobs.directive import message_id
from shared.core.jobs.job import Record
from shared.core.jobs.verdict import NOTHING_SHOWN, Shown
from shared.errors import BusUnavailable, InstanceNotFound, PublishUnavailable
from shared.operations.jobs.ending import follow_end
from shared.operations.process.context import Context
from shared.operations.process.parts import Bus
from shared.ports.durable import Instance, InstanceState
from shared.settings import load
from tests.jobs import START, registry
from tests.memory_bus import MemoryAdmissionCalls, MemoryDeadReplies, NoCounts
from tests.memory_stores import (
    MemoryAllocations,
    MemoryAnswers,
    MemoryBulks,
    MemoryIndex,
    MemoryLedger,
    MemoryMinutes,
    MemoryRejected,
    MemorySweepMark,
    MemoryUsage,
)


class StillClock:
    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


@dataclass
class RecordingPublisher:
    sent: list[Directive] = field(default_factory=list)
    lives_s: list[float | None] = field(default_factory=list)
    failing: bool = False

    async def publish(self, directive: Directive, *, time_to_live_s: float | None) -> None:
        if self.failing:
            raise PublishUnavailable("the bus is away")
        self.sent.append(directive)
        self.lives_s.append(time_to_live_s)

    @property
    def message_ids(self) -> list[str]:
        return [message_id(directive.jobId, directive.stepId, directive.attempt_no) for directive in self.sent]


@dataclass
class RecordingOrchestrations:
    started: list[str] = field(default_factory=list)
    raised: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    unknown: bool = False
    #: state of each instance in the engine; started ones are alive
    states: dict[str, InstanceState] = field(default_factory=dict)
    #: custom status of each instance, unless it never ran
    shown: dict[str, Shown] = field(default_factory=dict)
    #: instance ids, in order
    purged: list[str] = field(default_factory=list)
    terminated: list[str] = field(default_factory=list)

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        self.started.append(instance_id)
        self.states.setdefault(instance_id, InstanceState.ALIVE)

    async def look_up(self, instance_id: str) -> Instance:
        state = self.states.get(instance_id, InstanceState.NOT_FOUND)
        return Instance(state, self.shown.get(instance_id, NOTHING_SHOWN))

    async def terminate(self, instance_id: str, reason: str) -> None:
        self.terminated.append(instance_id)

    async def purge(self, instance_id: str) -> bool:
        if self.states.get(instance_id) is InstanceState.ALIVE:
            return False
        self.purged.append(instance_id)
        return True

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        if self.unknown:
            raise InstanceNotFound(instance_id)
        self.raised.append((name, data))


@dataclass
class QuietLanes:
    """Nothing waits, unless a test sets it."""

    waiting_replies: list[tuple[str, datetime]] = field(default_factory=list)
    waiting_directives: list[tuple[str, datetime]] = field(default_factory=list)
    #: `since` of each call
    asked_since: list[datetime] = field(default_factory=list)

    away: bool = False

    async def replies(self, lane: int, *, since: datetime) -> LaneLook:
        if self.away:
            raise BusUnavailable("the bus is away")
        return self._look(since, self.waiting_replies)

    async def directives(self, lane: int, service: str, *, since: datetime) -> LaneLook:
        if self.away:
            raise BusUnavailable("the bus is away")
        self.asked_since.append(since)
        return self._look(since, self.waiting_directives)

    def _look(self, since: datetime, lying: list[tuple[str, datetime]]) -> LaneLook:
        return LaneLook(since, lying[:MAX_SHOWN], is_all=len(lying) <= MAX_SHOWN)


@dataclass
class World:
    """One context and its dependencies."""

    context: Context
    ledger: MemoryLedger
    index: MemoryIndex
    rejected: MemoryRejected
    publisher: RecordingPublisher
    orchestrations: RecordingOrchestrations
    clock: StillClock
    lanes: QuietLanes
    dead_replies: MemoryDeadReplies
    archive: MemoryTexts

    async def job(self, job_id: str) -> Record:
        stored = await self.ledger.read(job_id)
        assert stored is not None
        return stored.record


@pytest.fixture
def world() -> World:
    return built(MemoryLedger())


def _attempts(ledger: MemoryLedger) -> int:
    return sum(stored.record.job.attempts_total for stored in getattr(ledger, "jobs", {}).values())


def built(ledger: MemoryLedger) -> World:
    index, rejected = MemoryIndex(), MemoryRejected()
    publisher, clock, lanes = RecordingPublisher(), StillClock(), QuietLanes()
    dead_replies, archive = MemoryDeadReplies(), MemoryTexts()
    numbers = itertools.count(1)

    async def no_sleep(seconds: float) -> None:
        return None

    context = Context(
        settings=load(
            {
                "LUCIUS_STORAGE_BACKEND": "memory",
                "LUCIUS_AUTH_MODE": "none",
                "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
            }
        ),
        registry=registry(),
        ledger=ledger,
        index=index,
        admissions=index.admissions,
        bulks=MemoryBulks(),
        incidents=index.incidents,
        rejected=rejected,
        archive=archive,
        allocations=MemoryAllocations(),
        usage=MemoryUsage(),
        answers=MemoryAnswers(),
        sweep_marks=MemorySweepMark(),
        minutes=MemoryMinutes(),
        bus=Bus(
            publisher=publisher,
            lanes=lanes,
            admission_calls=MemoryAdmissionCalls(),
            dead_replies=dead_replies,
            counts=NoCounts(),
        ),
        follow_end=follow_end,
        clock=clock,
        sleep=no_sleep,
        random=lambda: 0.5,
        new_job_id=lambda: f"job_{next(numbers)}",
        # so that two orders of the same work can lead to equal rows
        new_lease=lambda: f"lease {_attempts(ledger)}",
        new_salt=lambda: "",
    )
    return World(
        context, ledger, index, rejected, publisher, RecordingOrchestrations(), clock, lanes, dead_replies, archive
    )
