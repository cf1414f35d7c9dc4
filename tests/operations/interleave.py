"""Operations at the same time, in every order: each call of a port is a point where another may go first.

A scenario runs once for each order of its calls, up to a bound on the interruptions of an operation that could continue
(two interruptions find nearly every known race, and orders stay few).
"""

from __future__ import annotations

import asyncio
import contextvars
import itertools
from collections import Counter, defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from shared.operations.process.recent_jobs import RecentJobs
from tests.contexts import changed
from tests.operations.conftest import World, built
from tests.simulation.audit import AuditedLedger

MAX_INTERRUPTIONS = 2

#: ports of the part `bus` of a context
_OF_THE_BUS = frozenset({"publisher", "lanes", "dead_replies"})
_actor: contextvars.ContextVar[str | None] = contextvars.ContextVar("actor", default=None)

Scenario = Callable[["Meeting"], Awaitable[None]]


def every_order(scenario: Scenario, *, interruptions: int = MAX_INTERRUPTIONS, alike: bool = False) -> int:
    """Runs a scenario in every order. Returns the number of orders. Raises the scenario's error with its order.

    `alike`: the works are equal, so the choice of the first one does not matter.
    """
    pending: list[tuple[int, ...]] = [()]
    count = 0
    while pending:
        prefix = pending.pop()
        meeting = Meeting(prefix)
        try:
            asyncio.run(meeting.hold(scenario))
        except BaseException as error:
            error.add_note(f"in the order {' '.join(meeting.order)}")
            raise
        count += 1
        for place in range(max(len(prefix), int(alike)), len(meeting.options)):
            if meeting.interrupted[place] >= interruptions:
                break
            pending += [(*meeting.taken[:place], other) for other in range(1, meeting.options[place])]
    print(f"{count} orders")
    return count


@dataclass
class Ended:
    """The outcome of one of the operations."""

    value: Any = None
    error: Exception | None = None


class Meeting:
    """One world, and operations that run in it in one order."""

    def __init__(self, prefix: tuple[int, ...]) -> None:
        self._prefix = prefix
        self._waiting: dict[str, deque[asyncio.Future[None]]] = defaultdict(deque)
        self.taken: list[int] = []
        #: for each point: the number of works that could continue, and of earlier interruptions
        self.options: list[int] = []
        self.interrupted: list[int] = []
        self.order: list[str] = []
        self.violations: list[str] = []
        #: works that sleep: all others run first
        self._asleep: set[str] = set()
        #: checks the world before every call; a returned text is a violation
        self.watch: Callable[[], str | None] = lambda: None
        #: the work that dies, and the number of the call
        self.killed: tuple[str, int] | None = None
        self._calls: Counter[str] = Counter()
        self.world: World

    async def hold(self, scenario: Scenario) -> None:
        world = built(AuditedLedger(self.violations.append, lambda: self.world.clock.now()))
        self.world = world
        ports = {
            name: self.port(getattr(world.context.bus if name in _OF_THE_BUS else world.context, name))
            for name in (
                "ledger",
                "index",
                "admissions",
                "incidents",
                "allocations",
                "rejected",
                "publisher",
                "lanes",
                "dead_replies",
                "archive",
            )
        }
        # one lane: each sweep reads all
        settings = replace(world.context.settings, lanes=1)
        context = changed(world.context, **ports, sleep=self._sleep, settings=settings)  # type: ignore[arg-type]
        world = replace(world, context=context)
        self.world = replace(world, orchestrations=self.port(world.orchestrations))  # type: ignore[arg-type]
        await scenario(self)
        assert self.violations == [], "\n".join(self.violations)

    def port(self, target: Any) -> Any:
        """Returns `target` with methods that wait for their turn."""
        return _Port(self, target)

    async def at_once(self, **works: Coroutine[Any, Any, Any]) -> dict[str, Ended]:
        """Runs them together; an error of one is its outcome."""
        tasks = {}
        for name, work in works.items():
            context = contextvars.copy_context()
            context.run(_actor.set, name)
            tasks[name] = asyncio.get_running_loop().create_task(_ended(work), context=context)
        last: str | None = None
        interruptions = 0
        while True:
            await _let_run()
            ready = [name for name in works if self._waiting[name]]
            if not ready:
                break
            goes_on = last is not None and last in ready and last not in self._asleep
            ready.sort(key=lambda name: (name in self._asleep, name != last))
            self.interrupted.append(interruptions)
            self.options.append(len(ready))
            place = len(self.taken)
            choice = self._prefix[place] if place < len(self._prefix) else 0
            interruptions += bool(choice) and (goes_on or ready[choice] in self._asleep)
            self._asleep.clear()
            self.taken.append(choice)
            last = ready[choice]
            self.order.append(last)
            # no two calls are at the same instant
            self.world.clock.advance(1e-6)
            self._waiting[last].popleft().set_result(None)
        assert all(task.done() for task in tasks.values()), "one waits for what no port tells"
        return {name: task.result() for name, task in tasks.items()}

    async def pause(self) -> None:
        if (actor := _actor.get()) is not None:
            if (wrong := self.watch()) is not None:
                self.violations.append(f"{wrong}, in the order {' '.join(self.order)}")
            self._calls[actor] += 1
            if self.killed is not None and actor == self.killed[0] and self._calls[actor] >= self.killed[1]:
                raise Killed
            turn = asyncio.get_running_loop().create_future()
            self._waiting[actor].append(turn)
            await turn

    async def _sleep(self, seconds: float) -> None:
        if (actor := _actor.get()) is not None:
            self._asleep.add(actor)
        await self.pause()


class Killed(Exception):
    """The process is killed: none of its later calls takes effect."""


class _Port:
    """Every method call waits for its turn."""

    def __init__(self, meeting: Meeting, target: Any) -> None:
        self._meeting = meeting
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not asyncio.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **fields: Any) -> Any:
            await self._meeting.pause()
            return await found(*args, **fields)

        return call


async def _ended(work: Coroutine[Any, Any, Any]) -> Ended:
    try:
        return Ended(await work)
    except Exception as error:
        return Ended(error=error)


async def _let_run() -> None:
    """Lets each task reach its next point: then the loop has no ready task."""
    ready = asyncio.get_running_loop()._ready  # type: ignore[attr-defined]  # asyncio has no other way to ask
    while ready:  # noqa: ASYNC110  # nobody signals that nothing is left to do
        await asyncio.sleep(0)


Work = Callable[[World], Coroutine[Any, Any, Any]]


def serializable(
    prepare: Callable[[World], Awaitable[None]],
    *works: Work,
    interruptions: int = MAX_INTERRUPTIONS,
    alike: bool = False,
) -> int:
    """Checks that any order of the calls of `works` leaves the same state as one work after another.

    Returns the number of orders; see `every_order`.
    """
    one_by_one = []

    async def alone(meeting: Meeting, turn: tuple[Work, ...]) -> None:
        await prepare(meeting.world)
        for work in turn:
            await meeting.at_once(one=work(meeting.world))
        one_by_one.append(await left(meeting.world))

    for turn in itertools.permutations(works):
        every_order(lambda meeting, turn=turn: alone(meeting, turn), interruptions=0)  # type: ignore[misc]

    async def together(meeting: Meeting, *, apart: bool) -> None:
        await prepare(meeting.world)
        worlds = [process_of(meeting.world) if apart else meeting.world for _ in works]
        await meeting.at_once(
            **{f"{place}": work(world) for place, (work, world) in enumerate(zip(works, worlds, strict=True))}
        )
        found = await left(meeting.world)
        assert found in one_by_one, f"{found} is none of {one_by_one}"

    return sum(
        every_order(
            lambda meeting, apart=apart: together(meeting, apart=apart),  # type: ignore[misc]
            interruptions=interruptions,
            alike=alike,
        )
        for apart in (False, True)
    )


def process_of(world: World) -> World:
    """Returns the world as another process has it: it remembers earlier commits, and none of the others' later ones."""
    recent = RecentJobs()
    recent._kept = dict(world.context.process.recent_jobs._kept)
    return replace(world, context=changed(world.context, recent_jobs=recent))


async def left(world: World) -> dict[str, Any]:
    """Returns the visible state of the world: rows, index, directives; not the number of raised events."""
    jobs = {}
    for job_id, stored in sorted(world.ledger.jobs.items()):
        job = stored.record.job
        steps = [(step.status.value, step.attempt_no, step.retry_cause) for step in stored.record.steps]
        jobs[job_id] = (job.status.value, steps, job.park_no, job.instance_id, job.error_code, job.redriven_by)
    index = world.index
    return {
        "jobs": sorted(jobs.values(), key=str),
        "active": len(index.active),
        "listed": sorted(row.status for row in index.listed),
        "claims": sorted(claim.expires_at is None for claim in index.claims.values()),
        "inside": {tenant: stored.admission.active for tenant, stored in index.admissions.admissions.items()},
        "ended": len(index.ended),
        "directives": sorted({name.split(":", 1)[1] for name in world.publisher.message_ids}),
        "rejected": sorted(message.reason for message in world.rejected.quarantined.values()),
    }
