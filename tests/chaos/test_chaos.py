"""The lifecycle under blows: parts of the stack die while jobs run and services lie; then the books are audited."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.fault_injector import Storm

#: of the small one; `--seed` takes another
SEED = 1


async def weather(storm: Storm, capsys: pytest.CaptureFixture[str]) -> None:
    told = await storm.run()
    with capsys.disabled():
        print(f"\n{told}")
    assert told.wrong == [], "\n".join(told.wrong)


@pytest.mark.timeout(400)
async def test_a_small_storm(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Twenty jobs, the host and the bus killed, Azurite stopped, connections cut: every row is right afterwards."""
    seed = request.config.getoption("--seed") or SEED
    storm = Storm(tmp_path, jobs=20, blows=["host", "bus", "azurite", "cut"], seed=seed, result_timeout_s=6)
    await weather(storm, capsys)


@pytest.mark.long
@pytest.mark.timeout(1800)
async def test_a_great_storm(
    tmp_path: Path, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three hundred jobs; eighteen kills of the host and the bus, three stops of Azurite, three cuts (`make chaos`)."""
    seed = request.config.getoption("--seed") or SEED
    blows = ["host", "bus", "cut", "host", "azurite", "bus", "host", "bus"] * 3
    # three hundred jobs keep their lanes busy for longer than the time-out of a quiet machine
    await weather(Storm(tmp_path, jobs=300, blows=blows, seed=seed, result_timeout_s=30), capsys)
