"""The sender of hints: its messages, and the retries with a slow or unreachable bus."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.exceptions import ServiceBusConnectionError

from shared.adapters.servicebus import senders as servicebus_senders
from shared.adapters.servicebus.senders import ServiceBusDeliveries, ServiceBusHints
from shared.core.events.hints import Hint, decode_hint
from shared.errors import BusUnavailable
from shared.ports.webhooks import DeliveryCall, decode_call
from tests.jobs import START

HINTS = [Hint(tenant="tenant_a", job_id=f"job_{number}", first=1, last=number) for number in range(3)]


class Sender:
    def __init__(self, fault: Exception | None, *, hangs: bool) -> None:
        self.sent: list[ServiceBusMessage] = []
        self.closed = False
        self._fault, self._hangs, self._busy = fault, hangs, False

    async def send_messages(self, messages: list[ServiceBusMessage]) -> None:
        assert not self._busy, "used by two at once"
        self._busy = True
        await asyncio.sleep(3600 if self._hangs else 0)
        self._busy = False
        if self._fault is not None:
            raise self._fault
        self.sent += messages

    async def close(self) -> None:
        self.closed = True


class Client:
    def __init__(self, fault: Exception | None = None, *, hangs: bool = False) -> None:
        self.senders: list[Sender] = []
        self.fault, self.hangs = fault, hangs

    def get_queue_sender(self, name: str) -> Sender:
        assert name in ("lucius-hints", "lucius-webhooks")
        self.senders.append(Sender(self.fault, hangs=self.hangs))
        return self.senders[-1]


def sent(message: ServiceBusMessage) -> Any:
    return decode_hint(b"".join(message.body))


async def test_hints_on_the_wire() -> None:
    """One message each, in one send, by a sender that one uses at a time."""
    client = Client()
    queue = ServiceBusHints(client)  # type: ignore[arg-type]
    await asyncio.gather(queue.send(HINTS), queue.send(HINTS[:1], at=START + timedelta(minutes=5)))
    [sender] = client.senders
    assert [sent(message) for message in sender.sent] == [*HINTS, HINTS[0]]
    assert [message.scheduled_enqueue_time_utc for message in sender.sent] == [None] * 3 + [
        START + timedelta(minutes=5)
    ]


async def test_deliveries_on_the_wire() -> None:
    client, calls = Client(), [DeliveryCall(tenant="t", hook_id="h", number=number) for number in range(3)]
    queue = ServiceBusDeliveries(client)  # type: ignore[arg-type]
    await queue.send(calls, at=START)
    [sender] = client.senders
    assert [decode_call(b"".join(message.body)) for message in sender.sent] == calls
    assert {message.scheduled_enqueue_time_utc for message in sender.sent} == {START}


@pytest.mark.parametrize(
    "client",
    [
        Client(ServiceBusConnectionError(message="away")),
        # of the SDK, on a link that the bus closed while it was idle
        Client(AttributeError("'NoneType' object has no attribute 'client_ready_async'")),
        Client(hangs=True),
    ],
)
async def test_a_sender_that_failed_is_replaced(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    # the second send has as long, and needs no time but that of a busy machine
    monkeypatch.setattr(servicebus_senders, "_OPEN_S", 2.0)
    queue = ServiceBusHints(client)  # type: ignore[arg-type]
    with pytest.raises(BusUnavailable):
        await queue.send(HINTS)
    client.fault, client.hangs = None, False
    await queue.send(HINTS)
    failed, second = client.senders
    assert (failed.closed, len(second.sent)) == (True, 3)
