"""The batches of a Service Bus trigger with cardinality many."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from functions_emulator.host import service_bus_trigger
from functions_emulator.host.service_bus_trigger import Limits, ServiceBusTrigger

LIMITS = Limits(max_concurrent_calls=4, max_renewal_s=0, prefetch_count=0, max_batch=10, auto_complete=True)


class Receiver:
    """The SDK's receiver, as far as the trigger uses it. It records the requested count and its polling interval."""

    def __init__(self, *batches: list[str]) -> None:
        self._handler = SimpleNamespace(_socket_timeout=service_bus_trigger._IDLE_POLL_S)
        self._batches = list(batches)
        self.asked: list[tuple[int, float, float]] = []

    async def receive_messages(self, *, max_message_count: int, max_wait_time: float) -> list[str]:
        self.asked.append((max_message_count, max_wait_time, self._handler._socket_timeout))
        if not self._batches:
            await asyncio.Event().wait()
        return self._batches.pop(0)


def trigger(cardinality: str, limits: Limits = LIMITS) -> ServiceBusTrigger:
    async def invoke(*_: Any) -> bool:
        return True

    function: Any = SimpleNamespace(trigger=SimpleNamespace(fields={"cardinality": cardinality}))
    return ServiceBusTrigger(function, "", limits, invoke)


async def test_a_batch_waits_a_moment_for_more() -> None:
    """The SDK's own wait for others is 0.2 s, and ends with its next poll: the poll is short meanwhile, not longer."""
    receiver: Any = Receiver(["a"], ["b", "c"])
    assert await trigger("many")._messages(receiver) == ["a", "b", "c"]
    assert receiver.asked == [(1, 60.0, 1.0), (9, 0.02, 0.02)]
    assert receiver._handler._socket_timeout == 1.0


@pytest.mark.parametrize(
    ("cardinality", "max_batch", "first"), [("one", 10, ["a"]), ("many", 1, ["a"]), ("many", 10, [])]
)
async def test_one_message_waits_for_nothing(cardinality: str, max_batch: int, first: list[str]) -> None:
    receiver: Any = Receiver(first)
    limits = Limits(max_concurrent_calls=4, max_renewal_s=0, prefetch_count=0, max_batch=max_batch, auto_complete=True)
    assert await trigger(cardinality, limits)._messages(receiver) == first
    assert len(receiver.asked) == 1


async def test_an_interrupted_batch_keeps_its_first_message() -> None:
    receiver: Any = Receiver(["a"])
    receiving = asyncio.ensure_future(trigger("many")._messages(receiver))
    async with asyncio.timeout(30):
        while len(receiver.asked) < 2:  # noqa: ASYNC110  # nobody signals that it is asked
            await asyncio.sleep(0)
        receiving.cancel()
        assert await receiving == ["a"]
