"""What tests of the whole stack share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import running_stack
from tests.azurite import running_azurite
from tests.running_stack import RunningStack

pytest_plugins = ("tests.machine",)

_TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="this one seed of the simulation, with its histories, or of the chaos")
    parser.addoption("--seeds", type=int, default=20_000, help="how many seeds the long simulation runs")


#: folders whose modules take longest: begun first, so that no core waits for the last of them
_LONGEST_FIRST = ("simulation", "stack", "chaos", "model", "platform_service", "lucius_service", "mutation")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        folder = item.path.relative_to(_TESTS).parts[0]
        return _LONGEST_FIRST.index(folder) if folder in _LONGEST_FIRST else len(_LONGEST_FIRST)

    items.sort(key=rank)


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Connection string of one Azurite for the whole session; its tests use names of their own."""
    with running_azurite(tmp_path_factory.mktemp("azurite")) as connection:
        yield connection


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """One stack for the whole session, on free ports and in a folder of its own."""
    running = running_stack.start(tmp_path_factory.mktemp("stack"))
    try:
        yield running
    finally:
        code = running.stop()
    assert code == 0, running_stack.tails(running.data)
