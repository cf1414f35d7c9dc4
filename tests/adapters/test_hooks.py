"""Rows of webhooks: transactions, ETags, and the order of reads."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.access.caller import Caller
from shared.adapters.scoped.stores import TenantHooks
from shared.core.webhooks.hook_log import append_hook_entry, make_hook_event
from shared.core.webhooks.webhooks import (
    Answer,
    Delivery,
    DeliveryState,
    Hook,
    HookAct,
    HookFilter,
    HookFormat,
    HookState,
    SecretVersion,
)
from shared.errors import Conflict
from shared.operations.events.prune_feeds import prune_feeds
from shared.operations.webhooks.webhooks import change_hook, list_hook_log, redeliver, remove_hook
from shared.ports.feed import FeedEvent, FeedWrite, Head
from shared.ports.hooks import HookWrite, StoredDelivery
from tests.adapters.conftest import Storage
from tests.jobs import START
from tests.operations.conftest import World, world
from tests.worlds.webhooks import hooked_on_tables

__all__ = ["world"]  # a fixture of the operations' tests

TENANT = "tenant/ä"
HOOK = Hook(
    id="hook_0123",
    tenant=TENANT,
    url="https://receiver.example/in?x=1",
    format=HookFormat.SLACK,
    filter=HookFilter(types=frozenset({"job.completed"}), job_types=frozenset({"OCR"}), labels={"ä": "b'"}),
    description="for 'us'",
    state=HookState.SUSPENDED,
    state_reason="NO_SUCCESS",
    created_at=START,
    created_by="user:x",
    updated_at=START,
    first=10**12,
    caught_up=10**12 - 5,
    secret=SecretVersion(version=2, key_id="k2", salt="b"),
    previous=SecretVersion(version=1, key_id="k1", salt="a"),
    previous_until=START + timedelta(days=1),
    failures=7,
    failing_since=START,
    succeeded_at=START,
    waits_until=START,
    waits=2,
    probe=9,
    log_seq=0,
)
PLAIN = Hook(
    id="hook_1",
    tenant=TENANT,
    url=None,
    created_at=START,
    created_by="system",
    updated_at=START,
    first=0,
    secret=SecretVersion(version=1, key_id="k1", salt="a"),
)


def delivery(number: int, hook_id: str = HOOK.id, name: str = "", state: str = "PENDING") -> Delivery:
    return Delivery(
        tenant=TENANT,
        hook_id=hook_id,
        number=number,
        name=name,
        event_id=f"job_1:{number}:0",
        event_type="job.completed",
        job_id="job_1",
        created_at=START,
        state=DeliveryState(state),
        due_at=START if state == "PENDING" else None,
        ended_at=START if state != "PENDING" else None,
    )


def event(number: int, text: str = "{}") -> FeedEvent:
    return FeedEvent(
        number=number, event_id=f"x:{number}:0", event_type="job.completed", job_id="job_1", at=START, text=text
    )


async def fed(storage: Storage, *deliveries: Delivery, head: Head | None = None) -> Head:
    head = head or await storage.feed.head(TENANT)
    write = FeedWrite(tenant=TENANT, head=head, events=[event(head.number + 1)], seen={}, pending=deliveries)
    return await storage.feed.write(write)


async def only(storage: Storage, number: int, hook_id: str = HOOK.id, name: str = "") -> StoredDelivery:
    found = await storage.hooks.delivery(TENANT, hook_id, number, name)
    assert found is not None
    return found


@pytest.mark.parametrize("hook", [HOOK, PLAIN])
async def test_a_hook_is_read_as_it_was_written(storage: Storage, hook: Hook) -> None:
    hooks = storage.hooks
    assert await hooks.read(TENANT, hook.id) is None
    hook, entry = append_hook_entry(hook, HookAct.CREATED, actor="user:x", reason="", at=START, data={"host": "a"})
    head = await hooks.write(HookWrite(tenant=TENANT, head=Head(), hooks=1, after=hook, entry=entry))
    assert head == await storage.feed.head(TENANT)
    assert head is not None
    assert (head.number, head.hooks) == (0, 1)
    stored = await hooks.read(TENANT, hook.id)
    assert stored is not None
    assert stored.hook == hook
    assert await hooks.all_of(TENANT) == [stored]
    assert await hooks.all_of("another") == []
    assert await hooks.log(TENANT, hook.id, after=0, limit=10) == [entry]
    assert await hooks.log(TENANT, hook.id, after=1, limit=10) == []
    # the feed continues with the number of webhooks
    assert (await fed(storage)).hooks == 1
    # nothing that was there stays in a column that is empty now
    cleared = replace(hook, state_reason=None, waits_until=None, previous=None, caught_up=None, url=None)
    await hooks.write(HookWrite(tenant=TENANT, before=stored, after=cleared))
    stored = await hooks.read(TENANT, hook.id)
    assert stored is not None
    assert stored.hook == cleared
    await hooks.write(HookWrite(tenant=TENANT, head=await storage.feed.head(TENANT), before=stored))
    assert await hooks.read(TENANT, hook.id) is None
    assert (await storage.feed.head(TENANT)).hooks == 0


async def test_a_change_with_its_event_is_one_transaction(storage: Storage) -> None:
    hooks = storage.hooks
    await hooks.write(HookWrite(tenant=TENANT, head=Head(), hooks=1, after=HOOK))
    head = await fed(storage, delivery(1), delivery(1, "default", "ä/#"))
    stored = await hooks.read(TENANT, HOOK.id)
    assert stored is not None
    hook, entry = append_hook_entry(
        stored.hook, HookAct.DEAD, actor="system", reason="HTTP_400", at=START, data={"first": 1}
    )
    assert make_hook_event(hook, entry) is not None
    dead = replace(delivery(1), state=DeliveryState.DEAD, ended_at=START, due_at=None, status=400, tries=3, refusals=3)
    row = await only(storage, 1)
    write = HookWrite(
        tenant=TENANT,
        head=head,
        hooks=1,
        events=[event(2, "x" * 24_000)],
        before=stored,
        after=hook,
        entry=entry,
        deliveries=[(row, dead)],
    )
    # nothing is written if HEAD, the webhook or the row differs from the read one
    for stale in (
        replace(write, head=replace(head, etag=STALE)),
        replace(write, before=replace(stored, etag=STALE)),
        replace(write, deliveries=[(replace(row, etag=STALE), dead)]),
        replace(write, before=None),
    ):
        with pytest.raises(Conflict):
            await hooks.write(stale)
        assert await storage.feed.head(TENANT) == head
        assert await hooks.read(TENANT, HOOK.id) == stored
        assert await only(storage, 1) == row
    after = await hooks.write(write)
    assert after == await storage.feed.head(TENANT)
    assert (await only(storage, 1)).delivery == dead
    assert [each.number for each in await storage.feed.events(TENANT, after=0, limit=10)] == [1, 2]
    with pytest.raises(Conflict):
        await hooks.write(write)
    assert (await only(storage, 1, "default", "ä/#")).delivery.state is DeliveryState.PENDING


async def test_who_writes_the_feed_with_an_old_head_makes_no_delivery(storage: Storage) -> None:
    old = await fed(storage)
    await storage.hooks.write(HookWrite(tenant=TENANT, head=old, hooks=1, after=HOOK))
    with pytest.raises(Conflict):
        await fed(storage, delivery(2), head=old)
    assert await storage.hooks.pending(TENANT, None, limit=10) == []


async def test_what_waits_is_read_oldest_first_and_what_ended_newest_first(storage: Storage) -> None:
    hooks, other = storage.hooks, "hook_9"
    waiting = [delivery(number) for number in (2, 10, 10**15)] + [delivery(7, other)]
    named = [delivery(3, "default", name) for name in ("a", "b", "x" * 300, "/")]
    states = {number: "DEAD" if number % 2 else "DELIVERED" for number in (1, 4, 20, 300)}
    ended = [delivery(number, state=state) for number, state in states.items()]
    await fed(storage, *waiting, *named)
    await hooks.write(HookWrite(tenant=TENANT, deliveries=[(None, each) for each in ended]))

    found = [row.delivery for row in await hooks.pending(TENANT, HOOK.id, limit=10)]
    assert found == waiting[:3]
    page = await hooks.pending(TENANT, HOOK.id, after=(2, ""), limit=1)
    assert [row.delivery for row in page] == waiting[1:2]
    assert await hooks.pending(TENANT, HOOK.id, after=(10**15, ""), limit=1) == []
    due = [row.delivery for row in await hooks.pending(TENANT, HOOK.id, due_before=START, limit=10)]
    assert due == []
    due_before = START + timedelta(seconds=1)
    others = [replace(waiting[0], due_at=None), replace(waiting[1], due_at=due_before)]
    for each, row in zip(others, await hooks.pending(TENANT, HOOK.id, limit=2), strict=True):
        await hooks.write(HookWrite(tenant=TENANT, deliveries=[(row, each)]))
    due = [row.delivery for row in await hooks.pending(TENANT, HOOK.id, due_before=due_before, limit=10)]
    assert due == waiting[2:3]
    everything = [row.delivery for row in await hooks.pending(TENANT, None, limit=100)]
    assert sorted(each.event_id for each in everything) == sorted(each.event_id for each in waiting + named)
    assert await hooks.hooks_with_pending(TENANT) == ["default", HOOK.id, other]
    of_default = [row.delivery.name for row in await hooks.pending(TENANT, "default", limit=10)]
    assert sorted(of_default) == sorted(each.name for each in named)
    assert [
        row.delivery.name for row in await hooks.pending(TENANT, "default", after=(3, of_default[1]), limit=10)
    ] == of_default[2:]

    assert [row.delivery.number for row in await hooks.list_ended(TENANT, HOOK.id, limit=10)] == [300, 20, 4, 1]
    page = await hooks.list_ended(TENANT, HOOK.id, after=(20, ""), limit=1)
    assert [row.delivery for row in page] == [ended[1]]
    only_dead = await hooks.list_ended(TENANT, HOOK.id, state=DeliveryState.DEAD, limit=10)
    assert [row.delivery.number for row in only_dead] == [1]


async def test_what_is_over_is_removed(storage: Storage) -> None:
    hooks = storage.hooks
    await fed(storage, delivery(1), delivery(1, "hook_9"), delivery(2, "hook_9"))
    old = [delivery(number, name=name, state="DELIVERED") for number, name in ((4, ""), (5, ""), (6, "a"), (6, "ä/"))]
    young = replace(delivery(7, state="DEAD"), ended_at=START + timedelta(seconds=1))
    kept, another = delivery(9, state="DELIVERED"), delivery(4, "hook_9", state="DEAD")
    await hooks.write(HookWrite(tenant=TENANT, deliveries=[(None, each) for each in (*old, young, kept, another)]))
    assert await hooks.hooks_with_ended(TENANT) == [HOOK.id, "hook_9"]
    before = START + timedelta(seconds=1)
    # two per page, with their names; none before the position
    for after, expected in (((8, ""), (6, "a")), ((6, "a"), (4, "")), ((4, ""), None)):
        assert await hooks.remove(TENANT, HOOK.id, before=before, after=after, limit=2) == expected
    assert {row.delivery.number for row in await hooks.list_ended(TENANT, HOOK.id, limit=10)} == {7, 9}
    assert await hooks.hooks_with_ended(TENANT) == [HOOK.id, "hook_9"]
    assert [await hooks.drop_pending(TENANT, "hook_9", limit=1) for _ in range(3)] == [1, 1, 0]
    assert await hooks.hooks_with_pending(TENANT) == [HOOK.id]


async def test_the_first_entries_of_a_log_go(storage: Storage) -> None:
    """Up to a number, or from before a time, of one webhook; webhooks with a log are listed, also deleted ones."""
    hooks = storage.hooks
    for hook in (replace(PLAIN, id="hook_1"), replace(PLAIN, id="hook_10")):
        after, before = hook, None
        for number in range(4):
            at = START + timedelta(hours=number)
            after, entry = append_hook_entry(after, HookAct.CHANGED, actor="x", reason="", at=at)
            await hooks.write(HookWrite(tenant=TENANT, before=before, after=after, entry=entry))
            before = await hooks.read(TENANT, hook.id)
    assert await hooks.drop_log(TENANT, "hook_1", to=1, limit=100) == 1
    assert await hooks.drop_log(TENANT, "hook_1", before=START + timedelta(hours=2), limit=100) == 1
    stored = await hooks.read(TENANT, "hook_1")
    await hooks.write(HookWrite(tenant=TENANT, before=stored))
    assert [each.seq for each in await hooks.log(TENANT, "hook_1", after=0, limit=9)] == [3, 4]
    assert sorted(await hooks.hooks_with_log(TENANT)) == ["hook_1", "hook_10"]
    assert [await hooks.drop_log(TENANT, "hook_1", limit=1) for _ in range(3)] == [1, 1, 0]
    assert await hooks.hooks_with_log(TENANT) == ["hook_10"]
    assert len(await hooks.log(TENANT, "hook_10", after=0, limit=9)) == 4
    await asyncio.gather(*(hooks.drop_log(TENANT, "hook_10", limit=9) for _ in range(2)))
    assert await hooks.hooks_with_log(TENANT) == []


async def test_tenants_that_are_noted(storage: Storage) -> None:
    hooks = storage.hooks
    assert await hooks.list_noted() == []
    for tenant in ("b", TENANT):
        await hooks.note(tenant, START)
    first = {each.tenant: each for each in await hooks.list_noted()}
    assert {tenant: each.noted_at for tenant, each in first.items()} == {"b": START, TENANT: START}
    await hooks.note("b", START + timedelta(hours=1))
    for each in first.values():
        await hooks.forget(each)
    # it was noted again meanwhile
    assert [(each.tenant, each.noted_at) for each in await hooks.list_noted()] == [("b", START + timedelta(hours=1))]


async def test_a_request_reaches_its_tenant_s_hooks_alone(storage: Storage) -> None:
    await storage.hooks.write(HookWrite(tenant=TENANT, head=Head(), hooks=1, after=HOOK))
    callers = (Caller(actor="a", scopes=frozenset(), tenant=tenant) for tenant in (TENANT, "another"))
    own, other = (TenantHooks(storage.hooks, caller, moving=True) for caller in callers)
    assert len(await own.all_of(TENANT)) == 1
    for call in (
        other.all_of(TENANT),
        other.read(TENANT, HOOK.id),
        other.log(TENANT, HOOK.id, after=0, limit=1),
        other.pending(TENANT, None, limit=1),
        other.list_ended(TENANT, HOOK.id, limit=1),
        other.delivery(TENANT, HOOK.id, 1, ""),
        other.hooks_with_pending(TENANT),
        other.note(TENANT, START),
        other.write(HookWrite(tenant=TENANT, after=replace(HOOK, id="hook_2"))),
        own.list_noted(),
        own.hooks_with_ended(TENANT),
        own.remove(TENANT, HOOK.id, before=START, after=(1, ""), limit=1),
        own.drop_pending(TENANT, HOOK.id, limit=1),
        own.hooks_with_log(TENANT),
        own.drop_log(TENANT, HOOK.id, limit=1),
    ):
        with pytest.raises(PermissionError):
            await call


STALE = "W/\"datetime'2020-01-01T00%3A00%3A00.0000000Z'\""


async def test_the_life_of_a_webhook(azurite: str, world: World) -> None:
    """The operations over real tables: refused, given up, sent again, switched off and on, and gone with its events."""
    async with hooked_on_tables(azurite, world) as given:
        context, feed = given.world.context, given.world.context.events.feed
        assert feed is not None
        hook = await given.hook(filter={"types": frozenset({"job.completed"})})
        given.receiver.answer = Answer(status=404)
        await given.finished(callback_urls={"done": "https://a.example"})
        await given.run(timedelta(minutes=1))
        for of in (hook.id, "default"):
            [row] = await given.deliveries(of)
            assert (row.state, row.tries, row.status) == (DeliveryState.DEAD, 3, 404)
        given.receiver.answer = Answer(status=200)
        [row] = await given.deliveries(hook)
        await redeliver(context, "tenant_a", hook.id, row.number, "", "user:x")
        await given.delivered()
        assert [each.state for each in await given.deliveries(hook)] == [DeliveryState.DELIVERED]
        for enabled in (False, True):
            await change_hook(context, "tenant_a", hook.id, {"enabled": enabled}, "user:x")
        expected = ["CREATED", "DEAD", "DISABLED", "RESUMED"]
        assert [entry.type for entry in await list_hook_log(context, "tenant_a", hook.id)] == expected
        types = [event.event_type for event in await feed.events("tenant_a", after=0, limit=100)]
        assert [each for each in types if each.startswith("webhook.")] == [
            *["webhook.dead"] * 2,
            *("webhook.disabled", "webhook.resumed"),
        ]
        # a webhook that requests past events gets them
        late = await given.hook("https://late.example", after=0, filter={"types": frozenset({"job.completed"})})
        await given.delivered()
        assert [each.state for each in await given.deliveries(late)] == [DeliveryState.DELIVERED]
        await remove_hook(context, "tenant_a", late.id, "user:x")
        assert (await feed.head("tenant_a")).hooks == 1
        given.world.clock.advance(8 * 86_400)
        await prune_feeds(context)
        assert await given.deliveries(hook) == []
        assert await feed.events("tenant_a", after=0, limit=1) == []
