"""Messages that a host has taken are hidden from the next host until a visibility timeout ends, as with Azure Storage.

GetMessagesAsync in Messaging/ControlQueue.cs and GetMessageAsync in Messaging/WorkItemQueue.cs of
DurableTask.AzureStorage take messages with these timeouts, which AzureStorageOptions.cs of the extension makes five
minutes each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from functions_emulator.durable.runner import OrchestratorCall, Runner
from functions_emulator.durable.visibility import VisibilityTimeouts
from tests.functions_emulator.durable.functions import counter, one_call, waits
from tests.functions_emulator.durable.hub import Hub


class Hubs:
    """One hub after another on the same store and clock: `kill` is the death of a process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.hub = self._open(None)

    def kill(self) -> Hub:
        """The hub of the next process, at the same instant."""
        self.hub.store.close()
        self.hub = self._open(self.hub)
        return self.hub

    def _open(self, before: Hub | None) -> Hub:
        return Hub(
            {"one_call": one_call, "waits": waits},
            {"upper": str.upper},
            {"counter": counter},
            path=self._path,
            clock=before.clock if before else None,
            timeouts=VisibilityTimeouts(timedelta(minutes=2), timedelta(minutes=5)),
        )


@pytest.fixture
def hubs(tmp_path: Path) -> Hubs:
    return Hubs(tmp_path / "hub.sqlite3")


def test_an_activity_of_a_killed_host_comes_back_at_the_end_of_its_timeout(
    hubs: Hubs, caplog: pytest.LogCaptureFixture
) -> None:
    """The next process runs it then and not before, and its log has the time."""
    one = hubs.hub.start("one_call", "x")
    hubs.hub.run_episode(hubs.hub.engine.next_episode())  # type: ignore[arg-type]  # there is one
    assert hubs.hub.engine.next_activity() is not None
    hub = hubs.kill()
    assert "had received 1 messages and activity calls. They are delivered again by 2026-03-01T12:05:00" in caplog.text
    hub.advance(minutes=4, seconds=59)
    assert (hub.calls, hub.outcome(one)[0]) == ([], "Running")
    hub.advance(seconds=1)
    assert hub.outcome(one) == ("Completed", "X")


def test_messages_of_a_killed_host_have_a_timeout_of_their_own(hubs: Hubs) -> None:
    """An episode that was taken is played again when the timeout of its messages ends; so is a batch of an entity."""
    one = hubs.hub.start("one_call", "x")
    hubs.hub.entities.signal("counter", "k", "add", None)
    assert hubs.hub.engine.next_episode() is not None
    assert hubs.hub.entities.next_batch() is not None
    hub = hubs.kill()
    hub.advance(seconds=119)
    assert (hub.outcome(one)[0], hub.entities.state("counter", "k")) == ("Pending", None)
    hub.advance(seconds=1)
    assert (hub.outcome(one), hub.entities.state("counter", "k")) == (("Completed", "X"), "1")


def test_what_was_not_taken_goes_on_at_once(hubs: Hubs) -> None:
    """A message that no host had taken at the kill is visible to the next one."""
    one = hubs.hub.start("waits")
    hubs.hub.run()
    hubs.hub.raise_event(one, "go", 1)
    hub = hubs.kill()
    hub.run()
    assert hub.outcome(one) == ("Completed", 1)


def test_two_kills_in_a_row(hubs: Hubs) -> None:
    """A second kill before the timeout ends changes nothing; one after the work was taken again starts it again."""
    one = hubs.hub.start("one_call", "x")
    hubs.hub.run_episode(hubs.hub.engine.next_episode())  # type: ignore[arg-type]  # there is one
    hubs.hub.engine.next_activity()
    hubs.kill().advance(minutes=3)
    hubs.kill().advance(minutes=1, seconds=59)
    assert hubs.hub.engine.next_activity() is None
    hubs.hub.clock.advance(timedelta(seconds=1))
    assert hubs.hub.engine.next_activity() is not None
    hub = hubs.kill()
    hub.advance(minutes=4, seconds=59)
    assert hub.calls == []
    hub.advance(seconds=1)
    assert hub.outcome(one) == ("Completed", "X")


def test_what_is_visible_again_wakes_nobody_while_it_waits_for_a_slot(hubs: Hubs) -> None:
    """The next wake-up is never an instant that is over, for which a busy host would wake again and again."""
    hubs.hub.start("one_call", "x")
    hubs.hub.run_episode(hubs.hub.engine.next_episode())  # type: ignore[arg-type]  # there is one
    hubs.hub.start("waits")
    hubs.hub.entities.signal("counter", "k", "add", None)
    assert all((hubs.hub.engine.next_activity(), hubs.hub.engine.next_episode(), hubs.hub.entities.next_batch()))
    hub = hubs.kill()
    assert hub.engine.idle
    hub.clock.advance(timedelta(minutes=5))
    assert hub.engine.next_wake() is None
    assert not hub.engine.idle
    assert all((hub.engine.next_activity(), hub.engine.next_episode(), hub.entities.next_batch()))


def test_a_living_host_extends_the_timeout_of_an_activity(hubs: Hubs) -> None:
    """After a kill the activity is visible five minutes after the last extension, not after it was taken.

    RenewUntil in TaskActivityDispatcher.cs of DurableTask.Core.
    """
    one = hubs.hub.start("one_call", "x")
    hubs.hub.run_episode(hubs.hub.engine.next_episode())  # type: ignore[arg-type]  # there is one
    hubs.hub.engine.next_activity()
    hubs.hub.clock.advance(timedelta(minutes=4))
    hubs.hub.engine.renew()
    hub = hubs.kill()
    hub.advance(minutes=4, seconds=59)
    assert hub.calls == []
    hub.advance(seconds=1)
    assert hub.outcome(one) == ("Completed", "X")


def test_events_wait_for_a_start_that_is_hidden(hubs: Hubs) -> None:
    """An event that comes between a kill and the return of the start is not lost, and not played before it."""
    one = hubs.hub.start("waits")
    assert hubs.hub.engine.next_episode() is not None
    hub = hubs.kill()
    hub.raise_event(one, "go", 1)
    hub.run()
    assert hub.outcome(one)[0] == "Pending"
    hub.advance(minutes=2)
    assert hub.outcome(one) == ("Completed", 1)


class _Hanging:
    """The functions of an app whose activity never ends."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self.called = asyncio.Event()

    async def run_orchestrators(self, calls: Sequence[OrchestratorCall]) -> Sequence[str]:
        return [self._hub.play(call.name, call.context) for call in calls]

    async def run_entity(self, name: str, entity_id: str, batch: str) -> str:
        raise NotImplementedError

    async def run_activity(self, name: str, instance_id: str, text: str | None) -> str:
        self.called.set()
        await asyncio.Event().wait()
        return ""


async def test_a_renewal_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """After it a kill would make running work visible too early."""
    timeouts = VisibilityTimeouts(activities=timedelta(milliseconds=100))
    hub = Hub({"one_call": one_call}, {"upper": str.upper}, timeouts=timeouts)
    hub.start("one_call", "x")
    functions = _Hanging(hub)
    runner = Runner(hub.engine, hub.entities, functions, max_episodes=1, max_activities=1, max_entities=1)
    running = asyncio.create_task(runner.run())
    await asyncio.wait_for(functions.called.wait(), 30)
    hub.store.close()
    deadline = asyncio.get_running_loop().time() + 30
    while "a task of the durable engine has failed" not in caplog.text:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)
    running.cancel()


async def test_a_stopped_host_gives_back_what_it_has_taken(hubs: Hubs) -> None:
    """The activity that it did not wait for is run by the next process at once."""
    one = hubs.hub.start("one_call", "x")
    functions = _Hanging(hubs.hub)
    runner = Runner(hubs.hub.engine, hubs.hub.entities, functions, max_episodes=1, max_activities=1, max_entities=1)
    running = asyncio.create_task(runner.run())
    await asyncio.wait_for(functions.called.wait(), 30)
    await runner.drain(timeout=0.01)
    await running
    hub = hubs.kill()
    hub.run()
    assert hub.outcome(one) == ("Completed", "X")
