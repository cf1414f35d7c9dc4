"""What a slow receiver holds: calls of its own tenant, and a bounded part of the process's memory (R85)."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from shared.core.webhooks import DeliveryState
from shared.operations.deliver_webhooks import deliver
from shared.operations.hook_calls import AT_ONCE, HookCalls
from tests.operations.conftest import World
from tests.operations.hooked import TENANT, Hooked, hooked

DELIVERED = DeliveryState.DELIVERED


@pytest.fixture
def given(world: World) -> Hooked:
    return hooked(world)


async def test_a_host_that_is_slow_for_one_tenant(given: Hooked) -> None:
    """Its callbacks have four calls; another tenant's to the same host go on."""
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
    assert [row.delivery.state for row in await given.feed.hooks.ended("tenant_b", "default", limit=9)] == [DELIVERED]
    gate.set()
    await asyncio.gather(*running)
    given.receiver.meanwhile = None
    await given.run(timedelta(minutes=1))
    assert {row.state for row in await given.deliveries()} == {DELIVERED}


async def test_what_a_process_remembers_of_receivers_is_bounded(given: Hooked) -> None:
    """Each tenant names hosts of its own."""
    calls, now = HookCalls(), given.world.clock.now()
    for number in range(5_000):
        calls.took(f"tenant_{number} host", 8)
        assert calls.put_back(f"tenant_{number} host", now) is not None
        assert max(len(calls._pace), len(calls._next)) <= 1_000
    assert calls.put_back("tenant_4999 host", now) == now + timedelta(seconds=4)
