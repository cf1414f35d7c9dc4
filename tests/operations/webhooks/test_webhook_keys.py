"""A webhook that is requested again under its idempotency key is the same one (R84)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from shared.core.webhooks.webhooks import Hook, HookFilter
from shared.errors import LedgerUnavailable
from shared.operations.process.context import Context
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.webhooks.webhooks import HookRequest as Request
from shared.operations.webhooks.webhooks import (
    change_hook,
    create_hook,
    list_hook_log,
    list_hooks,
    remove_hook,
    rotate_hook,
)
from shared.webhook_refusals import HookKeyConflict
from tests.contexts import changed
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.interleave import Meeting, every_order
from tests.worlds.webhooks import TENANT, Hooked, hooked

BY = "user:somebody"


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def test_a_webhook_that_is_asked_for_again(given: Hooked) -> None:
    """Under its key it is the same one, for any order of the requests; nothing is delivered twice."""
    context, other = given.world.context, changed(given.world.context, known_feeds=KnownFeeds())
    request = Request(url="https://receiver.example", description="billing")
    found = [await create_hook(each, TENANT, request, BY, key="mine") for each in (context, other, context)]
    assert [replayed for _, replayed in found] == [False, True, True]
    assert len({hook.id for hook, _ in found}) == 1
    both = await asyncio.gather(*(create_hook(each, TENANT, request, BY, key="two") for each in (context, other)))
    assert sorted(replayed for _, replayed in both) == [False, True]
    assert len(await list_hooks(context, TENANT)) == 2
    made, _ = await create_hook(context, TENANT, request, BY)
    another, _ = await create_hook(context, "tenant_b", request, BY, key="mine")
    assert len({made.id, another.id, *(hook.id for hook, _ in (*found, *both))}) == 4
    assert [each.type for each in await list_hook_log(context, TENANT, found[0][0].id)] == ["CREATED"]


async def test_an_answer_that_was_lost_is_asked_for_again(given: Hooked) -> None:
    """The client does not know whether it was written: it was, and the same secret signs."""
    context, request = given.world.context, Request(url="https://receiver.example")
    failing(given.feed.hooks, "write", at=[1], after=True)
    with pytest.raises(LedgerUnavailable):
        await create_hook(context, TENANT, request, BY, key="mine")
    hook, replayed = await create_hook(context, TENANT, request, BY, key="mine")
    assert (replayed, hook, hook.secret.version) == (True, await given.now(hook), 1)
    assert given.secrets(hook) == given.secrets(await given.now(hook))
    await given.finished()
    assert len(await given.deliveries(hook)) == len(await given.events("job."))


@pytest.mark.parametrize(
    "since", ["another body", "other events", "none before", "changed", "rotated", "removed", "forgotten"]
)
async def test_a_key_of_another_webhook(given: Hooked, since: str) -> None:
    """Its secret is not shown again, and a removed webhook is not created again while its log is kept."""
    context, request = given.world.context, Request(url="https://receiver.example", after=2)
    await given.finished()
    hook, _ = await create_hook(context, TENANT, request, BY, key="mine")
    await given.delivered()
    match since:
        case "another body":
            request = replace(request, filter=HookFilter(types=frozenset({"job.failed"})))
        case "other events":
            request = replace(request, after=1)
        case "none before":
            request = replace(request, after=None)
        case "changed":
            await change_hook(context, TENANT, hook.id, {"description": "x"}, BY)
        case "rotated":
            await rotate_hook(context, TENANT, hook.id, BY)
        case _:
            await remove_hook(context, TENANT, hook.id, BY)
    if since == "forgotten":
        await given.feed.hooks.drop_log(TENANT, hook.id, limit=100)
        again, replayed = await create_hook(context, TENANT, request, BY, key="mine")
        assert (replayed, again.id, again) == (False, hook.id, await given.now(hook))
        # it may have been removed since its secret leaked
        assert given.secrets(again) != given.secrets(hook)
        return
    with pytest.raises(HookKeyConflict, match=hook.id):
        await create_hook(context, TENANT, request, BY, key="mine")
    assert len(await list_hooks(context, TENANT)) == (since != "removed")


async def _meets(meeting: Meeting, *, apart: bool, removes: bool) -> None:
    given = hooked(meeting.world)
    hooks, feed = meeting.port(given.feed.hooks), meeting.port(given.feed)
    context = changed(given.world.context, hooks=hooks, feed=feed)
    request = Request(url="https://receiver.example", after=0)

    async def creates(by: Context) -> tuple[Hook, bool]:
        return await create_hook(by, TENANT, request, BY, key="mine")

    async def ends(by: Context) -> None:
        for hook in await list_hooks(by, TENANT):
            await remove_hook(by, TENANT, hook.id, BY)

    contexts = [changed(context, known_feeds=KnownFeeds()) if apart else context for _ in range(2)]
    works = {"one": creates(contexts[0]), "two": creates(contexts[1])}
    found = await meeting.at_once(**works, **({"removal": ends(contexts[1])} if removes else {}))
    made = [found[name].value for name in works if found[name].error is None]
    failed = [found[name].error for name in works if found[name].error is not None]
    # a removal may come between the two
    assert len(failed) <= removes
    assert all(isinstance(each, HookKeyConflict) for each in failed), failed
    assert [replayed for _, replayed in made].count(False) == 1
    [(id_, _)] = {(hook.id, hook.secret.salt) for hook, _ in made}
    acts = [each.type for each in await list_hook_log(given.world.context, TENANT, id_)]
    is_there = [hook.id for hook in await list_hooks(given.world.context, TENANT)] == [id_]
    assert acts == (["CREATED"] if is_there else ["CREATED", "REMOVED"])
    assert is_there or removes


@pytest.mark.parametrize("apart", [False, True], ids=["one process", "two processes"])
def test_two_requests_under_one_key_in_every_order(apart: bool) -> None:
    """Race hook-key: both get the same webhook, in each order of their calls."""
    assert every_order(lambda meeting: _meets(meeting, apart=apart, removes=False)) > 10


def test_a_removal_between_two_requests_under_one_key() -> None:
    """The webhook is made once: the later request gets it while it is there, and a conflict once it is removed."""
    assert every_order(lambda meeting: _meets(meeting, apart=True, removes=True), interruptions=1) > 10


async def test_ten_requests_under_one_key_at_once(given: Hooked) -> None:
    """From ten processes."""
    request = Request(url="https://receiver.example")
    contexts = [changed(given.world.context, known_feeds=KnownFeeds()) for _ in range(10)]
    found = await asyncio.gather(*(create_hook(each, TENANT, request, BY, key="mine") for each in contexts))
    assert sorted(replayed for _, replayed in found) == [False] + [True] * 9
    assert len({(hook.id, *given.secrets(hook)) for hook, _ in found}) == 1
