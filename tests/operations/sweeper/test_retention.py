import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.jobs.occurrences import OrchestrationEnded
from shared.core.jobs.recovery import instances
from shared.core.records.canonical import digest
from shared.errors import OrchestrationUnavailable, ReplyUnfit
from shared.operations.jobs.read_archived import read_archived
from shared.operations.jobs.replies.apply import apply_reply
from shared.operations.sweeper.report import Action, RepairKind
from shared.operations.sweeper.sweep import sweep
from shared.ports.durable import InstanceState
from shared.ports.index import FIRST_CLEARING
from shared.settings import SettingsError, load
from tests.audit_bundles import faults
from tests.jobs import Story, planned, reply
from tests.operations.conftest import World
from tests.operations.faults import failing, meanwhile
from tests.operations.support import died_after_the_claim, dispatch, service_sends, submitted

HOUR, DAY = 3600.0, 86_400.0


async def ended(world: World, **changes: Any) -> str:
    """A job of one step that SUCCEEDED, its orchestration with it."""
    job_id = await submitted(world, request_type="OCR", payload={}, **changes)
    await dispatch(world, job_id)
    await service_sends(world, job_id, "RESULT", 1)
    world.orchestrations.states[job_id] = InstanceState.ENDED
    return job_id


async def swept(world: World, seconds: float = 0) -> list[str]:
    world.clock.advance(seconds)
    return [action.label for action in (await sweep(world.context, world.orchestrations)).actions]


def keeping(world: World, days: float) -> World:
    return replace(world, context=replace(world.context, settings=replace(world.context.settings, retention_days=days)))


async def test_histories_go_soon_after_the_end_by_instance_id(world: World) -> None:
    """A job's history is deleted an hour after its end; an active job's stays; nothing is purged twice."""
    alive = await submitted(world)
    job_id = await ended(world)
    assert "purge" not in await swept(world, HOUR - 60)
    assert "purge" in await swept(world, 61)
    assert world.orchestrations.purged == [job_id]
    await swept(world, HOUR)
    assert world.orchestrations.purged == [job_id]
    assert alive not in world.orchestrations.purged


async def test_a_clearing_that_runs_out_of_time_leaves_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has `more` until no tenant is left, and the tenant that was not reached comes first."""
    for number in range(3):
        await ended(world, tenant_id=f"tenant_{number}")
    world.clock.advance(HOUR + 1)
    monkeypatch.setattr("shared.operations.sweeper.turns.AT_ONCE", 1)
    purge = world.orchestrations.purge

    async def slow(instance_id: str) -> bool:
        world.clock.advance(41)
        return await purge(instance_id)

    monkeypatch.setattr(world.orchestrations, "purge", slow)
    reports = [await sweep(world.context, world.orchestrations) for _ in range(4)]
    assert [len(report.actions) for report in reports] == [1, 1, 1, 0]
    assert [report.more for report in reports] == [True, True, True, False]
    assert len(set(world.orchestrations.purged)) == 3


async def test_an_end_clears_the_histories_of_the_ends_before_it(world: World) -> None:
    """Of its tenant, two at most, once they are ten seconds old; the next end records it in the index, and the sweeper
    then has only the claim to delete. The sweeper purges histories without a later end, again where they were purged.
    """
    first, second, third = [await ended(world, doc_id=str(number)) for number in range(3)]
    assert world.orchestrations.purged == []
    world.clock.advance(10)
    await ended(world, tenant_id="tenant_b")
    assert world.orchestrations.purged == []
    await ended(world, doc_id="3")
    assert world.orchestrations.purged == [first, second]
    await ended(world, doc_id="4")
    assert world.orchestrations.purged == [first, second, third]
    # the third again, those of the last two ends, and the other tenant's
    assert (await swept(world, HOUR)).count("purge") == 4
    assert len(world.orchestrations.purged) == 7
    assert (await swept(world, 30 * DAY)).count("drop idempotency record") == 6
    assert len(world.orchestrations.purged) == 7


@pytest.mark.parametrize("fault", ["alive", "away"])
async def test_an_end_leaves_what_it_cannot_clear_to_the_sweeper(world: World, fault: str) -> None:
    """An orchestration that has not ended, or an engine that is away, disturbs no end and loses no history."""
    first = await ended(world, doc_id="1")
    world.clock.advance(10)
    purge = world.orchestrations.purge

    async def away(instance_id: str) -> bool:
        raise OrchestrationUnavailable

    if fault == "alive":
        world.orchestrations.states[first] = InstanceState.ALIVE
    else:
        world.orchestrations.purge = away  # type: ignore[method-assign]
    second = await ended(world, doc_id="2")
    assert world.orchestrations.purged == []
    world.orchestrations.purge = purge  # type: ignore[method-assign]
    world.orchestrations.states[first] = InstanceState.ENDED
    await swept(world, HOUR + 1)
    assert sorted(world.orchestrations.purged) == sorted([first, second])


async def test_every_orchestration_that_a_job_had_is_purged(world: World) -> None:
    """The first, the restarted ones, and those of its groups."""
    story = Story(planned())
    for number in range(2):
        story.occurs(OrchestrationEnded("job_1" if number == 0 else f"job_1.r{number}"))
    assert instances(story.record) == ["job_1", "job_1.r1", "job_1.r2"]
    grouped = replace(
        story.record, steps=tuple(replace(step, group=0) if step.step_index else step for step in story.record.steps)
    )
    assert instances(grouped)[3:] == [f"{own}.s{index}" for own in instances(story.record) for index in (1, 2)]


async def test_a_history_that_still_runs_is_left(world: World) -> None:
    """The orchestration has not received the end yet: the sweeper checks again an hour later."""
    job_id = await ended(world)
    world.orchestrations.states[job_id] = InstanceState.ALIVE
    assert await swept(world, HOUR + 1) == ["purge later: an orchestration has not ended"]
    assert await swept(world, 120) == []
    world.orchestrations.states[job_id] = InstanceState.ENDED
    assert await swept(world, HOUR) == ["purge"]
    assert world.orchestrations.purged == [job_id]


async def test_an_expired_claim_goes_and_the_job_stays(world: World) -> None:
    """The claim's row is deleted thirty days after the end; without a retention the job is kept."""
    job_id = await ended(world)
    claim = (await world.job(job_id)).job.idempotency_hash
    await swept(world, HOUR + 1)
    await swept(world, 29 * DAY)
    assert await world.index.read_claim("tenant_a", claim) is not None
    assert await swept(world, DAY) == ["drop idempotency record"]
    assert await world.index.read_claim("tenant_a", claim) is None
    assert (await world.job(job_id)).job.job_id == job_id
    assert await world.index.due_for_clearing("tenant_a", now=world.clock.now() + timedelta(days=9999), limit=10) == []


async def test_a_claim_that_stands_for_a_later_job_is_left(world: World) -> None:
    """The same request after the claim's time made a new job: its claim is not the old job's to drop."""
    old_id = await ended(world)
    await swept(world, HOUR + 1)
    world.clock.advance(30 * DAY)
    new_id = await submitted(world, request_type="OCR", payload={})
    assert new_id != old_id
    claim_key = (await world.job(new_id)).job.idempotency_hash
    assert "drop idempotency record" in await swept(world, 1)
    claim = await world.index.read_claim("tenant_a", claim_key)
    assert (claim and claim.job_id) == new_id


async def test_a_request_that_replaces_the_expired_claim_meanwhile_wins(world: World) -> None:
    """Race expired-claim: the same request replaces the claim between the sweeper's read and its delete."""
    await ended(world)
    await swept(world, HOUR + 1)
    world.clock.advance(30 * DAY)
    new_ids: list[str] = []

    async def posted() -> None:
        new_ids.append(await submitted(world, request_type="OCR", payload={}))

    meanwhile(world.index, "delete_claim", posted)
    await swept(world)
    [new_id] = new_ids
    again = await submitted(world, request_type="OCR", payload={})
    assert again == new_id


async def test_a_job_past_its_retention_goes_into_the_archive(world: World) -> None:
    """Its verified bundle is kept, then LIST, rows and events are deleted; a late reply finds no job."""
    world = keeping(world, 60)
    job_id = await ended(world)
    record = await world.job(job_id)
    for seconds in (HOUR + 1, 30 * DAY):
        await swept(world, seconds)
    assert await world.ledger.read(job_id) is not None
    assert await swept(world, 30 * DAY) == ["archive"]
    [(name, text)] = world.archive.kept.items()
    assert name == f"tenant_a/202601/{job_id}.{digest(text)[:16]}.json"
    assert faults(json.loads(text), head=record.job.event_hash) == []
    assert (await world.ledger.read(job_id), await world.ledger.events(job_id)) == (None, [])
    assert await world.index.list_jobs("tenant_a", after=None, limit=10) == []
    with pytest.raises(ReplyUnfit, match="UNKNOWN_JOB"):
        await apply_reply(world.context, world.orchestrations, reply(record, "ACK"), cause_id="late", source="bus")
    assert await swept(world, DAY) == []


@pytest.mark.parametrize(
    "dies_at",
    ["archive.put", "index.delete_listing", "ledger.remove", "ledger.delete_remainder", "index.finish_clearing"],
)
async def test_an_archiving_that_died_is_gone_on_with(world: World, dies_at: str) -> None:
    """Wherever it dies, the next sweep brings it to its end, and the bundle is proved."""
    world = keeping(world, 30)
    job_id = await ended(world)
    await swept(world, HOUR + 1)
    target, method = dies_at.split(".")
    failing(getattr(world, target), method, at=[1])
    assert await swept(world, 30 * DAY) == ["failed, retried by a later sweep"]
    assert (await swept(world, 60))[0] in ("archive", "remove")
    assert (await world.ledger.read(job_id), await world.ledger.events(job_id)) == (None, [])
    [text] = world.archive.kept.values()
    assert faults(json.loads(text)) == []
    assert await swept(world, DAY) == []


async def test_a_reply_that_comes_while_a_job_is_archived_is_in_the_bundle(world: World) -> None:
    """Race archived: a late reply between the bundle and the removal: that fails, and the next bundle has it."""
    world = keeping(world, 30)
    job_id = await ended(world)
    await swept(world, HOUR + 1)
    meanwhile(world.archive, "put", lambda: service_sends(world, job_id, "ACK", 99), after=True)
    assert await swept(world, 30 * DAY) == ["failed, retried by a later sweep"]
    assert (await world.ledger.events(job_id))[-1].type == "REPLY_IGNORED"
    assert await swept(world, 60) == ["archive"]
    archived = await read_archived(world.context, job_id)
    assert archived is not None
    bundle = archived.bundle
    assert (bundle["events"][-1]["type"], faults(bundle)) == ("REPLY_IGNORED", [])


async def test_a_tombstone_is_cleared_away_as_well(world: World) -> None:
    """A withdrawn creation leaves its tombstone, for late creators, and the retention deletes it."""
    world = keeping(world, 30)
    job_id = await died_after_the_claim(world)
    assert await swept(world, 301) == ["withdraw"]
    assert "drop idempotency record" in await swept(world, HOUR)
    assert await world.ledger.read(job_id) is not None
    assert await swept(world, 30 * DAY) == ["archive"]
    assert await world.ledger.read(job_id) is None


async def test_a_dry_run_clears_nothing(world: World) -> None:
    """It names the jobs that it would check."""
    job_id = await ended(world)
    world.clock.advance(FIRST_CLEARING.total_seconds())
    report = await sweep(world.context, world.orchestrations, dry_run=True)
    assert report.actions == [Action(job_id, RepairKind.CLEAR)]
    assert world.orchestrations.purged == []


def test_a_retention_shorter_than_the_claims_is_refused() -> None:
    """A repeated request would be answered with a job that is gone."""
    environment = {
        "LUCIUS_STORAGE_BACKEND": "memory",
        "LUCIUS_AUTH_MODE": "none",
        "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
        "LUCIUS_RETENTION_DAYS": "29",
    }
    with pytest.raises(SettingsError, match=r"LUCIUS_RETENTION_DAYS=.* must be at least"):
        load(environment)
    assert load(environment | {"LUCIUS_RETENTION_DAYS": "30"}).retention_days == 30


async def test_an_orchestration_that_never_ends_holds_up_no_claim(world: World) -> None:
    """Pending without end, or a status that was never written: terminated after a day, and ignored after two."""
    job_id = await ended(world)
    world.orchestrations.states[job_id] = InstanceState.ALIVE
    assert "purge later: an orchestration has not ended" in await swept(world, 23 * HOUR)
    assert world.orchestrations.terminated == []
    await swept(world, HOUR + 1)
    assert world.orchestrations.terminated == [job_id]
    assert "purge" in await swept(world, DAY)
    assert world.orchestrations.purged == []
    assert "drop idempotency record" in await swept(world, 30 * DAY)
