"""Actions of operators, services and functions on one job, as operations that can run concurrently, and the job's state
before.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.jobs.settle_step import settle_step
from shared.operations.sweeper.sweep import sweep
from tests.jobs import envelope, reply
from tests.operations.conftest import World
from tests.operations.interleave import Work
from tests.operations.support import arrives, dispatch, service_sends, submitted

JOB = "job_2"  # the number 1 goes to the check before it
ONE = {"request_type": "OCR", "payload": {}}


def posts(**changes: Any) -> Work:
    return lambda world: create_job(world.context, world.orchestrations, envelope(**ONE | changes), correlation_id=None)


def asks(kind: ControlKind, request: str = "1", job_id: str = JOB) -> Work:
    origin = Origin(cause_id=f"request:{kind}:{request}", actor="operator", source="http")
    return lambda world: control_job(world.context, world.orchestrations, job_id, kind, origin)


def sends(type_: str, number: int = 1, step_id: str = "ocr", **fields: Any) -> Work:
    async def work(world: World) -> None:
        message = reply(await world.job(JOB), type_, step_id, **fields)
        await arrives(world, message.model_dump_json(exclude_none=True).encode(), number)

    return work


def dispatches(step_id: str = "ocr") -> Work:
    return lambda world: dispatch_step(
        world.context, world.orchestrations, job_id=JOB, instance_id=JOB, step_id=step_id
    )


def settles(attempt_no: int = 1) -> Work:
    return lambda world: settle_step(
        world.context, world.orchestrations, job_id=JOB, instance_id=JOB, step_id="ocr", attempt_no=attempt_no
    )


def sweeps() -> Work:
    return lambda world: sweep(world.context, world.orchestrations)


def redrives(actor: str) -> Work:
    origin = Origin(cause_id=f"request:{actor}", actor=actor, source="http")
    return lambda world: redrive_job(world.context, world.orchestrations, JOB, origin)


Prepare = Callable[[World], Awaitable[None]]


async def nothing(world: World) -> None:
    """An empty world."""


async def queued(world: World) -> None:
    assert await submitted(world, **ONE) == JOB


async def in_flight(world: World, **changes: Any) -> None:
    await submitted(world, **ONE | changes)
    await dispatch(world, JOB)


async def first_of_two(world: World) -> None:
    await in_flight(world, request_type="OCR_EMBEDDING")


async def in_service(world: World) -> None:
    await in_flight(world)
    await service_sends(world, JOB, "ACK", 90)


async def over(world: World) -> None:
    """The ACK timeout is over, and no process has settled it."""
    await in_flight(world)
    world.clock.advance(30)


async def timed_out(world: World) -> None:
    """In backoff, which is over."""
    await over(world)
    await settles()(world)
    world.clock.advance(100)


async def failed(world: World) -> None:
    await in_flight(world)
    await service_sends(world, JOB, "RESULT", 90, status="FAILED_FINAL")


def then(first: Prepare, *works: Work, seconds: float = 0) -> Prepare:
    async def prepare(world: World) -> None:
        await first(world)
        for work in works:
            await work(world)
        world.clock.advance(seconds)

    return prepare
