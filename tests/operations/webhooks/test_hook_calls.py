"""Resources of a slow endpoint: its own tenant's calls, and a bounded part of the process's memory (R85)."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import ExitStack
from datetime import timedelta

import pytest

from shared.core.webhooks.webhooks import DeliveryState
from shared.operations.process.hook_calls import AT_ONCE, PLACES, HookCalls
from shared.operations.webhooks.deliver_webhooks import deliver
from tests.operations.conftest import World
from tests.running_stack import ROOT
from tests.worlds.webhooks import TENANT, Hooked, call_of, happened, hooked, states

DELIVERED = DeliveryState.DELIVERED


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def test_a_host_that_is_slow_for_one_tenant(given: Hooked) -> None:
    """Its callbacks have four calls; another tenant's to the same host continue."""
    url = "https://chat.example/"
    for number in range(AT_ONCE + 2):
        await given.finished(idempotency_key=f"{number}", callback_urls={"done": f"{url}{TENANT}"})
    await given.finished(tenant_id="tenant_b", callback_urls={"done": f"{url}tenant_b"})
    gate = asyncio.Event()

    async def wait() -> None:
        if given.receiver.got[-1][0].endswith(TENANT):
            await gate.wait()

    given.receiver.meanwhile = wait
    running = [asyncio.create_task(deliver(given.world.context, call)) for call in given.taken()]
    for _ in range(100):
        await asyncio.sleep(0)
    assert Counter(posted for posted, _, _ in given.receiver.got) == {f"{url}{TENANT}": AT_ONCE, f"{url}tenant_b": 1}
    assert [row.delivery.state for row in await given.feed.hooks.list_ended("tenant_b", "default", limit=9)] == [
        DELIVERED
    ]
    gate.set()
    await asyncio.gather(*running)
    given.receiver.meanwhile = None
    await given.run(timedelta(minutes=1))
    assert {row.state for row in await given.deliveries()} == {DELIVERED}


async def test_a_tenant_s_slow_receivers_do_not_hold_every_call(given: Hooked) -> None:
    """With any number of its hooks, another tenant's delivery gets a call."""
    hooks = [await given.hook(f"https://slow{number}.example") for number in range(5)]
    rows = [row for hook in hooks for row in await happened(given, AT_ONCE, hook)]
    gate = asyncio.Event()

    async def wait() -> None:
        await gate.wait()

    given.receiver.meanwhile = wait
    running = [asyncio.create_task(deliver(given.world.context, call_of(row))) for row in rows]
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(given.receiver.got) == PLACES // 2
    with given.world.context.webhooks.calls.hold("tenant_b hook", ("tenant_b", "hook", 1, "")) as has_room:
        assert has_room
    gate.set()
    await asyncio.gather(*running)
    given.receiver.meanwhile = None
    await given.run(timedelta(minutes=1))
    for hook in hooks:
        assert await states(given, hook) == [DELIVERED] * AT_ONCE


def test_tenants_with_slow_receivers_share_the_places() -> None:
    """Each has half of the remaining calls, so another one gets a call; the fifth has the last one."""
    calls, held = HookCalls(), [ExitStack() for _ in range(6)]

    def takes(tenant: int, number: int) -> bool:
        """Another call to another receiver."""
        has_room = held[tenant].enter_context(calls.hold(f"{tenant} {number}", (f"{tenant}", "hook", number, "")))
        return bool(has_room)

    def taken(tenant: int) -> int:
        return sum(takes(tenant, number) for number in range(PLACES + 1))

    assert [taken(tenant) for tenant in range(6)] == [8, 4, 2, 1, 1, 0]
    held[0].close()
    assert [taken(5), taken(1)] == [4, 0]
    for each in held:
        each.close()
    assert taken(0) == PLACES // 2
    held[0].close()


def test_the_places_are_those_of_the_host() -> None:
    """A call without a place would wait in the host, where no rule of ours holds."""
    host = json.loads((ROOT / "host.json").read_text(encoding="utf-8"))
    assert host["extensions"]["serviceBus"]["maxConcurrentCalls"] == PLACES


async def test_what_a_process_remembers_of_receivers_is_bounded(given: Hooked) -> None:
    """Each tenant names its own hosts."""
    calls, now = HookCalls(), given.world.clock.now()
    for number in range(5_000):
        calls.took(f"tenant_{number} host", 8)
        assert calls.put_back(f"tenant_{number} host", now) is not None
        assert max(len(calls._pace), len(calls._next)) <= 1_000
    assert calls.put_back("tenant_4999 host", now) == now + timedelta(seconds=4)
