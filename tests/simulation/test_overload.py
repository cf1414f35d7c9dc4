"""Slow parts without a fault: a deep queue, a late engine."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.simulation import protocols
from tests.simulation.faults import NO_FAULTS
from tests.simulation.plans import Plan
from tests.simulation.world import World

pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")

QUIET = Plan(odds=NO_FAULTS, faults_end_after=timedelta(0), request_types=(protocols.ONE_STEP,), jobs=1)


async def world_of(plan: Plan, seed: int = 1) -> World:
    world = World(seed, plan)
    report = await world.run()
    assert not report.violations, "\n".join(report.violations)
    return world


async def all_succeed(jobs: int, work_s: float) -> World:
    """Checks that each job succeeds with one attempt a step, in a queue of any length."""
    world = await world_of(replace(QUIET, jobs=jobs, one_worker_s=work_s, owners_checked=False))
    records = list(world.ledger.records.values())
    assert {record.job.status for record in records} == {"SUCCEEDED"}
    assert [record.job.attempts_total for record in records] == [1] * jobs
    # a wait is no news: a history is as long at the end of the queue as at its head
    assert max(record.job.event_seq for record in records) <= 6
    return world


@pytest.mark.parametrize(("jobs", "work_s"), [(20, 300), pytest.param(100, 60, marks=pytest.mark.long)])
async def test_a_deep_queue_fails_no_job(jobs: int, work_s: int) -> None:
    """One worker takes minutes for each document, so that the last document waits a hundred minutes."""
    world = await all_succeed(jobs, work_s)
    assert world.report.repairs.get("raise", 0) == 0
    # two lanes, peeked for all jobs that wait on them
    minutes = (world.scheduler.now - world.faults.end_at) / timedelta(minutes=1)
    assert world.lanes.asked <= 2 * 2 * 6 * minutes


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_three_thousand_jobs_wait_for_one_slow_worker() -> None:
    """A hundred minutes of work in one queue, without an extra attempt."""
    await all_succeed(3000, 2)


@pytest.mark.parametrize("late_s", [65, 600, 3 * 3600])
async def test_a_late_engine_makes_no_step_longer_than_it_is_late(late_s: int) -> None:
    """It sleeps while the ACK time-out, the sweeps and the RESULT come: no attempt is lost, no lease waited for."""
    world = await world_of(replace(QUIET, jobs=1, request_types=(protocols.SEQUENCE,), engine_away=(2, late_s)))
    [record] = world.ledger.records.values()
    assert (record.job.status, record.job.attempts_total) == ("SUCCEEDED", 3)
    assert record.job.completed_at is not None
    lasted = record.job.completed_at - record.job.created_at
    # three services of a minute at most, and a delayed look of the sweeper
    assert lasted < timedelta(seconds=late_s) + timedelta(minutes=4)


async def test_an_engine_that_never_comes_back_ends_the_job_by_its_time() -> None:
    """The total time alone ends it, by the sweeper: nothing waits for ever."""
    world = await world_of(
        replace(QUIET, request_types=(protocols.CAPPED,), engine_away=(0, 20 * 3600), owners_checked=False)
    )
    [record] = world.ledger.records.values()
    assert (record.job.status, record.job.error_code) == ("FAILED_FINAL", "TIME_EXCEEDED")
