"""What tests of the whole stack share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import running_stack
from tests.running_stack import RunningStack


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="this one seed of the simulation, with its histories, or of the chaos")
    parser.addoption("--seeds", type=int, default=20_000, help="how many seeds the long simulation runs")


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """One stack for the whole session, on free ports and in a folder of its own."""
    running = running_stack.start(tmp_path_factory.mktemp("stack"))
    try:
        yield running
    finally:
        code = running.stop()
    assert code == 0, running_stack.tails(running.data)
