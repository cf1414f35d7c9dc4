"""Fixtures of all tests of the whole app and stack."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests import running_stack
from tests.azurite import running_azurite
from tests.running_stack import RunningStack
from tests.worker_groups import GROUPS, group_of, place_in_group, pytest_xdist_make_scheduler

if TYPE_CHECKING:
    from tests.api.live import Live

__all__ = ["pytest_xdist_make_scheduler"]  # the hook

pytest_plugins = ("tests.machine",)

_TESTS = Path(__file__).parent
#: by group
_STACKS = pytest.StashKey[dict[str, RunningStack]]()

# A collection reads and rewrites 400 modules: garbage collection would take a fifth of its time.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure() -> None:
    """Removes the user's exported settings of a LUCIUS (URL, token), so that no test and no program of a test gets
    them.
    """
    for name in [each for each in os.environ if each.startswith("LUCIUS_")]:
        del os.environ[name]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="this one seed of the simulation, with its histories, or of the chaos")
    parser.addoption("--seeds", type=int, default=20_000, help="how many seeds the long simulation runs")


#: groups and folders with the slowest tests: started first, so that no core waits for the last of them
_LONGEST_FIRST = (
    "stack",
    "scripted",
    "simulation",
    "chaos",
    "model",
    "platform_service",
    "lucius_service",
    "mutation",
    "api",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Orders the tests; those of a group follow one another."""

    def rank(item: pytest.Item) -> tuple[int, str, int]:
        group, folder = group_of(item.nodeid), item.path.relative_to(_TESTS).parts[0]
        if "stack" in getattr(item, "fixturenames", ()) and group not in GROUPS:
            raise pytest.UsageError(f"{item.path} uses the stack: name it in tests/worker_groups.py")
        known = next((name for name in (group, folder) if name in _LONGEST_FIRST), None)
        place = _LONGEST_FIRST.index(known) if known else len(_LONGEST_FIRST)
        return place, group, place_in_group(item.nodeid)

    items.sort(key=rank)


@pytest.fixture
def app_functions(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Every function of the app, as the worker gets them; nothing runs."""
    monkeypatch.setenv("LUCIUS_STORAGE_BACKEND", "memory")
    monkeypatch.setenv("LUCIUS_AUTH_MODE", "none")
    monkeypatch.setenv(
        "LUCIUS_SERVICEBUS_CONNECTION", "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k"
    )
    import function_app

    return list(function_app.build().get_functions())


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Connection string of one Azurite for the whole session; its tests use names of their own."""
    with running_azurite(tmp_path_factory.mktemp("azurite")) as connection:
        yield connection


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[RunningStack]:
    """Yields one stack with platform services for the group "stack", on free ports and in its own folder.

    One function reads all of its replies; the scripted stack has one for each lane.
    """
    folder = tmp_path_factory.mktemp("stack")
    (folder / "packs").mkdir()
    # LUCIUS_JOBS_TABLE is a setting of an earlier design: `tests/observability/test_health.py`
    environment = {"LUCIUS_JOBS_TABLE": "jobs", "LUCIUS_REPLIES": "shared", "LUCIUS_PACKS_PATH": str(folder / "packs")}
    running = running_stack.start(folder, environment=environment)
    pytestconfig.stash.setdefault(_STACKS, {})["stack"] = running
    try:
        yield running
    finally:
        code = running.stop()
    assert code == 0, running_stack.tails(running.data)


@pytest.fixture(scope="session")
def api(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Iterator[Live]:
    """One stack for the group "api", with tokens on and no platform services."""
    from tests.api import live

    running = live.start(tmp_path_factory.mktemp("api"))
    pytestconfig.stash.setdefault(_STACKS, {})["api"] = running.stack
    try:
        yield running
    finally:
        running.close()
        code = running.stack.stop()
    assert code == 0, running_stack.tails(running.stack.data)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the unexpected errors of the group's stack to a failure."""
    report = yield
    running = item.config.stash.get(_STACKS, {}).get(group_of(item.nodeid))
    if report.failed and running is not None:
        report.sections.append(("unexpected errors", running_stack.unexpected_errors(running.data)))
    return report


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stops a stack after the last test of its group: idle, it takes 5 % of a core."""
    following = None if nextitem is None else group_of(nextitem.nodeid)
    for group, running in item.config.stash.get(_STACKS, {}).items():
        if group != following:
            running.stop()
