"""Jobs in the memory world of `tests.operations.conftest`: made, dispatched, replied to, and with whole histories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.jobs.history import Origin
from shared.core.jobs.job import Event, Record
from shared.core.jobs.occurrences import ControlKind
from shared.core.jobs.verdict import NOTHING_SHOWN, Shown
from shared.errors import LedgerUnavailable
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.creation import Created
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.places import reconcile_place
from shared.operations.jobs.read_history import read_history
from shared.operations.jobs.redrive_job import redrive_job
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.jobs.settle_step import settle_step
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.protocols.overrides import CatalogState
from shared.operations.sweeper.listing import continue_survey
from shared.operations.sweeper.report import SweepReport
from shared.operations.sweeper.state import Pass
from shared.operations.sweeper.sweep import sweep
from shared.ports.sweeps import Survey, SweeperShare, SweepPosition
from tests.contexts import changed
from tests.jobs import START, envelope, reply
from tests.operations.conftest import World
from tests.operations.faults import failing


async def submitted(world: World, **changes: Any) -> str:
    created = await create_job(world.context, world.orchestrations, envelope(**changes), correlation_id=None)
    return created.stored.record.job.job_id


async def dispatch(world: World, job_id: str, step_id: str = "ocr", instance_id: str | None = None) -> Any:
    """The verdict, which the orchestration then shows in its custom status."""
    instance = instance_id or job_id
    verdict = await dispatch_step(
        world.context, world.orchestrations, job_id=job_id, instance_id=instance, step_id=step_id
    )
    look_no = world.orchestrations.shown.get(instance, NOTHING_SHOWN).look_no
    world.orchestrations.shown[instance] = Shown(step_id, verdict.attempt_no, verdict.kind.value, look_no)
    return verdict


async def settle(world: World, job_id: str, attempt_no: int = 1) -> Any:
    return await settle_step(
        world.context, world.orchestrations, job_id=job_id, instance_id=job_id, step_id="ocr", attempt_no=attempt_no
    )


async def swept(world: World, **options: Any) -> list[str]:
    return [action.label for action in (await sweep(world.context, world.orchestrations, **options)).actions]


async def arrives(world: World, body: bytes, sequence_number: int = 1, *, delivery_count: int = 1) -> None:
    message = ReplyMessage(
        body=body,
        lane=15,
        message_id=f"m{sequence_number}",
        sequence_number=sequence_number,
        delivery_count=delivery_count,
        enqueued_at=START,
    )
    await receive_reply(world.context, world.orchestrations, message)


async def service_sends(world: World, job_id: str, type_: str, number: int, **fields: Any) -> None:
    message = reply(await world.job(job_id), type_, **fields)
    await arrives(world, message.model_dump_json(exclude_none=True).encode(), number)


async def relisted(world: World, tenants: Sequence[str] = ("tenant_a",)) -> int:
    """Returns the number of rows that a comparison of the tenants' living jobs found behind."""
    due_at = world.clock.now()
    return (await continue_survey(world.context, tenants, Survey(), lambda: False, due_at=due_at)).behind


async def one_pass(world: World) -> Pass:
    """Returns the state of a sweep at its begin."""
    now = world.clock.now()
    return Pass(
        context=world.context,
        orchestrations=world.orchestrations,
        share=SweeperShare(),
        dry_run=False,
        report=SweepReport(False),
        began=now,
        awake={each.tenant: each for each in await world.index.awake_tenants(now=now)},
        position=SweepPosition(),
        stored=None,
        is_of_timer=True,
        is_hourly=False,
    )


def limited(world: World, **limits: Any) -> World:
    settings = replace(world.context.settings, **limits)
    context = changed(world.context, settings=settings, gate_directory=GateDirectory())
    return replace(world, context=context)


async def create_numbered(world: World, number: int, **changes: Any) -> Created:
    changes = {"doc_id": f"doc-{number}", "request_type": "OCR", "payload": {}} | changes
    return await create_job(world.context, world.orchestrations, envelope(**changes), correlation_id=None)


ERROR = {"code": "PDF_ENCRYPTED", "message": "locked"}


def by(reason: str = "fixed") -> Origin:
    return Origin(cause_id="request:1", actor="caller", source="http", reason=reason)


async def redrive(world: World, job_id: str, reason: str = "fixed") -> Created:
    return await redrive_job(world.context, world.orchestrations, job_id, by(reason))


async def failed_at_embedding(world: World) -> str:
    """OCR SUCCEEDED, EMBEDDING FAILED_FINAL, SIS never began."""
    job_id = await submitted(world, labels={"team": "red"})
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    await dispatch(world, job_id, "embedding")
    await service_sends(world, job_id, "RESULT", 2, step_id="embedding", status="FAILED_FINAL", error=ERROR)
    return job_id


async def cancelled(world: World, job_id: str) -> None:
    await control_job(world.context, world.orchestrations, job_id, ControlKind.CANCEL, by("stop"))


MakeJob = Callable[[World], Awaitable[str]]


async def control(world: World, job_id: str, kind: ControlKind) -> None:
    await control_job(world.context, world.orchestrations, job_id, kind, by())


async def answered(world: World) -> None:
    """Handles the calls to jobs and admission states, as the queue's function does, until there is none."""
    calls = world.context.bus.admission_calls.calls  # type: ignore[attr-defined]
    while calls:
        _, job_id, _ = calls.pop(0)
        if job_id is not None and (stored := await world.ledger.read(job_id)) is not None:
            await reconcile_place(world.context, world.orchestrations, stored)


async def eventful(world: World) -> str:
    """A time-out, a revival, a retry, a heartbeat, a late reply, a pause in the backoff, and success."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    world.clock.advance(30)
    await settle(world, job_id)
    world.clock.advance(5)
    await service_sends(world, job_id, "ACK", 1, progress={"page": 1})
    world.clock.advance(300)
    await service_sends(world, job_id, "HEARTBEAT", 2, progress={"page": 2.0})
    world.clock.advance(10)
    await service_sends(world, job_id, "RESULT", 3, status="FAILED_RETRY", error=ERROR, result_ref=None, reason="busy")
    await service_sends(world, job_id, "RESULT", 4)
    world.clock.advance(1)
    await control(world, job_id, ControlKind.PAUSE)
    world.clock.advance(1000)
    await control(world, job_id, ControlKind.RESUME)
    world.clock.advance(10)
    await dispatch(world, job_id)
    world.clock.advance(2)
    await service_sends(world, job_id, "ACK", 5)
    world.clock.advance(20)
    artifact = {"name": "text", "uri": "https://account.blob.core.windows.net/workspace/ocr.txt", "size": 12}
    digests = {"text": f"sha256:{'a' * 64}"}
    await service_sends(
        world, job_id, "RESULT", 6, metrics={"pages": 3}, artifacts=[artifact], digests=digests, worker_id="ocr-0"
    )
    return job_id


async def stopped(world: World) -> str:
    """A publish fault, then cancelled in flight."""
    job_id = await submitted(world)
    world.publisher.failing = True
    await dispatch(world, job_id)
    world.publisher.failing = False
    world.clock.advance(60)
    await dispatch(world, job_id)
    world.clock.advance(1)
    await cancelled(world, job_id)
    world.clock.advance(29)
    await settle(world, job_id)
    return job_id


async def redriven(world: World) -> str:
    """The new job of a redrive, at work."""
    new_id = (await redrive(world, await failed_at_embedding(world))).stored.record.job.job_id
    await dispatch(world, new_id, "embedding")
    await service_sends(world, new_id, "ACK", 7, step_id="embedding")
    return new_id


async def taken_up(world: World) -> str:
    """The old job of a redrive."""
    old_id = await failed_at_embedding(world)
    world.clock.advance(100)
    await redrive(world, old_id)
    return old_id


TALES = pytest.mark.parametrize("tale", [eventful, stopped, redriven, taken_up, failed_at_embedding])


async def history(world: World, job_id: str) -> tuple[Record, list[Event]]:
    return await read_history(world.context, job_id)


def _job(name: str, value: Any) -> Callable[[Any], None]:
    return lambda given: given["job"].update({name: value})


TAMPERINGS: dict[str, Callable[[Any], Any]] = {
    "a column that never changed": _job("doc_id", "another"),
    "the reference to the document": _job("input_ref", {"uri": "https://elsewhere/x"}),
    "a column that events changed": _job("attempts_total", 1),
    "the end": _job("error_code", "LUCKY"),
    "a step's result": lambda given: given["steps"][0].update(result_ref={"uri": "https://elsewhere/y"}),
    "a step's payload": lambda given: given["steps"][0].update(payload={"x": 1}),
    "an event's reason": lambda given: given["events"][1].update(reason="none"),
    "an event's actor": lambda given: given["events"][-1].update(actor="nobody"),
    "an event gone": lambda given: given["events"].pop(1),
    "the last event gone": lambda given: given["events"].pop(),
    "the head": _job("event_seq", 3),
    "no status at all": _job("status", "PERFECT"),
    "a column more": _job("luck", 7),
    "not a list": lambda given: given.update(events=None),
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(each, (*path, key))
    else:
        yield path


async def parked(world: World, body: bytes, number: int = 1, days: int = 0) -> str:
    """The id of the message after it was delivered and parked."""
    before = set(world.rejected.quarantined)
    message = ReplyMessage(
        body=body,
        lane=15,
        message_id=f"m{number}",
        sequence_number=number,
        delivery_count=1,
        enqueued_at=START + timedelta(days=days),
    )
    await receive_reply(world.context, world.orchestrations, message)
    [new] = set(world.rejected.quarantined) - before
    return new


async def early(world: World) -> tuple[str, str]:
    """A job, and the ACK of its first attempt that came before the ledger knew the job."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    message = reply(await world.job(job_id), "ACK").model_dump_json(exclude_none=True).encode()
    with world.ledger.without(job_id):
        id_ = await parked(world, message)
    return job_id, id_


async def died_after_the_claim(world: World) -> str:
    """Creates a job whose creator died between the index transaction and the job's rows."""
    with failing(world.ledger, "create"), pytest.raises(LedgerUnavailable):
        await create_job(world.context, world.orchestrations, envelope(), correlation_id=None)
    [active] = await world.index.due("tenant_a", now=world.clock.now().replace(year=2030), limit=10)
    return active.job_id


def ocr(version: int = 2, **changes: Any) -> dict[str, str]:
    definition = {
        "protocol_id": "ocr",
        "version": version,
        "request_type": "OCR",
        "steps": [{"step_id": "ocr", "step_type": "OCR", "service": "ocr", "payload_schema": "steps/ocr.schema.json"}],
    }
    return {"lucius:protocols:ocr": json.dumps(definition | changes)}


def version_of(known: CatalogState, request_type: str = "OCR") -> int | None:
    found = known.registry.find(request_type)
    return found.definition.version if found is not None else None


class Counting:
    """Calls of a port, by name."""

    def __init__(self, port: Any) -> None:
        self._port = port
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        self.calls[name] += 1
        return getattr(self._port, name)
