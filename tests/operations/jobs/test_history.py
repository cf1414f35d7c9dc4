import contextlib
import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest

from shared.api.audit import bundle
from shared.api.receipt import PARTS, receipt
from shared.core.jobs.as_of import rebuild_as_of
from shared.core.jobs.job import Record
from shared.core.records.canonical import jcs_digest
from shared.refusals import JobNotFound
from tests.audit_bundles import faults
from tests.jobs import START, body
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import World, built
from tests.operations.support import (
    TALES,
    TAMPERINGS,
    MakeJob,
    eventful,
    history,
    leaves,
)

OTHER_HEAD = "the hash is not the given head"
WRONG_DIGEST = "bundle: the digest is not the SHA-256 of the content"


@TALES
async def test_a_job_as_of_any_event_is_what_it_was(world: World, tale: MakeJob) -> None:
    """Folding the events over the created job gives the very rows that stood after each of them."""
    was: dict[tuple[str, int], Record] = {}

    def remembered(_table: str, _operations: Any) -> None:
        was.update({(id_, stored.record.job.event_seq): stored.record for id_, stored in world.ledger.jobs.items()})

    world.ledger.account.committed = remembered
    job_id = await tale(world)
    record, events = await history(world, job_id)
    assert len(events) >= 3
    between = [event.type for event in events if (job_id, event.seq) not in was]
    # a RESULT, with the attempt that it records
    assert set(between) <= {"RESULT"}
    for seq in range(1, len(events) + 1):
        if (then := was.get((job_id, seq))) is None:
            continue
        folded = rebuild_as_of(record, events, seq)
        assert folded.job == replace(then.job, suppressed=record.job.suppressed)
        assert [replace(step, updated_at=START) for step in folded.steps] == [
            replace(step, updated_at=START, lease_id=None, heartbeats=0) for step in then.steps
        ]
    with pytest.raises(ValueError, match="events 1 to"):
        rebuild_as_of(record, events, len(events) + 1)


@TALES
async def test_a_bundle_is_verified(world: World, tale: MakeJob) -> None:
    """Written to a file and read again; each event can have happened, and the head is compared with a noted one."""
    record, events = await history(world, await tale(world))
    given = json.loads(json.dumps(bundle(record, events, world.clock.now())))
    assert faults(given, head=events[-1].hash) == []
    assert faults(given, head="another") == [f"bundle: {record.job.job_id} event {len(events)}: {OTHER_HEAD}"]


@pytest.mark.parametrize("tampering", TAMPERINGS)
async def test_every_tampering_is_found(world: World, tampering: str) -> None:
    """A bundle that was changed and got a new digest fails."""
    record, events = await history(world, await eventful(world))
    given = json.loads(json.dumps(bundle(record, events, world.clock.now())))
    TAMPERINGS[tampering](given)
    assert faults(given)[0].startswith((WRONG_DIGEST, "the content cannot be read"))
    del given["digest"]
    given["digest"] = f"sha256:{jcs_digest(given)}"
    found = faults(given)
    assert found
    assert WRONG_DIGEST not in found


async def test_every_value_of_a_bundle_counts() -> None:
    """One value changed, with a new digest: found for the first and the last of each name, without an exception."""
    free, known = {"taken_at", "digest", "updated_at", "suppressed"}, set[tuple[Any, ...]]()
    for tale in TALES.args[1]:
        world = built(MemoryLedger())
        record, events = await history(world, await tale(world))
        text = json.dumps(bundle(record, events, world.clock.now()))
        named: defaultdict[tuple[Any, ...], list[tuple[Any, ...]]] = defaultdict(list)
        for path in leaves(json.loads(text)):
            if not free & set(path):
                named[tuple(each for each in path if isinstance(each, str))].append(path)
        assert sum(map(len, named.values())) > 100
        paths = [each for name, same in named.items() if name not in known for each in {same[0], same[-1]}]
        known |= named.keys()
        for number, path in enumerate(paths):
            given = json.loads(text)
            place = given
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = ["tampered", 1e300, {"x": [None]}, float("nan")][number % 4]
            with contextlib.suppress(ValueError):
                given["digest"] = "sha256:" + jcs_digest({name: given[name] for name in given if name != "digest"})
            assert faults(given), path


@pytest.mark.parametrize("given", [None, [], {}, {"format": "lucius-audit/2"}, {"format": "lucius-audit/1"}])
def test_what_is_not_a_bundle_is_refused(given: Any) -> None:
    """Any input gets an answer and no exception."""
    assert faults(given)


@TALES
async def test_a_receipt_adds_up(world: World, tale: MakeJob) -> None:
    """Each second from creation to end, or to now, belongs to one part of one step."""
    record, events = await history(world, await tale(world))
    world.clock.advance(7)
    costs = receipt(record, events, world.clock.now())
    assert sum(body(costs.total).values()) == pytest.approx(costs.elapsed_s)
    for part in PARTS:
        assert sum(getattr(step, part) for step in costs.steps) == pytest.approx(getattr(costs.total, part))


async def test_a_receipt_separates_waiting_from_working(world: World) -> None:
    """Queue, ACK, service, backoff and pause, each with its own seconds."""
    record, events = await history(world, await eventful(world))
    costs = receipt(record, events, world.clock.now())
    queue_s = costs.total.queue_s
    assert 0 < queue_s < 10
    assert body(costs.total) == {
        "queue_s": queue_s,
        "ack_s": 32.0,
        "service_s": 330.0,
        "backoff_s": pytest.approx(16 - queue_s, abs=0.01),
        "paused_s": 1000.0,
        "backlog_s": 0,
        "gated_s": 0,
        "dependent_s": 0,
    }
    assert (costs.attempts_total, costs.replies_ignored) == (2, 1)


async def test_no_job_no_history(world: World) -> None:
    """Nor for what cannot be a job id."""
    for job_id in ("job_none", "job:cancel", "j" * 200):
        with pytest.raises(JobNotFound):
            await history(world, job_id)


async def test_events_come_in_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history longer than a page is read whole."""
    monkeypatch.setattr("shared.operations.jobs.read_history._PAGE", 3)
    record, events = await history(world, await eventful(world))
    assert [event.seq for event in events] == list(range(1, record.job.event_seq + 1))
