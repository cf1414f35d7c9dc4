"""Jobs while processes of the stack are killed and services send wrong replies; afterwards every row is audited."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.fault_injector import FaultInjector

#: another one by `--seed`
SEED = 1


async def run_and_audit(injector: FaultInjector, capsys: pytest.CaptureFixture[str]) -> None:
    report = await injector.run()
    with capsys.disabled():
        print(f"\n{report}")
    assert report.wrong == [], "\n".join(report.wrong)


@pytest.mark.timeout(400)
async def test_a_few_faults(tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    """Fifteen jobs, the host and the bus killed, Azurite stopped, connections cut: every row is right afterwards.

    Over 5 s: whole processes start again, and the jobs wait for them.
    """
    seed = request.config.getoption("--seed") or SEED
    injector = FaultInjector(tmp_path, jobs=15, faults=["host", "bus", "azurite", "cut"], seed=seed, result_timeout_s=6)
    await run_and_audit(injector, capsys)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_bus_that_goes_away_six_times(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Thirty jobs: no activity is lost while it waits for the bus, and every job ends (R43)."""
    seed = request.config.getoption("--seed") or SEED
    await run_and_audit(FaultInjector(tmp_path, jobs=30, faults=["bus"] * 6, seed=seed, result_timeout_s=6), capsys)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_many_faults(tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    """Three hundred jobs; eighteen kills of the host and the bus, three stops of Azurite, three cuts (`make chaos`)."""
    seed = request.config.getoption("--seed") or SEED
    faults = ["host", "bus", "cut", "host", "azurite", "bus", "host", "bus"] * 3
    # three hundred jobs keep their lanes busy for longer than the time-out of a quiet machine
    await run_and_audit(FaultInjector(tmp_path, jobs=300, faults=faults, seed=seed, result_timeout_s=30), capsys)
