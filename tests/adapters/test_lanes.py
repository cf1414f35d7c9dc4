"""Reads of a lane on the bus emulator: shared, over a cached link, and never of a missing entity."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage

from shared.adapters.servicebus.lanes import ServiceBusLanes
from shared.adapters.servicebus.publisher import ServiceBusPublisher
from shared.adapters.servicebus.reply_entities import ReplyEntities
from shared.core.jobs.backlog import MAX_SHOWN
from shared.errors import BusUnavailable
from tests.servicebus_emulator.process import start_bus


@dataclass
class Clock:
    """The machine's time, moved on by a test."""

    ahead: timedelta = timedelta()

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


class Counting:
    """A client that counts the links that it opens."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.opened: list[Any] = []
        #: messages in one answer, at the most
        self.most = MAX_SHOWN

    def get_subscription_receiver(self, topic: str, subscription: str) -> Any:
        receiver = self._client.get_subscription_receiver(topic, subscription)
        peek = receiver.peek_messages

        async def peek_fewer(*, max_message_count: int, sequence_number: int) -> Any:
            return await peek(max_message_count=min(max_message_count, self.most), sequence_number=sequence_number)

        receiver.peek_messages = peek_fewer
        self.opened.append(receiver)
        return receiver


@asynccontextmanager
async def bus_with(*bodies: str) -> AsyncIterator[tuple[ServiceBusLanes, Counting, Clock, Any]]:
    bus = start_bus("--topic", "global-bus-p0/ocr", "--topic", "replies0/app")
    publisher = ServiceBusPublisher.connect(connection=bus.connection_string, namespace=None, credential=None)
    client, clock = Counting(publisher.client), Clock()
    try:
        async with publisher.client.get_topic_sender("global-bus-p0") as sender:
            await sender.send_messages([ServiceBusMessage(b"{}", message_id=each) for each in bodies])
        yield ServiceBusLanes(client, ReplyEntities("replies", "app"), clock), client, clock, bus  # type: ignore[arg-type]
    finally:
        for receiver in client.opened:
            await receiver.close()
        await publisher.close()
        bus.kill()


async def test_a_look_is_shared_until_somebody_needs_a_newer_one() -> None:
    """A hundred concurrent reads are one peek on one link; a link without use for minutes is closed."""
    async with bus_with(*(f"job_{number}:ocr:1" for number in range(40))) as (lanes, client, clock, _):
        since = clock.now()
        looks = await asyncio.gather(*(lanes.directives(0, "ocr", since=since) for _ in range(100)))
        assert all(look is looks[0] for look in looks)
        assert len(looks[0].oldest) == MAX_SHOWN
        sent_at = looks[0].oldest[0][1]
        assert [looks[0].ahead_of(f"job_{number}:ocr:1", sent_at) for number in (0, 31, 39)] == [0, 31, MAX_SHOWN]
        newer = await lanes.directives(0, "ocr", since=clock.now())
        assert newer is not looks[0]
        assert newer.oldest == looks[0].oldest
        assert len(client.opened) == 1
        clock.ahead = timedelta(minutes=6)
        assert (await lanes.replies(0, since=clock.now())).oldest == []
        assert client.opened[0]._handler is None or not client.opened[0]._running
        assert (await lanes.directives(0, "ocr", since=clock.now())).oldest == newer.oldest
        assert len(client.opened) == 3


@pytest.mark.parametrize("least", [1, 6, 31])
async def test_the_bus_may_show_less_than_it_was_asked_for(least: int) -> None:
    """It has a maximum and no minimum: only an empty response means that there is no more."""
    async with bus_with(*(f"job_{number}:ocr:1" for number in range(40))) as (lanes, client, clock, _):
        client.most = least
        look = await lanes.directives(0, "ocr", since=clock.now())
        assert [name for name, _ in look.oldest] == [f"job_{number}:ocr:1" for number in range(MAX_SHOWN)]
        assert not look.is_all
    async with bus_with("a:ocr:1", "b:ocr:1") as (lanes, client, clock, _):
        client.most = least
        look = await lanes.directives(0, "ocr", since=clock.now())
        assert ([name for name, _ in look.oldest], look.is_all) == (["a:ocr:1", "b:ocr:1"], True)


async def test_a_bus_that_hangs_is_found_out_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty activities that read at once wait for one timeout, not for twenty in a row."""
    monkeypatch.setattr("shared.adapters.servicebus.links._CALL_S", 0.5)
    async with bus_with() as (lanes, client, clock, bus):
        bus.process.send_signal(signal.SIGSTOP)
        began = clock.now()
        asked = (lanes.directives(0, "ocr", since=began) for _ in range(20))
        faults = await asyncio.gather(*asked, return_exceptions=True)
        bus.process.send_signal(signal.SIGCONT)
        assert {type(fault) for fault in faults} == {BusUnavailable}
        assert len(client.opened) == 1


async def test_a_message_that_is_worked_on_is_shown_and_one_that_is_done_is_not() -> None:
    """A locked message keeps its position until it is completed."""
    async with bus_with("a:ocr:1", "b:ocr:1") as (lanes, client, clock, _):
        async with client._client.get_subscription_receiver("global-bus-p0", "ocr") as receiver:
            [taken] = await receiver.receive_messages(max_message_count=1, max_wait_time=60)
            look = await lanes.directives(0, "ocr", since=clock.now())
            assert [name for name, _ in look.oldest] == ["a:ocr:1", "b:ocr:1"]
            await receiver.complete_message(taken)
        # the SDK does not wait until the bus has read that
        async with asyncio.timeout(60):
            while len((look := await lanes.directives(0, "ocr", since=clock.now())).oldest) > 1:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert [name for name, _ in look.oldest] == ["b:ocr:1"]
        assert look.ahead_of("a:ocr:1", clock.now()) is None


async def test_after_a_fault_the_next_look_opens_a_new_link() -> None:
    """An unreachable bus is BusUnavailable for every caller, and later reads work."""
    async with bus_with("a:ocr:1") as (lanes, client, clock, bus):
        await lanes.directives(0, "ocr", since=clock.now())
        bus.process.kill()
        bus.process.wait()
        with pytest.raises(BusUnavailable):
            await lanes.directives(0, "ocr", since=clock.now())
        assert not client.opened[0]._running
        with pytest.raises(BusUnavailable):
            await lanes.directives(0, "ocr", since=clock.now())
        assert len(client.opened) == 2
