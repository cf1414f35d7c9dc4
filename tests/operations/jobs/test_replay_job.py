"""Replays: a new job for each request, linked to its original, also where processes die or two come at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from shared.api.audit import bundle
from shared.archive_refusals import NotReplayable
from shared.core.bulks import BulkAction
from shared.core.events.public_events import Issuer, make_public_events, number_event
from shared.core.jobs.comparison import Likeness, compare, is_deterministic
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Record
from shared.core.jobs.redrive import STEP_KEPT
from shared.core.jobs.replay import ReplayMode, ReplayRequest, plan_replay
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.registry import Registry
from shared.errors import LedgerUnavailable
from shared.operations.jobs.creation import Created
from shared.operations.jobs.read_archived import read_archived
from shared.operations.jobs.read_history import read_history
from shared.operations.jobs.replay_job import replay_job
from shared.refusals import IdempotencyConflict, JobNotFound, LimitReached, RequestInvalid
from tests.audit_bundles import faults
from tests.event_checks import check_event
from tests.jobs import START
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import (
    by,
    cancelled,
    dispatch,
    failed_at_embedding,
    limited,
    redrive,
    service_sends,
    submitted,
    swept,
)
from tests.worlds.bulks import later, outcomes, started, worked

DAY = 86_400.0
ISSUER = Issuer("test")
DIGESTS = {"input_digests": {"input_ref": "sha256:a"}, "digests": {"result_ref": "sha256:b"}}


async def ended(world: World, **changes: Any) -> str:
    """A job of one step that SUCCEEDED."""
    job_id = await submitted(world, request_type="OCR", payload={}, **changes)
    await finish(world, job_id)
    return job_id


async def finish(world: World, job_id: str, **fields: Any) -> None:
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", hash(job_id) % 10**6, **({**DIGESTS, **fields}))


async def replay(world: World, job_id: str, origin: Origin | None = None, **given: Any) -> Created:
    request = ReplayRequest(**{"job_id": job_id, "mode": ReplayMode.COMPARE, "reason": "again", **given})
    return await replay_job(world.context, world.orchestrations, request, origin or by("again"))


def id_of(created: Created) -> str:
    return created.stored.record.job.job_id


async def proved(world: World, job_id: str) -> list[str]:
    return faults(bundle(*await read_history(world.context, job_id), START))


async def marks(world: World, job_id: str) -> list[str]:
    return [each.data["replayed_by"] for each in await world.ledger.events(job_id) if each.type == "JOB_REPLAYED"]


async def test_a_replay_runs_every_step_and_writes_elsewhere(world: World) -> None:
    """The original's plan, fresh steps, no callback, no dependency; its output is in the tenant's own workspace."""
    original_id = await failed_at_embedding(world)
    before = await world.job(original_id)
    created = await replay(world, original_id, priority="high")
    new = created.stored.record
    job = new.job
    assert not created.replayed
    assert (job.replay_of, job.replay_mode, job.redrive_of, job.first_job_id) == (original_id, "compare", None, None)
    assert (job.status, job.priority, job.callback_urls, job.callback_targets) == (JobStatus.QUEUED, "high", {}, None)
    assert (job.payload_digest, job.labels, job.input_ref) == (
        before.job.payload_digest,
        before.job.labels,
        before.job.input_ref,
    )
    assert job.output_ref == {"uri": f"{job.workspace_base}/{job.job_id}/output/SIS/"}
    assert {step.status for step in new.steps} == {StepStatus.PENDING}
    assert not any(step.carried for step in new.steps)
    for old, step in zip(before.steps, new.steps, strict=True):
        assert all(getattr(old, name) == getattr(step, name) for name in STEP_KEPT)
    assert world.orchestrations.started[-1] == job.job_id
    after = await world.job(original_id)
    assert replace(after.job, event_seq=0, event_hash="", updated_at=before.job.updated_at) == replace(
        before.job, event_seq=0, event_hash=""
    )
    assert after.steps == before.steps
    [mark] = [each for each in await world.ledger.events(original_id) if each.type == "JOB_REPLAYED"]
    assert (mark.data, mark.actor, mark.reason) == (
        {"replayed_by": job.job_id, "mode": "compare", "changes": {}},
        "caller",
        "again",
    )
    [public] = make_public_events(mark, after.job)
    assert (public["type"], public["data"]["payload"]) == (
        "job.replayed",
        {"status": "FAILED_FINAL", "from": "FAILED_FINAL", "replayedBy": job.job_id, "mode": "compare"},
    )
    check_event(number_event(public, 1, ISSUER))
    [first, *_] = await world.ledger.events(job.job_id)
    [queued] = make_public_events(first, job)
    assert (first.data["replay_of"], queued["data"]["payload"]["replayOf"]) == (original_id, original_id)
    check_event(number_event(queued, 1, ISSUER))
    for job_id in (original_id, job.job_id):
        assert await proved(world, job_id) == []


async def test_the_same_request_is_one_replay(world: World) -> None:
    """By its key, or by its body; another body with the same key is a conflict; another body without one is another."""
    job_id = await ended(world)
    first = await replay(world, job_id)
    again = await replay(world, job_id)
    assert (id_of(again), again.replayed) == (id_of(first), True)
    others = [
        await replay(world, job_id, reason="once more"),
        await replay(world, job_id, mode=ReplayMode.RERUN),
        await replay(world, job_id, key="k1"),
        await replay(world, job_id, key="k2"),
    ]
    assert len({id_of(each) for each in (first, *others)}) == 5
    assert id_of(await replay(world, job_id, key="k1")) == id_of(others[2])
    with pytest.raises(IdempotencyConflict) as conflict:
        await replay(world, job_id, key="k1", reason="another")
    assert conflict.value.members == {"jobId": id_of(others[2])}
    other_job = await ended(world, doc_id="2")
    assert id_of(await replay(world, other_job, key="k1")) != id_of(others[2])
    assert sorted(await marks(world, job_id)) == sorted(id_of(each) for each in (first, *others))


async def test_two_at_once_are_one_replay(world: World) -> None:
    """Race replays: the second one finds the claim of the first."""
    job_id = await ended(world)
    both = await asyncio.gather(replay(world, job_id), replay(world, job_id))
    assert len({id_of(each) for each in both}) == 1
    assert await marks(world, job_id) == [id_of(both[0])]


@pytest.mark.parametrize("dies_at", ["index.reserve", "ledger.create", "ledger.commit", "orchestrations.start"])
@pytest.mark.parametrize("who", ["the caller", "the sweeper"])
async def test_a_replay_that_died_is_finished(world: World, dies_at: str, who: str) -> None:
    """Wherever it dies, by the same request again; or by the sweeper, which withdraws one that has no rows."""
    job_id = await ended(world)
    target, method = dies_at.split(".")
    failing(getattr(world, target), method, at=[1])
    with pytest.raises(LedgerUnavailable):
        await replay(world, job_id)
    if who == "the sweeper":
        for _ in range(3):
            world.clock.advance(600)
            await swept(world)
        made = [each for each, stored in world.ledger.jobs.items() if stored.record.job.replay_of == job_id]
        assert await marks(world, job_id) == made
        assert len(made) == (0 if dies_at in ("index.reserve", "ledger.create") else 1)
    new = id_of(await replay(world, job_id))
    assert await marks(world, job_id) == [new]
    assert new in world.orchestrations.started
    assert await proved(world, job_id) == []


async def test_an_archived_job_is_replayed(world: World) -> None:
    """The same plan as if it were in the ledger; the archive is as it was."""
    context = replace(world.context, settings=replace(world.context.settings, retention_days=30))
    world = replace(world, context=context)
    job_id = await ended(world)
    before = await world.job(job_id)
    for days in (1, 31):
        world.clock.advance(days * DAY)
        await swept(world)
    kept = dict(world.archive.kept)
    assert await world.ledger.read(job_id) is None
    created = await replay(world, job_id)
    assert id_of(await replay(world, job_id)) == id_of(created)
    new = created.stored.record
    assert (new.job.replay_of, [step.payload for step in new.steps]) == (
        job_id,
        [step.payload for step in before.steps],
    )
    assert new.job.deadline_at is not None
    assert before.job.deadline_at is not None
    assert new.job.deadline_at - new.job.created_at == before.job.deadline_at - before.job.created_at
    assert world.archive.kept == kept
    await finish(world, id_of(created))
    archived = await read_archived(world.context, job_id)
    assert archived is not None
    assert is_deterministic(compare(archived.record, await world.job(id_of(created)))) is True


async def test_a_replay_of_a_job_that_is_purged_meanwhile_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Race purge: at each moment of the deletion the response is the new job or 404, and a new job that exists runs."""
    for number, at in enumerate(
        ("ledger.events", "index.reserve", "ledger.create", "ledger.find_event", "ledger.commit")
    ):
        job_id = await ended(world, doc_id=at)
        target, method = at.split(".")
        port = getattr(world, target)
        honest = getattr(port, method)

        async def purges(*args: Any, job_id: str = job_id, honest: Any = honest, **named: Any) -> Any:
            world.ledger.take(job_id)
            await world.ledger.delete_remainder(job_id, with_archived=True)
            monkeypatch.undo()
            return await honest(*args, **named)

        monkeypatch.setattr(port, method, purges)
        started = len(world.orchestrations.started)
        if number:
            new = id_of(await replay(world, job_id))
            assert world.orchestrations.started[started:] == [new]
            assert await proved(world, new) == []
        with pytest.raises(JobNotFound):
            await replay(world, job_id)
        assert len(world.orchestrations.started) == started + bool(number)


async def test_what_cannot_be_replayed_changes_nothing(world: World) -> None:
    """An active job, an unknown one, one whose protocol or service is removed, or whose references are refused now."""
    job_id, living = await ended(world), await submitted(world)
    rows = len(world.ledger.rows.all_rows)
    with pytest.raises(NotReplayable) as refused:
        await replay(world, living)
    assert refused.value.code == "JOB_LIVE"
    with pytest.raises(JobNotFound):
        await replay(world, "job_never")
    for registry, code in (
        (Registry([]), "PROTOCOL_GONE"),
        (Registry(world.context.registry, {"ocr": "OTHER"}), "SERVICE_GONE"),
        (Registry(world.context.registry, {}), "SERVICE_GONE"),
    ):
        with pytest.raises(NotReplayable) as refused:
            await replay(replace(world, context=replace(world.context, registry=registry)), job_id)
        assert refused.value.code == code
    hosts = {"tenant_a": frozenset({"elsewhere.example"})}
    with pytest.raises(RequestInvalid) as invalid:
        await replay(replace(world, context=replace(world.context, ref_hosts=hosts)), job_id)
    assert [path for path, _ in invalid.value.errors] == ["input_ref.uri"]
    full = limited(world, max_inflight_per_tenant=1)
    with pytest.raises(LimitReached):
        await replay(full, job_id)
    assert len(world.ledger.rows.all_rows) == rows
    assert await world.index.read_claim("tenant_a", "x") is None
    assert await marks(world, job_id) == []


async def test_a_replay_is_redriven_and_replayed(world: World) -> None:
    """A redrive of a replay is compared with the same original; a replay of a replay with that one."""
    job_id = await ended(world)
    first = id_of(await replay(world, job_id))
    await cancelled(world, first)
    redriven = (await redrive(world, first)).stored.record.job
    assert (redriven.replay_of, redriven.redrive_of) == (job_id, first)
    await finish(world, redriven.job_id)
    second = (await replay(world, redriven.job_id)).stored.record.job
    assert second.replay_of == redriven.job_id
    assert await marks(world, job_id) == [first]


async def test_a_bulk_replays_jobs_that_have_ended(world: World) -> None:
    """Once each, after any repetition; an active job is refused."""
    one, two, living = await ended(world), await ended(world, doc_id="2"), await submitted(world)
    await later(world)
    bulk = await started(world, BulkAction.REPLAY)
    done = await worked(world, bulk)
    items = await outcomes(world, bulk)
    assert (done.done, done.refused, items[living].code) == (2, 1, "JOB_LIVE")
    for job_id in (one, two):
        assert await marks(world, job_id) == [items[job_id].new_job_id]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (DIGESTS, DIGESTS, (Likeness.SAME, True)),
        (DIGESTS, {**DIGESTS, "digests": {"result_ref": "sha256:c"}}, (Likeness.DIFFERENT, False)),
        (
            DIGESTS,
            {"input_digests": {"input_ref": "sha256:z"}, "digests": {"result_ref": "sha256:c"}},
            (Likeness.INPUT_CHANGED, None),
        ),
        (DIGESTS, {**DIGESTS, "input_digests": {"input_ref": "sha256:z"}}, (Likeness.INPUT_CHANGED, None)),
        (DIGESTS, {"digests": DIGESTS["digests"]}, (Likeness.NOT_COMPARABLE, None)),
        ({"input_digests": {}}, DIGESTS, (Likeness.NOT_COMPARABLE, None)),
        # in a service's own form, in another order
        (
            {"input_digests": [1.0], "digests": {"a": 1, "b": 2}},
            {"input_digests": [1], "digests": {"b": 2, "a": 1}},
            (Likeness.SAME, True),
        ),
    ],
)
async def test_a_replay_is_compared_by_digests(world: World, old: Any, new: Any, expected: Any) -> None:
    """Different outputs for equal inputs are distinguished from changed inputs."""
    blank = dict.fromkeys(DIGESTS)
    job_id = await submitted(world, request_type="OCR", payload={})
    await finish(world, job_id, **{**blank, **old})
    replay_id = id_of(await replay(world, job_id))
    [pending] = compare(await world.job(job_id), await world.job(replay_id))
    assert pending.likeness is Likeness.PENDING
    await finish(world, replay_id, **{**blank, **new})
    steps = compare(await world.job(job_id), await world.job(replay_id))
    assert (steps[0].likeness, is_deterministic(steps)) == expected
    assert (steps[0].why is not None) == (expected[0] is Likeness.NOT_COMPARABLE)


async def test_a_step_that_did_not_succeed_is_not_compared(world: World) -> None:
    """Of the original, or of a replay that has ended."""
    job_id = await ended(world)
    replay_id = id_of(await replay(world, job_id))
    await cancelled(world, replay_id)
    original, stopped = await world.job(job_id), await world.job(replay_id)
    for pair in ((original, stopped), (stopped, original)):
        [step] = compare(*pair)
        assert step.likeness is Likeness.NOT_COMPARABLE
    assert isinstance(original, Record)


async def test_each_service_of_a_last_group_may_write_its_output(world: World) -> None:
    """In Azure a service writes below a folder of its step type only, so the path has each of them."""
    original = await world.job(await ended(world))
    step = original.steps[0]
    steps = (step, *(replace(step, step_index=n, group=0, step_type=each) for n, each in ((1, "OCR"), (2, "SIS"))))
    request = ReplayRequest(job_id="job_1", mode=ReplayMode.RERUN, reason="again")
    plan = {"job_id": "job_9", "created_at": START, "allowed": None, "workspace_uri": "https://a.example/w"}
    planned, _ = plan_replay(Record(original.job, steps), request, **plan, origin=by(), salt="0" * 32)
    assert planned.job.output_ref == {"uri": "https://a.example/w/lucius/tenant_a/job_9/output/OCR/SIS/"}
