"""Whole worlds under faults, one for each seed.

`pytest --seed N` runs one world again, exactly, and prints its histories.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import os
import warnings
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

import pytest

from tests.simulation.plans import plan_of
from tests.simulation.world import Report, World, simulate

SEEDS = 32
#: worlds that a process simulates in one test
CHUNK = 25


def run(seeds: range) -> Counter[str]:
    """Runs the worlds on every core. Fails at the first that breaks a rule, with its histories."""
    found: Counter[str] = Counter()
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    # spawned, not forked: pytest's process has threads
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        for counted, broken in pool.map(some_worlds, chunks):
            found.update(counted)
            if broken:
                pool.shutdown(cancel_futures=True)
                pytest.fail(broken)
    return found


def some_worlds(seeds: range) -> tuple[Counter[str], str]:
    """Counts of these worlds, and the violations of the first that broke a rule."""
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore", "Potential duplicate Task completion")
    found: Counter[str] = Counter()
    for seed in seeds:
        report = simulate(seed, plan_of(seed))
        found["worlds"] += 1
        found["crashes"] += report.crashes
        found["port calls"] += report.calls
        found.update(report.jobs)
        found.update(report.events)
        if report.violations:
            return found, f"`pytest tests/simulation --seed {seed}` shows it again\n" + "\n".join(report.violations)
    return found, ""


def show(found: Counter[str]) -> None:
    print(", ".join(f"{count} {what}" for what, count in found.items()))


@pytest.mark.timeout(900)
def test_every_world_ends_well(request: pytest.FixtureRequest) -> None:
    """Under delays, repeats, losses and crashes every job ends, its rows are right, and no work is left.

    Over 5 s: it simulates many worlds.
    """
    one = request.config.getoption("--seed")
    if one is not None:
        report_of(one)
        return
    # in this process: the start of others would cost more, while the other workers need the cores
    found, broken = some_worlds(range(SEEDS))
    assert not broken, broken
    show(found)
    # the faults were there
    for what in (
        "SUCCEEDED",
        "FAILED_FINAL",
        "CANCELLED",
        "ACK_TIMEOUT",
        "LEASE_EXPIRED",
        "REPAIRED",
        "crashes",
        "ARCHIVED",
        "delivery DELIVERED",
    ):
        assert found[what] > 3, what


def report_of(seed: int) -> None:
    """One world, with its histories."""
    world = World(seed, plan_of(seed))
    report: Report = asyncio.run(world.run())
    print(f"\nseed {seed}: {report.crashes} crashes, {report.calls} port calls, {dict(report.repairs)}")
    for job_id in world.ledger.records:
        print(f"{job_id}\n{world.ledger.history(job_id)}")
    assert not report.violations, "\n".join(report.violations)


@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_the_same_seed_is_the_same_world() -> None:
    """Two runs of one seed agree to the last step, so that a failing seed can be examined."""
    for seed in (3, 4):
        first, second = simulate(seed, plan_of(seed)), simulate(seed, plan_of(seed))
        assert (first.steps, first.calls, first.events) == (second.steps, second.calls, second.events)


@pytest.mark.long
@pytest.mark.timeout(14_400)
@pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")
def test_many_worlds_end_well(request: pytest.FixtureRequest) -> None:
    """The same for as many seeds as `--seeds` gives."""
    show(run(range(SEEDS, SEEDS + request.config.getoption("--seeds"))))
