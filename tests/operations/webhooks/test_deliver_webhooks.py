"""Deliveries: each is posted, or given up by the rules, with any behaviour of an endpoint and any crash (R85)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from shared.core.webhooks.deliveries import FAILURES_TO_WAIT, WAITS
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Answer, DeliveryState, HookState
from shared.operations.process.hook_calls import AT_ONCE, HookCalls
from shared.operations.webhooks.deliver_webhooks import FLOW_ROWS, deliver
from shared.operations.webhooks.webhooks import change_hook, resume_hook, rotate_hook, send_test_event
from shared.ports.hooks import HookWrite
from shared.ports.webhooks import DeliveryCall
from shared.refusals import Overloaded
from tests.contexts import changed
from tests.event_checks import check_event
from tests.operations.conftest import World
from tests.worlds.webhooks import OK, TENANT, Hooked, call_of, happened, hooked, states

send_test_event.__test__ = False  # type: ignore[attr-defined]

BAD = Answer(status=500)
BY = "user:somebody"
PENDING, DELIVERED, DEAD = DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.DEAD
DONE = {"filter": {"types": frozenset({"job.completed"})}}


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def test_a_receiver_that_is_away_for_a_while_misses_nothing(given: Hooked) -> None:
    hook = await given.hook()
    given.receiver.answer = Answer(status=None, error="CONNECT")
    for number in range(3):
        await given.finished(idempotency_key=str(number))
    await given.run(timedelta(minutes=20))
    failing = await given.now(hook)
    assert failing.waits_until is not None
    tried = len(given.receiver.got)
    # of one that waits, only probes are made
    assert tried <= FAILURES_TO_WAIT + AT_ONCE + 4
    given.receiver.answer = OK
    await given.run(timedelta(hours=1))
    assert set(await states(given, hook)) == {DELIVERED}
    expected = {f"{event['id']}:{hook.id}" for event in await given.events("job.")}
    assert set(given.receiver.ids[tried:]) == expected
    assert len(given.receiver.ids[tried:]) == len(expected)
    assert (await given.now(hook)).failures == 0


async def test_a_receiver_that_is_away_for_a_day(given: Hooked) -> None:
    """It is suspended once, and continues from its oldest delivery when an operator resumes it."""
    hook = await given.hook()
    given.receiver.answer = BAD
    await given.finished()
    await given.run(timedelta(days=2))
    assert (await given.now(hook)).state is HookState.SUSPENDED
    assert given.queue.sent == []
    assert set(await states(given, hook)) == {PENDING}
    await given.finished(idempotency_key="2")
    await given.healed()
    tried = len(given.receiver.got)
    await given.run(timedelta(hours=1))
    assert len(given.receiver.got) == tried
    given.receiver.answer = OK
    await resume_hook(given.world.context, TENANT, hook.id, BY)
    await given.delivered()
    assert set(await states(given, hook)) == {DELIVERED}
    assert [event["type"] for event in await given.events("webhook.")] == ["webhook.suspended", "webhook.resumed"]


async def test_an_event_that_is_always_refused_delays_nobody(given: Hooked) -> None:
    """It dies at the third time; its death is in the log and in the feed, once."""
    hook = await given.hook()
    rows = await happened(given, 3, hook)
    original = given.receiver.post

    async def picky(url: str, headers: Any, body: bytes, **_: Any) -> Answer:
        await original(url, headers, body)
        return Answer(status=422) if b"job_x:2:0" in body else OK

    given.receiver.post = picky  # type: ignore[method-assign]
    await given.delivered([call_of(row) for row in rows])
    assert await states(given, hook) == [DELIVERED, PENDING, DELIVERED]
    await given.run(timedelta(minutes=5))
    assert await states(given, hook) == [DELIVERED, DEAD, DELIVERED]
    assert given.receiver.ids.count(f"job_x:2:0:{hook.id}") == 3
    [event] = await given.events("webhook.dead")
    check_event(event)
    assert event["data"]["payload"] == {
        "status": "ENABLED",
        "reason": "HTTP_422",
        "deliveries": 1,
        "first": 2,
        "last": 2,
    }
    after = await given.now(hook)
    assert (after.failures, after.waits_until) == (0, None)


async def test_a_receiver_that_refuses_everything(given: Hooked) -> None:
    """Its failed deliveries are logged together: HEAD is for writers of the feed."""
    hook = await given.hook()
    rows = await happened(given, 30, hook)
    given.receiver.answer = Answer(status=404)
    await given.delivered([call_of(row) for row in rows])
    await given.run(timedelta(seconds=50))
    assert set(await states(given, hook)) == {DEAD}
    assert len(await given.events("webhook.dead")) == 1
    # a sweep that logs sends late deliveries too
    await happened(given, 1, hook)
    given.world.clock.advance(61)
    await given.healed()
    assert [call.kind for call, _ in given.queue.sent] == ["try"]
    given.receiver.answer = OK
    await given.delivered()
    for _ in range(3):
        given.world.clock.advance(61)
        await given.healed()
    payloads = [event["data"]["payload"] for event in await given.events("webhook.dead")]
    assert [payload["deliveries"] for payload in payloads] == [1, 29]
    assert (min(each["first"] for each in payloads), max(each["last"] for each in payloads)) == (1, 30)
    assert sorted(await states(given, hook)) == [*[DEAD] * 30, DELIVERED]
    assert (await given.now(hook)).failures == 0


async def test_an_event_that_always_fails_keeps_no_hook_waiting(given: Hooked) -> None:
    """The oldest waits behind those that were tried less when a probe is chosen."""
    hook = await given.hook()
    await happened(given, 6, hook)
    original = given.receiver.post

    async def picky(url: str, headers: Any, body: bytes, **_: Any) -> Answer:
        await original(url, headers, body)
        return BAD if b"job_x:1:0" in body else OK

    given.receiver.post = picky  # type: ignore[method-assign]
    stored = await given.feed.hooks.read(TENANT, hook.id)
    assert stored is not None
    now = given.world.clock.now()
    row = (await given.feed.hooks.pending(TENANT, hook.id, limit=1))[0]
    waiting = replace(stored.hook, failures=5, failing_since=now, waits_until=now, waits=1, probe=1)
    tried = replace(row.delivery, tries=5, due_at=None)
    await given.feed.hooks.write(HookWrite(tenant=TENANT, before=stored, after=waiting, deliveries=[(row, tried)]))
    await given.delivered([DeliveryCall(tenant=TENANT, hook_id=hook.id, tries=1, kind="probe")])
    await given.run(timedelta(seconds=4))
    assert await states(given, hook) == [PENDING, *[DELIVERED] * 5]


@pytest.mark.parametrize("answer", [Answer(status=410), BAD])
async def test_what_the_address_before_answers_is_nothing_against_the_new_one(given: Hooked, answer: Answer) -> None:
    """The delivery was in progress when a caller set another address."""
    hook = await given.hook("https://old.example")
    rows = await happened(given, 1, hook)
    given.receiver.by_url["https://old.example"] = answer

    async def change() -> None:
        given.receiver.meanwhile = None
        await change_hook(given.world.context, TENANT, hook.id, {"url": "https://new.example"}, BY)

    given.receiver.meanwhile = change
    await given.delivered([call_of(row) for row in rows])
    after = await given.now(hook)
    assert (after.state, after.url, after.failures) == (HookState.ENABLED, "https://new.example", 0)
    assert await states(given, hook) == [DELIVERED]


async def test_410_switches_a_hook_off(given: Hooked) -> None:
    hook = await given.hook()
    given.receiver.answer = Answer(status=410)
    rows = await happened(given, 3, hook)
    await given.delivered([call_of(row) for row in rows])
    assert (await given.now(hook)).state is HookState.DISABLED
    assert len(given.receiver.got) == 1
    await happened(given, 1, "hook_of_nobody")
    assert [event["type"] for event in await given.events("webhook.")] == ["webhook.disabled"]
    given.receiver.answer = OK
    await change_hook(given.world.context, TENANT, hook.id, {"url": "https://new.example", "enabled": True}, BY)
    await given.delivered()
    assert await states(given, hook) == [DELIVERED] * 3
    assert given.receiver.got[-1][0] == "https://new.example"


@pytest.mark.parametrize("status", [500, 404, 410])
async def test_callbacks_die_by_themselves(given: Hooked, status: int) -> None:
    """One address that fails is nothing to the others."""
    urls = {"bad": "https://bad.example/x", "good": "https://good.example/y"}
    given.receiver.by_url[urls["bad"]] = Answer(status=status)
    await given.finished(callback_urls=urls)
    await given.run(timedelta(days=1))
    assert {row.name: row.state for row in await given.deliveries()} == {"bad": DEAD, "good": DELIVERED}
    tries = {500: len(WAITS) + 1, 404: 3, 410: 1}[status]
    assert [url for url, _, _ in given.receiver.got].count(urls["bad"]) == tries
    assert (await given.now(DEFAULT_HOOK)).state is HookState.ENABLED
    assert len(await given.events("webhook.dead")) == 1


async def test_a_callback_whose_job_is_gone(given: Hooked) -> None:
    rows = await happened(given, 1, DEFAULT_HOOK, "done")
    await given.delivered([call_of(row) for row in rows])
    assert [(row.state, row.error) for row in await given.deliveries()] == [(DEAD, "JOB_GONE")]
    assert given.receiver.got == []


async def test_an_event_that_is_kept_no_more(given: Hooked) -> None:
    hook = await given.hook()
    rows = await happened(given, 1, hook)
    given.feed.put_events(TENANT, [])
    await given.delivered([call_of(row) for row in rows])
    assert [(row.state, row.error) for row in await given.deliveries(hook)] == [(DEAD, "EXPIRED")]
    assert given.receiver.got == []


async def test_a_secret_whose_key_is_gone_fails_as_a_receiver_does(given: Hooked) -> None:
    hook = await given.hook()
    rows = await happened(given, 1, hook)
    settings = replace(given.world.context.settings, webhook_keys=(("k9", b"9" * 32),))
    context = replace(given.world.context, settings=settings)
    await deliver(context, call_of(rows[0]))
    [row] = await given.deliveries(hook)
    assert (row.state, row.error, row.tries) == (PENDING, "KEY_GONE", 1)
    assert given.receiver.got == []
    # a rotation ends it at once, for any later cause of the wait
    later = replace(given, world=replace(given.world, context=context))
    await later.run(timedelta(hours=5))
    assert (await given.now(hook)).waits_until is not None
    await rotate_hook(context, TENANT, hook.id, BY)
    await later.delivered()
    assert await states(given, hook) == [DELIVERED]


# --- messages


@pytest.mark.parametrize("repeated", [1, 5])
async def test_messages_that_come_again_do_nothing(given: Hooked, repeated: int) -> None:
    hook = await given.hook()
    rows = await happened(given, 4, hook)
    calls = [call_of(row) for row in rows] * repeated
    await given.delivered(calls[::-1])
    await given.delivered(calls)
    assert len(given.receiver.got) == 4
    given.receiver.answer = BAD
    [failing] = await happened(given, 1, hook)
    await given.delivered([call_of(failing)])
    # of the try before: another one is due later
    await given.delivered([call_of(failing)] * repeated)
    assert given.receiver.ids.count(f"{failing.event_id}:{hook.id}") == 1


async def test_two_messages_of_one_delivery_at_once(given: Hooked) -> None:
    """Race delivery: a process posts it once; of two processes one writes the row, under one `webhook-id`."""
    hook = await given.hook()
    [row] = await happened(given, 1, hook)
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    given.receiver.meanwhile = wait
    here, other = given.world.context, changed(given.world.context, calls=HookCalls())
    running = [asyncio.create_task(deliver(context, call_of(row))) for context in (here, here, other)]
    for _ in range(100):
        await asyncio.sleep(0)
    gate.set()
    await asyncio.gather(*running)
    assert given.receiver.ids == [f"{row.event_id}:{hook.id}"] * 2
    [after] = await given.deliveries(hook)
    assert (after.state, after.tries) == (DELIVERED, 1)


async def test_counts_of_failures_that_come_at_once_are_all_kept(given: Hooked) -> None:
    """The hook's ETag: the loser reads it again."""
    hook = await given.hook()
    rows = await happened(given, AT_ONCE, hook)
    given.receiver.answer = BAD
    await asyncio.gather(*(deliver(given.world.context, call_of(row)) for row in rows))
    assert (await given.now(hook)).failures == AT_ONCE
    assert {row.tries for row in await given.deliveries(hook)} == {1}


async def test_a_slow_receiver_holds_four_calls(given: Hooked) -> None:
    """Further calls return later, at the pace of the earlier ones, and another webhook continues."""
    slow, quick = await given.hook("https://slow.example"), await given.hook("https://quick.example")
    rows = await happened(given, 10, slow)
    gate = asyncio.Event()

    async def wait() -> None:
        if given.receiver.got[-1][0] == "https://slow.example":
            await gate.wait()

    given.receiver.meanwhile = wait
    given.world.context.webhooks.calls.took(f"{TENANT} {slow.id}", 8)
    running = [asyncio.create_task(deliver(given.world.context, call_of(row))) for row in rows]
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(given.receiver.got) == AT_ONCE
    now = given.world.clock.now()
    back = [at for call, at in given.queue.sent if call.kind == "try"]
    assert back == [now + timedelta(seconds=2 + 2 * place) for place in range(6)]
    [other] = await happened(given, 1, quick)
    await deliver(given.world.context, call_of(other))
    assert await states(given, quick) == [DELIVERED]
    gate.set()
    await asyncio.gather(*running)
    given.receiver.meanwhile = None
    await given.run(timedelta(minutes=1))
    assert set(await states(given, slow)) == {DELIVERED}
    assert len(given.receiver.got) == 11


async def test_only_a_few_are_tried_out_at_once(given: Hooked) -> None:
    """Of a tenant: each holds a request of the API for as long as its receiver likes."""
    context, hooks = given.world.context, [await given.hook() for _ in range(AT_ONCE + 1)]
    full, released = asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        if len(given.receiver.got) == AT_ONCE:
            full.set()
        await released.wait()

    given.receiver.meanwhile = slow
    running = [asyncio.create_task(send_test_event(context, TENANT, hook.id)) for hook in hooks[1:]]
    await full.wait()
    with pytest.raises(Overloaded):
        await send_test_event(context, TENANT, hooks[0].id)
    released.set()
    assert [each.status for each in await asyncio.gather(*running)] == [200] * AT_ONCE
    assert (await send_test_event(context, TENANT, hooks[0].id)).status == 200


async def test_what_a_process_puts_back_is_bounded(given: Hooked) -> None:
    """After ten minutes of a slow receiver the sweeper sends its oldest deliveries."""
    calls, now = HookCalls(), given.world.clock.now()
    calls.took("a", 8)
    found = [calls.put_back("a", now) for _ in range(1000)]
    assert found[:300] == [now + timedelta(seconds=2 * (place + 1)) for place in range(300)]
    assert set(found[300:]) == {None}
    assert calls.put_back("a", now + timedelta(minutes=5)) is not None
    assert calls.put_back("b", now) == now + timedelta(seconds=2)


@pytest.mark.parametrize(
    ("took_s", "expected"), [(0.4, [5, 7, 9, 11]), (4, [5, 25, 45, 65]), (0.001, [5, 5.2, 5.4, 5.6])]
)
async def test_what_waited_flows_at_the_pace_of_its_receiver(
    given: Hooked, took_s: float, expected: list[float]
) -> None:
    hook = await given.hook()
    given.receiver.answer = replace(BAD, took_ms=int(took_s * 1000))
    rows = await happened(given, 3 * FLOW_ROWS + 5, hook)
    await given.delivered([call_of(row) for row in rows])
    assert (await given.now(hook)).waits_until is not None
    given.receiver.answer = replace(OK, took_ms=int(took_s * 1000))
    given.receiver.got.clear()
    began = given.world.clock.now()
    posted: list[datetime] = []

    async def note() -> None:
        posted.append(given.world.clock.now())

    given.receiver.meanwhile = note
    await given.run(timedelta(minutes=2))
    assert set(await states(given, hook)) == {DELIVERED}
    assert len(posted) == len(rows)
    assert [round((at - began).total_seconds(), 1) for at in sorted(set(posted))] == expected
