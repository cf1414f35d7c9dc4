"""Results of deliveries: read in pages, sent again, and deleted with their events (R84)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.core.webhooks.webhooks import Answer, DeliveryState, HookState
from shared.errors import LedgerUnavailable
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.webhooks.prune_deliveries import prune_deliveries
from shared.operations.webhooks.webhooks import (
    list_deliveries,
    redeliver,
    remove_hook,
)
from shared.refusals import FilterInvalid
from shared.webhook_refusals import DeliveryNotFound
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.worlds.webhooks import TENANT, Hooked, happened, hooked

BY = "user:somebody"


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def test_pages_of_deliveries(given: Hooked) -> None:
    hook = await given.hook()
    await given.finished()
    await given.delivered()
    given.receiver.answer = Answer(status=500)
    await given.finished(idempotency_key="2")
    context = given.world.context
    whole = await given.deliveries(hook)
    waiting = [each.number for each in whole if each.state is DeliveryState.PENDING]
    ended = [each.number for each in whole if each.state is DeliveryState.DELIVERED]
    assert waiting == sorted(waiting)
    assert ended == sorted(ended, reverse=True)
    assert [each.number for each in whole] == waiting + ended
    for state in (None, DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.DEAD):
        found, after = [], None
        while True:
            page, after = await list_deliveries(context, TENANT, hook.id, state=state, after=after, limit=2)
            found += page
            assert len(page) <= 2
            if after is None:
                break
        assert found == [each for each in whole if state in (None, each.state)]
    for cursor in ("x", "eA==", "cDEyMw"):
        with pytest.raises(FilterInvalid):
            await list_deliveries(context, TENANT, hook.id, state=None, after=cursor, limit=2)


async def test_a_delivery_is_sent_again(given: Hooked) -> None:
    hook = await given.hook(filter={"types": frozenset({"job.completed"})})
    await given.finished()
    await given.delivered()
    [row] = await given.deliveries(hook)
    for _ in range(2):
        again = await redeliver(given.world.context, TENANT, hook.id, row.number, "", BY)
        assert again.state is DeliveryState.PENDING
    await given.delivered()
    assert len(given.receiver.got) == 2
    assert len(set(given.receiver.ids)) == 1
    assert [each.state for each in await given.deliveries(hook)] == [DeliveryState.DELIVERED]
    await given.feed.remove(TENANT, before=given.world.clock.now() + timedelta(1), limit=100)
    with pytest.raises(DeliveryNotFound):
        await redeliver(given.world.context, TENANT, hook.id, row.number, "", BY)


async def test_a_delivery_that_is_asked_for_while_it_is_tried(given: Hooked) -> None:
    """The try in progress counts as the requested one."""
    hook = await given.hook(filter={"types": frozenset({"job.completed"})})
    await given.finished()
    [row] = await given.deliveries(hook)

    async def ask() -> None:
        given.receiver.meanwhile = None
        given.world.clock.advance(1)
        await redeliver(given.world.context, TENANT, hook.id, row.number, "", BY)
        await given.delivered()

    given.receiver.meanwhile = ask
    await given.delivered()
    assert [(each.state, each.tries) for each in await given.deliveries(hook)] == [(DeliveryState.DELIVERED, 1)]
    assert len(given.receiver.got) == 1


async def test_old_deliveries_go_with_their_events(given: Hooked) -> None:
    hook, removed = await given.hook(), await given.hook("https://other.example")
    await given.finished(callback_urls={"done": "https://a.example"})
    given.receiver.answer = Answer(status=500)
    await given.delivered()
    await remove_hook(given.world.context, TENANT, removed.id, BY)
    given.queue.sent.clear()
    count = len(await given.deliveries(hook))
    given.world.clock.advance(given.world.context.settings.feed_days * 86_400 + 1)
    assert await prune_feeds(given.world.context) > 0
    assert await given.feed.hooks.pending(TENANT, None, limit=100) == []
    rows = await given.deliveries(hook)
    assert {(each.state, each.error) for each in rows} == {(DeliveryState.DEAD, "EXPIRED")}
    numbers = [each.number for each in rows]
    common = {"status": "ENABLED", "reason": "EXPIRED"}
    assert [event["data"]["payload"] for event in await given.events("webhook.dead")] == [
        {**common, "deliveries": 1, "first": max(numbers), "last": max(numbers)},
        {**common, "deliveries": count, "first": min(numbers), "last": max(numbers)},
    ]
    given.world.clock.advance(given.world.context.settings.feed_days * 86_400 + 1)
    await prune_feeds(given.world.context)
    assert await given.deliveries(hook) == []
    assert await given.feed.hooks.hooks_with_ended(TENANT) == []
    assert (await given.now(hook)).state is HookState.ENABLED


async def test_many_that_are_given_up_with_their_events_are_one_event(given: Hooked) -> None:
    """A process that dies meanwhile leaves the rest to the sweeper."""
    hook = await given.hook(filter={"types": frozenset({"job.completed"})})
    await given.finished()
    await happened(given, 100, hook)
    given.world.clock.advance(given.world.context.settings.feed_days * 86_400 + 1)
    before = given.world.clock.now() - timedelta(days=given.world.context.settings.feed_days)
    with failing(given.feed.hooks, "write", at=[2]), pytest.raises(LedgerUnavailable):
        await prune_deliveries(given.world.context, TENANT, before)
    head = await given.feed.head(TENANT)
    await given.healed()
    await prune_deliveries(given.world.context, TENANT, before)
    assert {row.state for row in await given.deliveries(hook)} == {DeliveryState.DEAD}
    dead = await given.events("webhook.dead")
    assert sum(event["data"]["payload"]["deliveries"] for event in dead) == 101
    assert len(dead) == 2
    assert (await given.feed.head(TENANT)).number == head.number + 2
