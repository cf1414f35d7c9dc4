import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from shared.core.as_of import as_of
from shared.core.canonical import canonical_json, digest
from shared.core.job import Event, Record
from shared.core.occurrences import ControlKind
from shared.errors import JobNotFound
from shared.operations.control_job import control_job
from shared.operations.read_history import read_history
from shared.views.audit import bundle, verify
from shared.views.receipt import PARTS, receipt
from tests.jobs import START, body
from tests.operations.conftest import World
from tests.operations.test_redrive_job import ERROR, by, cancelled, failed_at_embedding, redrive
from tests.operations.test_running import dispatch, service_says, settle, submitted

Told = Callable[[World], Awaitable[str]]


async def control(world: World, job_id: str, kind: ControlKind) -> None:
    await control_job(world.context, world.orchestrations, job_id, kind, by())


async def eventful(world: World) -> str:
    """A time-out, a revival, a retry, a heartbeat, a late reply, a pause in the backoff, and success."""
    job_id = await submitted(world, request_type="OCR", payload={})
    await dispatch(world, job_id)
    world.clock.advance(30)
    await settle(world, job_id)
    world.clock.advance(5)
    await service_says(world, job_id, "ACK", 1, progress={"page": 1})
    world.clock.advance(300)
    await service_says(world, job_id, "HEARTBEAT", 2, progress={"page": 2.0})
    world.clock.advance(10)
    await service_says(world, job_id, "RESULT", 3, status="FAILED_RETRY", error=ERROR, result_ref=None)
    await service_says(world, job_id, "RESULT", 4)
    world.clock.advance(1)
    await control(world, job_id, ControlKind.PAUSE)
    world.clock.advance(1000)
    await control(world, job_id, ControlKind.RESUME)
    world.clock.advance(10)
    await dispatch(world, job_id)
    world.clock.advance(2)
    await service_says(world, job_id, "ACK", 5)
    world.clock.advance(20)
    await service_says(world, job_id, "RESULT", 6, metrics={"pages": 3})
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
    await service_says(world, new_id, "ACK", 7, step_id="embedding")
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


@TALES
async def test_a_job_as_of_any_event_is_what_it_was(world: World, monkeypatch: pytest.MonkeyPatch, tale: Told) -> None:
    """Folding the events over the created job gives the very rows that stood after each of them."""
    was: dict[tuple[str, int], Record] = {}
    real = world.ledger._put

    def remembered(record: Record) -> Any:
        was[record.job.job_id, record.job.event_seq] = record
        return real(record)

    monkeypatch.setattr(world.ledger, "_put", remembered)
    job_id = await tale(world)
    record, events = await history(world, job_id)
    assert len(events) >= 3
    for seq in range(1, len(events) + 1):
        then = was[job_id, seq]
        folded = as_of(record, events, seq)
        assert folded.job == replace(then.job, suppressed=record.job.suppressed)
        assert [replace(step, updated_at=START) for step in folded.steps] == [
            replace(step, updated_at=START) for step in then.steps
        ]
    with pytest.raises(ValueError, match="events 1 to"):
        as_of(record, events, len(events) + 1)


@TALES
async def test_a_bundle_proves_itself(world: World, tale: Told) -> None:
    """Written to a file and read again, the whole job is proved; its head may be held against a noted one."""
    record, events = await history(world, await tale(world))
    given = json.loads(json.dumps(bundle(record, events, world.clock.now())))
    assert verify(given, head=events[-1].hash) == []
    assert verify(given, head="another") == ["the head is not the one that was noted"]


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


@pytest.mark.parametrize("tampering", TAMPERINGS)
async def test_every_tampering_is_found(world: World, tampering: str) -> None:
    """Changed and its digest made anew, the bundle is not proved."""
    record, events = await history(world, await eventful(world))
    given = json.loads(json.dumps(bundle(record, events, world.clock.now())))
    TAMPERINGS[tampering](given)
    assert "the digest is not that of the content" in verify(given)
    del given["digest"]
    given["digest"] = "sha256:" + digest(canonical_json(given))
    found = verify(given)
    assert found
    assert "the digest is not that of the content" not in found


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict | list) and value:
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(each, (*path, key))
    else:
        yield path


@TALES
async def test_every_value_of_a_bundle_counts(world: World, tale: Told) -> None:
    """Any one value changed, anywhere, and the digest made anew: found, whatever it is changed to, and no exception."""
    record, events = await history(world, await tale(world))
    text = json.dumps(bundle(record, events, world.clock.now()))
    free = {"taken_at", "digest", "updated_at", "suppressed"}
    paths = [path for path in _leaves(json.loads(text)) if not free & set(path)]
    assert len(paths) > 100
    for number, path in enumerate(paths):
        given = json.loads(text)
        place = given
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = ["tampered", 1e300, {"x": [None]}, float("nan")][number % 4]
        with contextlib.suppress(ValueError):
            given["digest"] = "sha256:" + digest(
                canonical_json({name: given[name] for name in given if name != "digest"})
            )
        assert verify(given), path


@pytest.mark.parametrize("given", [None, [], {}, {"format": "lucius-audit/2"}, {"format": "lucius-audit/1"}])
def test_what_is_no_bundle_is_said_so(given: Any) -> None:
    """Anything at all gets an answer and no exception."""
    assert verify(given)


@TALES
async def test_a_receipt_adds_up(world: World, tale: Told) -> None:
    """Every second from creation to end, or to now, stands under one part of one step."""
    record, events = await history(world, await tale(world))
    world.clock.advance(7)
    told = receipt(record, events, world.clock.now())
    assert sum(body(told.total).values()) == pytest.approx(told.elapsed_s)
    for part in PARTS:
        assert sum(getattr(step, part) for step in told.steps) == pytest.approx(getattr(told.total, part))


async def test_a_receipt_tells_waiting_from_working(world: World) -> None:
    """Queue, ACK, service, backoff and pause, each with its own seconds."""
    record, events = await history(world, await eventful(world))
    told = receipt(record, events, world.clock.now())
    queue_s = told.total.queue_s
    assert 0 < queue_s < 10
    assert body(told.total) == {
        "queue_s": queue_s,
        "ack_s": 32.0,
        "service_s": 330.0,
        "backoff_s": pytest.approx(16 - queue_s, abs=0.01),
        "paused_s": 1000.0,
        "backlog_s": 0,
    }
    assert (told.attempts_total, told.replies_ignored) == (2, 1)


async def test_no_job_no_history(world: World) -> None:
    """Nor for what cannot be a job id."""
    for job_id in ("job_none", "job:cancel", "j" * 200):
        with pytest.raises(JobNotFound) as refused:
            await history(world, job_id)
        assert refused.value.job_id == job_id


async def test_events_come_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history longer than a page is read whole."""
    monkeypatch.setattr("shared.operations.read_history._PAGE", 3)
    record, events = await history(world, await eventful(world))
    assert [event.seq for event in events] == list(range(1, record.job.event_seq + 1))
