"""Deliveries: each is posted, with any crash and any lost message (R85)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared import telemetry
from shared.core.webhooks.webhooks import DEFAULT_HOOK, Answer, DeliveryState, HookState
from shared.errors import BusUnavailable
from shared.operations.sweeper.heal_deliveries import MAX_OVERDUE, heal_deliveries
from shared.operations.sweeper.sweep import sweep
from shared.operations.webhooks.deliver_webhooks import FLOW_ROWS, deliver
from shared.operations.webhooks.webhooks import read_hook, remove_hook, resume_hook
from shared.ports.hooks import HookWrite
from shared.ports.webhooks import DeliveryCall, decode_call, encode_call
from tests.operations.conftest import World
from tests.operations.faults import failing, noted
from tests.worlds.webhooks import OK, TENANT, Hooked, call_of, happened, hooked, states

BAD = Answer(status=500)
BY = "user:somebody"
PENDING, DELIVERED, DEAD = DeliveryState.PENDING, DeliveryState.DELIVERED, DeliveryState.DEAD
DONE = {"filter": {"types": frozenset({"job.completed"})}}


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


@pytest.mark.parametrize("dies", ["before the post", "after the post", "before the messages"])
@pytest.mark.parametrize("answer", [OK, BAD, Answer(status=410), Answer(status=404)])
async def test_a_process_that_dies(given: Hooked, dies: str, answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message comes again, or is lost and the sweeper sends it: it is posted at least once, under one id."""
    hook = await given.hook()
    [row] = await happened(given, 1, hook)
    given.receiver.answer = answer
    with monkeypatch.context() as patch:
        if dies == "before the post":
            patch.setattr("shared.operations.webhooks.deliver_webhooks.post", _dies)
        elif dies == "after the post":
            patch.setattr(given.feed.hooks, "write", _dies)
        else:
            patch.setattr("shared.operations.webhooks.deliver_webhooks._go_on", _dies)
        with pytest.raises(Killed):
            await deliver(given.world.context, call_of(row))
    given.queue.sent.clear()
    given.world.context.events.known_feeds.forget(TENANT)
    posted = len(given.receiver.got)
    assert posted == (0 if dies == "before the post" else 1)
    # the bus gives its message again, which does nothing where the row was written
    await given.delivered([call_of(row)])
    assert len(given.receiver.got) == (posted + 1 if dies != "before the messages" else posted)
    given.queue.sent.clear()
    given.receiver.answer = OK
    for _ in range(3):
        given.world.clock.advance(130)
        await given.healed()
        await given.delivered()
    assert len(set(given.receiver.ids)) == 1
    expected = PENDING if answer.status == 410 else DELIVERED
    assert await states(given, hook) == [expected]


class Killed(BaseException):
    """As a process that is gone: nothing catches it."""


async def _dies(*_args: Any, **_options: Any) -> Any:
    raise Killed


@pytest.mark.parametrize("lost", ["tries", "probe", "flow"])
async def test_messages_that_are_lost(given: Hooked, lost: str) -> None:
    """A minute late the sweeper sends them again."""
    hook = await given.hook()
    given.receiver.answer = OK if lost == "tries" else BAD
    rows = await happened(given, 30, hook)
    if lost != "tries":
        await given.delivered([call_of(row) for row in rows])
    given.queue.sent = [] if lost != "flow" else given.queue.sent
    given.receiver.answer = OK
    if lost == "flow":
        given.world.clock.advance(5)
        calls = given.taken()
        await deliver(given.world.context, next(call for call in calls if call.kind == "probe"))
        given.queue.sent.clear()
    await given.healed()
    assert given.queue.sent == []
    given.world.clock.advance(70)
    await given.healed()
    await given.run(timedelta(seconds=10))
    assert set(await states(given, hook)) == {DELIVERED}


async def test_a_bus_that_takes_no_messages(given: Hooked) -> None:
    """The feed and the deliveries are written."""
    hook = await given.hook(**DONE)
    with failing(given.queue, "send", error=BusUnavailable("away")):
        tries = noted(given.queue, "send")
        for number in range(3):
            await given.finished(idempotency_key=str(number))
    # the writer of the feed does not wait for it each time
    assert len(tries) == 1
    assert await states(given, hook) == [PENDING] * 3
    given.world.clock.advance(61)
    await sweep(given.world.context, given.world.orchestrations)
    await given.delivered()
    assert await states(given, hook) == [DELIVERED] * 3


async def test_tables_that_do_not_answer(given: Hooked) -> None:
    hook = await given.hook()
    [row] = await happened(given, 1, hook)
    for name in ("read", "delivery", "write"):
        with failing(given.feed.hooks, name):
            await deliver(given.world.context, call_of(row))
    assert await states(given, hook) == [PENDING]
    given.world.clock.advance(61)
    await given.healed()
    await given.delivered()
    assert await states(given, hook) == [DELIVERED]


async def test_what_waited_for_a_hook_that_was_removed_raises_no_alert(
    given: Hooked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The age of the oldest event is in the gauge, also while the sweeper cannot read the tenant."""
    gauges: dict[str, float] = {}
    monkeypatch.setattr(telemetry, "set_gauge", lambda name, value, **_: gauges.update({name: value}))

    async def age() -> float:
        await sweep(given.world.context, given.world.orchestrations)
        return gauges.pop("webhook_oldest_seconds")

    gone, other = await given.hook(), await given.hook("https://other.example")
    await happened(given, 1, gone)
    given.world.clock.advance(600)
    await happened(given, 1, other)
    assert await age() == 600
    given.world.clock.advance(60)
    for name in ("list_noted", "all_of"):
        with failing(given.feed.hooks, name):
            assert await age() == 660
    await remove_hook(given.world.context, TENANT, gone.id, BY)
    assert await age() == 60


async def test_the_sweeper_sends_the_oldest_of_each_hook(given: Hooked) -> None:
    """With any number waiting: one page of each hook, and none of hooks that wait, are off or are deleted."""
    busy, other, waiting, gone = [await given.hook(f"https://{name}.example") for name in ("a", "b", "c", "d")]
    for hook in (busy, other, waiting, gone):
        await happened(given, MAX_OVERDUE + 10 if hook is busy else 3, hook)
    given.receiver.by_url["https://c.example"] = BAD
    for number in range(5):
        row = (await given.feed.hooks.pending(TENANT, waiting.id, limit=1))[0].delivery
        given.world.clock.time = row.due_at or given.world.clock.now()
        await deliver(given.world.context, call_of(row))
        assert number < 5
    await remove_hook(given.world.context, TENANT, gone.id, BY)
    given.queue.sent.clear()
    given.world.clock.advance(3600)
    await given.healed()
    sent = [(call.hook_id, call.kind) for call, _ in given.queue.sent]
    assert sorted(sent) == sorted([(busy.id, "flow"), *[(other.id, "try")] * 3, (waiting.id, "probe")])
    given.queue.sent = [each for each in given.queue.sent if each[0].hook_id == busy.id]
    # the work that the previous sweep began is void
    [(first, _)] = given.queue.sent
    await given.healed()
    given.queue.sent = [each for each in given.queue.sent if each[0].kind == "flow"]
    assert [call.tries for call, _ in given.queue.sent] == [first.tries, first.tries + 1]
    await given.run(timedelta(minutes=1))
    assert set(await states(given, busy)) == {DELIVERED}
    assert [url for url, _, _ in given.receiver.got].count("https://a.example") == MAX_OVERDUE + 10


async def test_callbacks_that_wait_for_their_turn_hide_no_lost_one(given: Hooked) -> None:
    """With any number that fail, each for half a day: the sweeper reads more than the oldest hundred."""
    later = given.world.clock.now() + timedelta(hours=3)
    for row in await happened(given, MAX_OVERDUE + 5, DEFAULT_HOOK, "fails"):
        stored = await given.feed.hooks.delivery(TENANT, DEFAULT_HOOK, row.number, "fails")
        assert stored is not None
        waits = replace(stored.delivery, tries=6, due_at=later)
        await given.feed.hooks.write(HookWrite(tenant=TENANT, deliveries=[(stored, waits)]))
    await happened(given, 3, DEFAULT_HOOK, "good")
    await read_hook(given.world.context, TENANT, DEFAULT_HOOK)
    await given.feed.hooks.note(TENANT, given.world.clock.now())
    given.world.clock.advance(61)
    await given.healed()
    assert [(call.name, call.kind) for call in given.taken()] == [("good", "try")] * 3
    # more than that become one flow, which skips the deliveries that are due later
    await happened(given, MAX_OVERDUE, DEFAULT_HOOK, "good")
    given.world.clock.advance(61)
    await given.healed()
    [flow] = given.taken()
    await deliver(given.world.context, flow)
    assert [call.name for call in given.taken()] == ["good"] * FLOW_ROWS


async def test_the_sweeper_forgets_tenants_without_hooks(given: Hooked) -> None:
    """After an hour, and not while anything waits; a process notes them more often than that."""
    await given.finished(callback_urls={"done": "https://a.example"})
    assert [each.tenant for each in await given.feed.hooks.list_noted()] == [TENANT]
    given.world.clock.advance(4000)
    await given.healed()
    assert [each.tenant for each in await given.feed.hooks.list_noted()] == [TENANT]
    await given.delivered()
    await given.finished(idempotency_key="2", callback_urls={"done": "https://a.example"})
    await given.delivered()
    await given.healed()
    assert len(await given.feed.hooks.list_noted()) == 1
    given.world.clock.advance(4000)
    await given.healed()
    assert await given.feed.hooks.list_noted() == []


async def test_a_sweep_leaves_the_number_of_suspended_webhooks(given: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    """In its mark by tenant, and in the gauge. A sweep that does not read a tenant keeps its earlier number."""
    gauges: dict[str, float] = {}
    monkeypatch.setattr(telemetry, "set_gauge", lambda name, value, **_: gauges.update({name: value}))
    for number in range(3):
        hook = await given.hook(url=f"https://{number}.example")
        stored = await given.feed.hooks.read(TENANT, hook.id)
        assert stored is not None
        if number:
            suspended = replace(stored.hook, state=HookState.SUSPENDED)
            await given.feed.hooks.write(HookWrite(tenant=TENANT, before=stored, after=suspended))

    async def marked() -> dict[str, int]:
        await sweep(given.world.context, given.world.orchestrations)
        found = (await given.world.context.sweep_marks.read(1))[0].suspended_hooks
        assert gauges.pop("webhooks_suspended") == found.total()
        return dict(found)

    assert await marked() == {TENANT: 2}
    await resume_hook(given.world.context, TENANT, hook.id, BY)
    for name in ("list_noted", "all_of"):
        with failing(given.feed.hooks, name):
            assert await marked() == {TENANT: 2}
    assert await marked() == {TENANT: 1}


async def test_a_short_sweep_leaves_no_tenant_out_for_ever(given: Hooked, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each begins with another tenant, so that one that has time for one tenant comes to all of them in the end."""
    tenants = ["a", "b", "c"]
    for tenant in tenants:
        await given.feed.hooks.note(tenant, given.world.clock.now())
    looked_at: list[str] = []

    async def all_of(tenant: str) -> list[Any]:
        looked_at.append(tenant)
        return []

    monkeypatch.setattr(given.feed.hooks, "all_of", all_of)
    for sweeps in range(3):
        context = replace(given.world.context, random=lambda: (sweeps + 0.5) / 3)  # noqa: B023
        found = await heal_deliveries(context, lambda _tenant: True, lambda: len(looked_at) > sweeps)  # noqa: B023
        assert found.unseen == {*tenants} - {*looked_at[-1:]}
        # tenants that it did not read keep their earlier numbers
        assert found.update_suspended(Counter(a=1, b=1, c=1, gone=1)) == Counter(found.unseen)
    assert looked_at == tenants


def test_messages_on_the_wire() -> None:
    call = DeliveryCall(tenant="ä", hook_id="hook_1", number=10**12, name="☃", tries=3, kind="probe")
    assert decode_call(encode_call(call)) == call
    for body in (
        *(b"", b"{", b"[]", b"{}", b"\xff"),
        encode_call(replace(call, kind="other")),
        encode_call(replace(call, number=-1)),
        encode_call(replace(call, tries=True)),
        encode_call(replace(call, name=None)),  # type: ignore[arg-type]
    ):
        assert decode_call(body) is None
