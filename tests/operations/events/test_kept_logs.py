"""Remaining rows of the logs of incidents and webhooks are deleted daily, and no event is repeated because of that
(R88).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.core.events.hints import Hint, decode_hint, encode_hint
from shared.core.incidents import Incident, IncidentKind
from shared.core.webhooks.hook_log import SYSTEM
from shared.core.webhooks.webhooks import MAX_LOG, Answer, DeliveryState, HookAct
from shared.operations.events.feed_writer import FORGETTABLE_AFTER, write_feed
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.incidents import incidents
from shared.operations.process.known_feeds import ComparedLogs, KnownFeeds
from shared.operations.sweeper.logs import compare_incidents
from shared.operations.webhooks.change_hooks import LoggedHookChange, write_change
from shared.operations.webhooks.webhooks import list_hook_log, remove_hook
from tests.contexts import changed
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.worlds.webhooks import TENANT, Hooked, hooked

GATE = "0f3a5b7c9d1e2f40"
GONE = FORGETTABLE_AFTER + timedelta(days=1)


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def opened(given: Hooked) -> Incident:
    return await incidents.raise_incident(
        given.world.context, IncidentKind.BREAKER, GATE, tenant=TENANT, code="BREAKER_OPENED"
    )


async def settled(given: Hooked) -> None:
    await incidents.settle_incident(given.world.context, IncidentKind.BREAKER, GATE, "over")


async def hinted(given: Hooked) -> list[Hint]:
    """Returns the received hints, decoded."""
    assert given.world.context.events is not None
    await given.world.context.events.hinting.settle()
    sent, given.hints.sent = given.hints.sent, []
    return [found for hint, _ in sent if (found := decode_hint(encode_hint(hint))) is not None]


def another_process(given: Hooked) -> Hooked:
    """That remembers nothing of the feeds."""
    context = changed(given.world.context, known_feeds=KnownFeeds(), compared_logs=ComparedLogs())
    return replace(given, world=replace(given.world, context=context))


async def pruned(given: Hooked, span: timedelta, hour: int = 3) -> None:
    """By the prune of an hour, after a span at the earliest."""
    at = given.world.clock.now() + span
    first = at.replace(hour=hour, minute=7, second=0, microsecond=0)
    given.world.clock.time = first if first >= at else first + timedelta(days=1)
    await prune_feeds(given.world.context)


async def ids(given: Hooked, after: int = 0) -> list[str]:
    return [each.event_id for each in await given.feed.events(TENANT, after=after, limit=1000)]


@pytest.mark.parametrize("late", ["first", "last", "each", "without events"])
async def test_an_incident_that_is_over_is_forgotten_and_comes_no_second_time(given: Hooked, late: str) -> None:
    """Also where its hints come once more, to a process that knows nothing of it."""
    incident = await opened(given)
    given.world.clock.advance(60)
    await settled(given)
    hints = await hinted(given)
    await write_feed(given.world.context, hints)
    assert await ids(given) == [f"{incident.id}:{seq}:0" for seq in (1, 2)]
    await pruned(given, FORGETTABLE_AFTER)
    assert await given.feed.read_seen(TENANT, incident.id) == 2
    await pruned(given, timedelta(days=1, hours=1))
    assert await given.feed.read_seen(TENANT, incident.id) == 0
    again: Sequence[Hint] = {
        "first": hints[:1],
        "last": hints[-1:],
        "each": hints,
        "without events": [replace(hint, events=None) for hint in hints],
    }[late]
    for process in (given, another_process(given)):
        await write_feed(process.world.context, again)
        assert (await given.feed.head(TENANT)).number == 2
    # its rows are deleted like the first ones
    await pruned(given, GONE + timedelta(hours=1))
    assert await given.feed.read_seen(TENANT, incident.id) == 0


async def test_an_incident_that_is_open_for_long(given: Hooked) -> None:
    """Its row is deleted and written again without an event; later an operator settles it, and another one opens."""
    incident = await opened(given)
    await write_feed(given.world.context, await hinted(given))
    await pruned(given, GONE)
    assert await given.feed.read_seen(TENANT, incident.id) == 0
    process = another_process(given)
    await compare_incidents(process.world.context, lambda: False, whole=True)
    await write_feed(process.world.context, await hinted(given))
    assert await given.feed.read_seen(TENANT, incident.id) == 1
    await pruned(given, GONE)
    await settled(given)
    next_one = await opened(given)
    await write_feed(another_process(given).world.context, await hinted(given))
    await compare_incidents(process.world.context, lambda: False, whole=True)
    assert await ids(given) == [f"{incident.id}:2:0", f"{next_one.id}:1:0"]
    assert (await given.feed.head(TENANT)).number == 3
    assert await hinted(given) == []


async def test_rows_are_looked_for_once_a_day(given: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    await opened(given)
    await write_feed(given.world.context, await hinted(given))
    looks: list[int] = []

    async def look(*_args: Any, **_options: Any) -> int:
        looks.append(given.world.clock.now().hour)
        return 0

    monkeypatch.setattr(given.feed, "forget_incidents", look)
    for _ in range(48):
        given.world.clock.advance(3600)
        await prune_feeds(given.world.context)
    assert looks == [3, 3]


async def refused(given: Hooked, hook_id: str, count: int) -> None:
    """Writes this number of entries of given-up deliveries, a minute apart."""
    for _ in range(count):
        given.world.clock.advance(60)
        stored = await given.feed.hooks.read(TENANT, hook_id)
        assert stored is not None
        change = LoggedHookChange(act=HookAct.DEAD, before=stored, after=stored.hook, actor=SYSTEM)
        await write_change(given.world.context, TENANT, change)


async def test_a_webhook_s_log_keeps_what_is_shown(given: Hooked) -> None:
    """Its last entries stay chained; a process that dies during the deletion leaves the rest to the next day."""
    hook, other = await given.hook(), await given.hook("https://other.example")
    await refused(given, hook.id, MAX_LOG + 120)
    shown = await list_hook_log(given.world.context, TENANT, hook.id)
    hooks = given.feed.hooks
    with failing(hooks, "drop_log", at=[2]):
        await pruned(given, timedelta(hours=1))
    assert len(await hooks.log(TENANT, hook.id, after=0, limit=9999)) == MAX_LOG + 21
    await pruned(given, timedelta(hours=1))
    kept = await hooks.log(TENANT, hook.id, after=0, limit=9999)
    assert kept == shown == await list_hook_log(given.world.context, TENANT, hook.id)
    assert [each.seq for each in kept] == list(range(122, MAX_LOG + 122))
    assert all(after.prev_hash == before.hash for before, after in itertools.pairwise(kept))
    assert len(await list_hook_log(given.world.context, TENANT, other.id)) == 1


@pytest.mark.parametrize("retention", [None, 10])
async def test_the_log_of_a_webhook_that_is_no_more(given: Hooked, retention: int | None) -> None:
    """It has its own retention, so that it is deleted where jobs are kept without limit."""
    settings = replace(given.world.context.settings, retention_days=retention, change_log_days=40)
    given = replace(given, world=replace(given.world, context=replace(given.world.context, settings=settings)))
    removed, kept = await given.hook(), await given.hook("https://other.example")
    await remove_hook(given.world.context, TENANT, removed.id, "user:somebody")
    await pruned(given, timedelta(days=39))
    assert [each.type for each in await list_hook_log(given.world.context, TENANT, removed.id)] == [
        "CREATED",
        "REMOVED",
    ]
    await pruned(given, timedelta(days=2))
    assert await given.feed.hooks.log(TENANT, removed.id, after=0, limit=9) == []
    assert [each.type for each in await list_hook_log(given.world.context, TENANT, kept.id)] == ["CREATED"]


async def test_the_log_of_callbacks_is_bounded_too(given: Hooked) -> None:
    given.receiver.answer = Answer(status=410)
    await given.finished(callback_urls={"done": "https://a.example"})
    await given.delivered()
    assert [row.state for row in await given.deliveries()] == [DeliveryState.DEAD]
    await refused(given, "default", MAX_LOG + 3)
    await pruned(given, timedelta(hours=1))
    assert len(await given.feed.hooks.log(TENANT, "default", after=0, limit=9999)) == MAX_LOG
