"""Rows that this release cannot decode, in the sweeper, in counts and in replies: their job or tenant alone stops."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.jobs.states import JobStatus
from shared.errors import Undecodable
from shared.operations.gates.admission_counts import recount_jobs
from shared.operations.sweeper.repair import UNREADABLE_INTERVAL
from shared.operations.sweeper.sweep import sweep
from shared.ports.index import AWAKE_AFTER_POST, ActiveRow
from tests.jobs import reply
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import arrives, dispatch, submitted, swept


def without_rows(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tenant's ACTIVE rows are there, and none of them can be decoded."""

    async def list_active(tenant: str, *, unread: list[str] | None = None, **_: Any) -> list[ActiveRow]:
        if unread is None:
            raise Undecodable(f"{tenant} ACTIVE:x", "ValueError")
        unread.append(f"{tenant} ACTIVE:x")
        return []

    monkeypatch.setattr(world.index, "list_active", list_active)


async def test_a_tenant_with_such_jobs_alone_stays_awake(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have active jobs, which another release sweeps."""
    await submitted(world)
    without_rows(world, monkeypatch)
    for _ in range(3):
        world.clock.advance(2 * AWAKE_AFTER_POST.total_seconds())
        await swept(world)
    assert [each.tenant for each in await world.index.awake_tenants(now=world.clock.now())] == ["tenant_a"]


async def test_a_count_does_not_leave_such_a_job_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would admit another job in its place."""
    await submitted(world)
    without_rows(world, monkeypatch)
    with pytest.raises(Undecodable):
        await recount_jobs(world.context, "tenant_a", None)


async def test_such_a_job_is_looked_at_once_an_hour(world: World) -> None:
    """Its tenant's other jobs are repaired in the same pass."""
    broken, alive = [await submitted(world, doc_id=name) for name in ("broken", "alive")]

    async def looks() -> dict[str, str]:
        report = await sweep(world.context, world.orchestrations)
        return {action.job_id: action.label.partition(",")[0] for action in report.actions}

    fault = Undecodable(f"{broken} JOB", "KeyError", "tenant_a")
    failing(world.ledger, "read", error=fault, only=lambda job_id: job_id == broken)
    world.orchestrations.states.clear()
    world.clock.advance(61)
    assert await looks() == {broken: "failed", alive: "start"}
    world.clock.advance(61)
    assert broken not in await looks()
    world.clock.advance(UNREADABLE_INTERVAL.total_seconds())
    assert (await looks())[broken] == "failed"


async def test_a_reply_to_such_a_job_is_given_back(world: World) -> None:
    """An instance of the release that wrote the row may take it: it is not put into quarantine."""
    job_id = await submitted(world)
    await dispatch(world, job_id)
    ack = reply(await world.job(job_id), "ACK").model_dump_json(exclude_none=True).encode()
    with failing(world.ledger, "read", error=Undecodable(f"{job_id} JOB", "KeyError")), pytest.raises(Undecodable):
        await arrives(world, ack, delivery_count=2)
    await arrives(world, ack, delivery_count=3)
    assert (await world.job(job_id)).job.status is JobStatus.IN_PROGRESS
