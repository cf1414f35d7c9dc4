"""Webhooks: the events of a webhook, changes by callers, and one row for each matching event (R84)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.core.events.hints import hint_of
from shared.core.gates.rules import Gate, GateKind
from shared.core.jobs.routing import PLATFORM
from shared.core.records.chained_log import entry_hash
from shared.core.webhooks.hook_log import append_hook_entry, make_hook_event
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Answer, DeliveryState, HookAct
from shared.errors import LedgerUnavailable
from shared.operations.events.feed_writer import write_feed
from shared.operations.process.known_feeds import KnownFeeds
from shared.operations.quotas import quotas
from shared.operations.webhooks.webhooks import HookRequest as Request
from shared.operations.webhooks.webhooks import (
    change_hook,
    create_hook,
    list_hook_log,
    list_hooks,
    read_hook,
    redeliver,
    remove_hook,
    resume_hook,
    rotate_hook,
    send_test_event,
)
from shared.webhook_refusals import DefaultHook, DeliveryNotFound, HookLimit, HookNotFound, WebhooksOff
from tests.contexts import changed
from tests.event_checks import check_event
from tests.operations.conftest import World
from tests.operations.faults import failing
from tests.operations.support import limited
from tests.worlds.webhooks import TENANT, Hooked, hooked, signed

send_test_event.__test__ = False  # type: ignore[attr-defined]

BY = "user:somebody"


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def test_a_job_s_events_reach_a_hook_signed(given: Hooked) -> None:
    hook = await given.hook()
    await given.finished()
    await given.delivered()
    expected = [event["id"] for event in await given.events("job.")]
    assert given.receiver.ids == [f"{id_}:{hook.id}" for id_ in expected]
    assert [body["id"] for _, _, body in given.receiver.got] == expected
    [secret] = given.secrets(hook)
    for headers, body in zip(given.receiver.headers, given.receiver.bodies, strict=True):
        assert headers["webhook-signature"] == signed(headers, body, secret)
        assert headers["Content-Type"] == "application/cloudevents+json"
    assert {each.state for each in await given.deliveries(hook)} == {DeliveryState.DELIVERED}
    assert (await given.now(hook)).succeeded_at == given.world.clock.now()


@pytest.mark.parametrize(
    ("lets_in", "expected"),
    [
        ({"types": frozenset({"job.completed", "job.failed"})}, ["job.completed"]),
        ({"types": frozenset({"job.failed"})}, []),
        ({"job_types": frozenset({"OCR"}), "types": frozenset({"job.queued"})}, ["job.queued"]),
        ({"job_types": frozenset({"SIS"})}, []),
        ({"labels": {"team": "a"}, "types": frozenset({"job.queued"})}, ["job.queued"]),
        ({"labels": {"team": "a", "floor": "2"}}, []),
    ],
)
async def test_a_filter(given: Hooked, lets_in: dict[str, Any], expected: list[str]) -> None:
    await given.hook(filter=lets_in)
    await given.finished(labels={"team": "a"})
    await given.delivered()
    assert [body["type"] for _, _, body in given.receiver.got] == expected


async def test_a_hook_gets_events_from_its_creation_on(given: Hooked) -> None:
    first = await given.finished()
    hook = await given.hook()
    second = await given.finished(idempotency_key="2")
    await given.delivered()
    assert {body["subject"] for _, _, body in given.receiver.got} == {second}
    assert first not in str(given.receiver.got)
    assert hook.first == len([each for each in await given.events() if each["subject"] == first]) + 1


async def test_a_hook_that_asks_for_the_past(given: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    """In pages, each event once, after any repetition or loss."""
    monkeypatch.setattr("shared.operations.webhooks.deliver_webhooks._CAUGHT_UP", 3)
    first = await given.finished()
    hook = await given.hook(after=1, filter={"types": frozenset({"job.leased", "job.completed", "job.queued"})})
    [call] = given.taken()
    second = await given.finished(idempotency_key="2")
    given.queue.sent.clear()
    # the calls of this part are lost; the sweeper continues
    await given.delivered([call, call])
    given.queue.sent.clear()
    given.world.clock.advance(120)
    await given.healed()
    await given.delivered()
    assert (await given.now(hook)).caught_up is None
    got = [(body["subject"], body["type"]) for _, _, body in given.receiver.got]
    assert sorted(got) == sorted(
        [(first, "job.leased"), (first, "job.completed")]
        + [(second, type_) for type_ in ("job.queued", "job.leased", "job.completed")]
    )


async def test_what_a_tenant_without_hooks_costs(given: Hooked) -> None:
    """No row of hooks is read or written."""
    names = ("read", "all_of", "write", "delivery", "pending", "note")
    failing(given.feed.hooks, *names, error=AssertionError("a row of hooks was touched"))
    await given.finished()
    assert given.queue.sent == []
    assert len(await given.events()) > 3


async def test_who_does_not_know_a_new_hook_writes_nothing(given: Hooked) -> None:
    """Race feed: a process knows the hooks as of a HEAD that another one has written since."""
    await given.finished()
    other = changed(given.world.context, known_feeds=KnownFeeds())
    hook, _ = await create_hook(other, TENANT, Request(url="https://receiver.example"), BY)
    await given.finished(idempotency_key="2")
    rows = await given.deliveries(hook)
    assert len(rows) == len(await given.events()) - hook.first + 1
    await remove_hook(other, TENANT, hook.id, BY)
    await given.finished(idempotency_key="3")
    assert len(await given.feed.hooks.pending(TENANT, hook.id, limit=100)) == len(rows)


async def test_hints_that_come_twice_are_one_delivery(given: Hooked) -> None:
    hook = await given.hook()
    job_id = await given.finished()
    job, rows = (await given.world.job(job_id)).job, await given.world.ledger.events(job_id)
    hints = [hint_of(job, [row]) for row in rows]
    before = await given.deliveries(hook)
    assert len(before) >= len(hints) > 3
    await write_feed(given.world.context, hints + hints)
    assert await given.deliveries(hook) == before


async def test_more_deliveries_than_a_transaction_holds(given: Hooked) -> None:
    hooks = [await given.hook(f"https://receiver.example/{number}") for number in range(20)]
    with pytest.raises(HookLimit):
        await given.hook()
    assert [each.id for each in await list_hooks(given.world.context, TENANT)] == sorted(each.id for each in hooks)
    job_id = await given.finished(
        callback_urls={f"n{number}": f"https://c{number // 2}.example/{number}" for number in range(10)}
    )
    expected = [event["id"] for event in await given.events() if event["subject"] == job_id]
    for hook in hooks:
        assert [each.event_id for each in await given.deliveries(hook)] == expected
    assert len(await given.deliveries()) == 10


async def test_callback_urls(given: Hooked) -> None:
    """Each gets the end of its job, and no other event, under its own `webhook-id`."""
    urls = {"done": "https://a.example/x", "über": "https://b.example/y"}
    job_id = await given.finished(callback_urls=urls)
    await given.delivered()
    assert sorted(url for url, _, _ in given.receiver.got) == sorted(urls.values())
    assert {(body["type"], body["subject"]) for _, _, body in given.receiver.got} == {("job.completed", job_id)}
    assert len(set(given.receiver.ids)) == 2
    assert all(id_.isascii() for id_ in given.receiver.ids)
    hook = await read_hook(given.world.context, TENANT, DEFAULT_HOOK)
    [secret] = given.secrets(hook)
    for headers, body in zip(given.receiver.headers, given.receiver.bodies, strict=True):
        assert headers["webhook-signature"] == signed(headers, body, secret)
    assert await list_hooks(given.world.context, TENANT) == []


async def test_callback_urls_of_a_hint_that_was_lost(given: Hooked) -> None:
    """Its events and its URLs are read from the ledger."""
    await given.finished()
    job_id = await given.finished(idempotency_key="2", callback_urls={"done": "https://a.example"})
    given.feed.put_events(TENANT, [])
    other = hooked(given.world)
    job = (await given.world.job(job_id)).job
    await other.world.context.require_events().hinting.send(job)
    await other.fed()
    assert [(each.job_id, each.name) for each in await other.deliveries()] == [(job_id, "done")]


async def test_callback_urls_without_keys_are_not_called(given: Hooked) -> None:
    given = replace(given, world=replace(given.world, context=replace(given.world.context, webhooks=None)))
    await given.finished(callback_urls={"done": "https://a.example"})
    assert await given.feed.hooks.pending(TENANT, None, limit=10) == []
    assert given.queue.sent == []


async def test_a_change_of_filter_address_and_format(given: Hooked) -> None:
    hook = await given.hook()
    changed = await change_hook(
        given.world.context,
        TENANT,
        hook.id,
        {"url": "https://other.example/secret/path", "filter": replace(hook.filter, types=frozenset({"job.queued"}))},
        BY,
    )
    assert changed == await given.now(hook)
    assert given.queue.sent.pop()[0].kind == "flow"
    await change_hook(given.world.context, TENANT, hook.id, {"description": "for us"}, BY)
    assert given.queue.sent == []
    await given.finished()
    await given.delivered()
    assert [(url, body["type"]) for url, _, body in given.receiver.got] == [
        ("https://other.example/secret/path", "job.queued")
    ]
    entries = await list_hook_log(given.world.context, TENANT, hook.id)
    assert [entry.type for entry in entries] == ["CREATED", "CHANGED", "CHANGED"]
    assert entries[1].data == {"host": "other.example", "types": ["job.queued"]}
    assert "secret/path" not in str(entries)


async def test_a_hook_that_is_disabled(given: Hooked) -> None:
    """Events of that time are not delivered; earlier ones are."""
    hook = await given.hook(filter={"types": frozenset({"job.completed"})})
    before = await given.finished()
    await change_hook(given.world.context, TENANT, hook.id, {"enabled": False}, BY)
    await given.delivered()
    await given.finished(idempotency_key="2")
    await given.healed()
    await given.delivered()
    assert given.receiver.got == []
    await change_hook(given.world.context, TENANT, hook.id, {"enabled": True}, BY)
    after = await given.finished(idempotency_key="3")
    await given.delivered()
    assert sorted(body["subject"] for _, _, body in given.receiver.got) == [before, after]
    assert [event["type"] for event in await given.events("webhook.")] == ["webhook.disabled", "webhook.resumed"]


async def test_the_log_is_a_chain_and_its_events_are_in_the_feed_once(given: Hooked) -> None:
    hook = await given.hook()
    context = given.world.context
    await change_hook(context, TENANT, hook.id, {"enabled": False}, BY)
    await change_hook(context, TENANT, hook.id, {"enabled": True}, BY)
    await rotate_hook(context, TENANT, hook.id, BY)
    await remove_hook(context, TENANT, hook.id, BY)
    entries = await list_hook_log(context, TENANT, hook.id)
    assert [entry.type for entry in entries] == ["CREATED", "DISABLED", "RESUMED", "ROTATED", "REMOVED"]
    previous = ""
    for number, entry in enumerate(entries, 1):
        assert (entry.seq, entry.prev_hash, entry.hash) == (number, previous, entry_hash(vars(entry)))
        previous = entry.hash
    events = await given.events("webhook.")
    assert [event["id"] for event in events] == [f"{hook.id}:2:0", f"{hook.id}:3:0"]
    for event in events:
        check_event(event | {"dataschema": "https://x"})
    assert events[0]["data"]["provenance"]["actor"] == BY
    # no hook gets them
    assert given.queue.sent == [each for each in given.queue.sent if each[0].kind != "try"]
    with pytest.raises(HookNotFound):
        await read_hook(context, TENANT, hook.id)


async def test_events_of_hooks_share_no_id_with_another_tenant_s(given: Hooked) -> None:
    """The topic drops a message whose id it received in the last five minutes, from any tenant."""
    found = []
    for tenant in (TENANT, "tenant_b"):
        hook = await read_hook(given.world.context, tenant, DEFAULT_HOOK)
        after, entry = append_hook_entry(hook, HookAct.DEAD, actor="system", reason="HTTP_400", at=hook.created_at)
        event = make_hook_event(after, entry)
        assert event is not None
        assert event["subject"] == DEFAULT_HOOK
        found.append(event["id"])
    assert len(set(found)) == 2


@pytest.mark.parametrize("hook_id", ["hook_of_another", DEFAULT_HOOK])
async def test_who_is_none(given: Hooked, hook_id: str) -> None:
    context, error = given.world.context, DefaultHook if hook_id == DEFAULT_HOOK else HookNotFound
    for doing in (
        change_hook(context, TENANT, hook_id, {"enabled": False}, BY),
        remove_hook(context, TENANT, hook_id, BY),
        resume_hook(context, TENANT, hook_id, BY),
        send_test_event(context, TENANT, hook_id),
    ):
        with pytest.raises(error):
            await doing
    with pytest.raises(DeliveryNotFound if hook_id == DEFAULT_HOOK else HookNotFound):
        await redeliver(context, TENANT, hook_id, 1, "", BY)


async def test_where_webhooks_are_off(given: Hooked) -> None:
    for context in (
        replace(given.world.context, webhooks=None),
        replace(given.world.context, events=None, webhooks=None),
    ):
        for doing in (
            create_hook(context, TENANT, Request(url="https://a.example"), BY),
            list_hooks(context, TENANT),
            read_hook(context, TENANT, DEFAULT_HOOK),
        ):
            with pytest.raises(WebhooksOff):
                await doing


async def test_a_rotation(given: Hooked) -> None:
    """Both secrets sign for a day."""
    hook = await given.hook(filter={"types": frozenset({"job.completed"})})
    [old] = given.secrets(hook)
    rotated = await rotate_hook(given.world.context, TENANT, hook.id, BY)
    new = given.secrets(rotated)[0]
    for seconds, expected in ((0, [new, old]), (86_400, [new])):
        given.world.clock.advance(seconds)
        await given.finished(idempotency_key=str(seconds))
        await given.delivered()
        headers, body = given.receiver.headers[-1], given.receiver.bodies[-1]
        assert headers["webhook-signature"] == " ".join(signed(headers, body, each) for each in expected)
    # a second one within the day ends the oldest at once
    [_, last] = [await rotate_hook(given.world.context, TENANT, hook.id, BY) for _ in range(2)]
    assert [last.secret.version, last.previous and last.previous.version] == [4, 3]
    assert {new, old}.isdisjoint(given.secrets(last))
    of_default = await rotate_hook(given.world.context, TENANT, DEFAULT_HOOK, BY)
    assert of_default.secret.version == 2


async def test_a_hook_is_tried_out(given: Hooked) -> None:
    hook = await given.hook()
    given.receiver.answer = Answer(status=503, took_ms=12)
    assert await send_test_event(given.world.context, TENANT, hook.id) == given.receiver.answer
    [(_, id_, body)] = given.receiver.got
    assert (body["type"], body["id"]) == ("webhook.test", id_)
    assert await given.now(hook) == hook
    assert await given.events() == []


async def test_what_belongs_to_no_tenant_has_hooks_too(world: World) -> None:
    given = hooked(limited(world))
    await create_hook(given.world.context, PLATFORM, Request(url="https://receiver.example/in"), BY)
    gate = Gate.over_all(GateKind.PLATFORM)
    by = quotas.By(actor=BY, reason="mad")
    await quotas.hold(given.world.context, world.orchestrations, gate, by, until=None)
    await given.fed()
    await given.delivered()
    assert [(body["type"], body["tenant"]) for _, _, body in given.receiver.got] == [("quota.changed", PLATFORM)]


async def test_a_write_that_fails_is_not_believed(given: Hooked) -> None:
    """The outcome of the write is unknown: HEAD is read again."""
    hook = await given.hook()
    with failing(given.feed.hooks, "write", after=True), pytest.raises(LedgerUnavailable):
        await change_hook(given.world.context, TENANT, hook.id, {"enabled": False}, BY)
    await given.finished()
    assert await given.deliveries(hook) == []
