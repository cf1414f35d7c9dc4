"""Webhooks under lost, doubled and late messages, failing receivers and crashes; planted faults are found."""

from __future__ import annotations

import importlib
from contextvars import ContextVar
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.webhooks.webhooks import Answer
from tests.simulation import protocols
from tests.simulation.faults import Odds
from tests.simulation.plans import Plan, plan_of
from tests.simulation.world import Report, simulate

pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")

#: short lives, and more faults of the app's own calls than of anything else
PLAN = Plan(
    jobs=3,
    faults_end_after=timedelta(minutes=15),
    request_types=(protocols.ONE_STEP,),
    odds=Odds(unavailable=0.04, answer_lost=0.03, crash=0.01),
    events=True,
    hooks=True,
)


def world(seed: int) -> Report:
    return simulate(seed, PLAN)


def is_found(seeds: range) -> bool:
    return any(world(seed).violations for seed in seeds)


def test_each_matching_event_is_delivered_or_dead() -> None:
    reports = [world(seed) for seed in range(8)]
    assert [report.violations for report in reports if report.violations] == []
    assert sum(report.crashes for report in reports) > 8
    for what in ("delivery DELIVERED", "delivery DEAD", "posts"):
        assert sum(report.events[what] for report in reports) > 3, what


@pytest.mark.long
def test_it_is_so_in_every_plan() -> None:
    for seed in range(200):
        report = simulate(seed, replace(plan_of(seed), events=True, hooks=True))
        assert report.violations == [], seed


async def _nothing(*_args: Any, **_options: Any) -> None:
    return None


@pytest.mark.parametrize("what", ["send_tries", "send_delivery_calls"])
def test_messages_that_nobody_sends_again(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost tries; lost probes, and lost messages of those that catch up."""
    # a world in which they are sent again has settled by half of it
    monkeypatch.setattr("tests.simulation.world.MAX_SETTLING", timedelta(hours=8))
    monkeypatch.setattr(importlib.import_module("shared.operations.sweeper.heal_deliveries"), what, _nothing)
    assert is_found(range(10))


def test_a_hook_that_head_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process with an outdated memory of the webhooks continues to write."""
    memory = importlib.import_module("tests.memory_stores").MemoryHooks
    original = memory.write

    async def aside(self: Any, write: Any) -> Any:
        return await original(self, replace(write, hooks=write.head.hooks) if write.head is not None else write)

    monkeypatch.setattr(memory, "write", aside)
    # most seeds before show nothing
    assert is_found(range(6, 46))


def test_a_delivery_that_is_written_before_it_is_posted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that dies in between has posted nothing."""
    delivering = importlib.import_module("shared.operations.webhooks.deliver_webhooks")

    async def too_early(context: Any, stored: Any, row: Any, call: Any) -> None:
        await delivering._write(context, stored, row, call, Answer(status=200))
        event = await delivering._event(context, row.delivery)
        url = await delivering._url(context, stored.hook, row.delivery)
        await delivering.post(context, stored.hook, url, delivering.webhook_id(row.delivery), event.text)

    monkeypatch.setattr(delivering, "_deliver", too_early)
    assert is_found(range(10))


def test_a_delivery_row_apart_from_the_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own call writes it after the events: a process that dies in between has written none."""
    telling = importlib.import_module("shared.operations.events.feed_writer")
    original = telling._FeedWriter._write_some
    # each task has its own: two writers run at the same time
    writes: ContextVar[list[Any]] = ContextVar("writes")

    async def apart(self: Any, known: Any) -> Any:
        mine: list[Any] = []
        writes.set(mine)
        await original(self, known)
        made = [
            row
            for args in mine
            for row in importlib.import_module("shared.operations.webhooks.match_hooks").pending_of(*args)
        ]
        if made:
            await self._context.events.hooks.write(
                importlib.import_module("shared.ports.hooks").HookWrite(
                    tenant=self._tenant, deliveries=[(None, row) for row in made]
                )
            )
        return made

    monkeypatch.setattr(telling, "pending_of", lambda *args: writes.get().append(args) or [])
    monkeypatch.setattr(telling._FeedWriter, "_write_some", apart)
    assert is_found(range(10))
