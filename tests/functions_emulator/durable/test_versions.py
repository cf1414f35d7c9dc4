"""The versions of orchestrations that a worker runs."""

from __future__ import annotations

from typing import Any

import azure.durable_functions as df
import pytest

from functions_emulator.durable.versions import Versions
from tests.functions_emulator.durable.hub import Hub


def shows(context: df.DurableOrchestrationContext) -> Any:
    return context.version
    yield


@pytest.mark.parametrize(
    ("strategy", "version", "runs"),
    [
        ("None", "9.0", True),
        ("Strict", "1.9", False),
        ("Strict", "1.10", True),
        ("CurrentOrOlder", "1.9", True),
        ("CurrentOrOlder", "1.10", True),
        ("CurrentOrOlder", None, True),
        ("CurrentOrOlder", "1.11", False),
        ("CurrentOrOlder", "1.10.0", False),
        ("CurrentOrOlder", "2", False),
        ("CurrentOrOlder", "1", True),
        ("CurrentOrOlder", "beta", False),
        ("CurrentOrOlder", "1.9-beta", False),
        ("CurrentOrOlder", "1.10.0.0.0", False),
        ("CurrentOrOlder", " ", True),
    ],
)
def test_strategies(strategy: str, version: str | None, runs: bool) -> None:
    """Versions are compared by their numbers, and as texts if one is not two to four numbers.

    Source: CompareVersions in TaskOrchestrationVersioningUtils.cs of DurableTask.Core.
    """
    assert Versions("1.10", strategy).runs(version) is runs


def test_an_instance_of_a_version_that_is_a_word_stays_pending() -> None:
    """`beta` is newer than `2.0`, as a text (TaskOrchestrationVersioningUtils.cs of DurableTask.Core)."""
    hub = Hub({"shows": shows}, versions=Versions("2.0", "CurrentOrOlder"))
    one = hub.client.start("shows", None, None, "beta")
    hub.run()
    assert hub.outcome(one) == ("Pending", None)


def test_the_code_sees_its_version() -> None:
    """The code gets the version of the start, or none."""
    hub = Hub({"shows": shows})
    old, new = hub.client.start("shows", None, None), hub.client.start("shows", None, None, "2.0")
    hub.run()
    assert [hub.outcome(one)[1] for one in (old, new)] == [None, "2.0"]


def test_a_foreign_version_waits_or_fails() -> None:
    """`Reject` leaves the instance pending for another worker; `Fail` ends it with the reason."""
    rejecting = Hub({"shows": shows}, versions=Versions("1", "Strict"))
    one = rejecting.client.start("shows", None, None, "2")
    rejecting.run()
    assert rejecting.outcome(one) == ("Pending", None)
    failing = Hub({"shows": shows}, versions=Versions("1", "Strict", fail=True))
    one = failing.client.start("shows", None, None, "2")
    failing.run()
    assert failing.outcome(one)[0] == "Failed"
    assert "does not match" in failing.outcome(one)[1]
