"""Counts of the bus for dispatch limits (R56), and times of the last replies of services (R57).

The emulator proves nothing about Azure.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceivedMessage

from shared.adapters.servicebus.counts import ServiceBusCounts
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.sweep_mark import TablesAnswers
from shared.errors import BusUnavailable, CountsForbidden
from shared.ports.sweeps import Answers, Heard
from tests.jobs import START
from tests.memory_stores import MemoryAnswers
from tests.servicebus_emulator.process import Bus, start_bus


@contextmanager
def running(*options: str) -> Iterator[Bus]:
    bus = start_bus(
        "--topic", "global-bus-p0/ocr", "--topic", "global-bus-p1/ocr", "--topic", "global-bus-p1/sis", *options
    )
    try:
        yield bus
    finally:
        bus.kill()


def counts_of(bus: Bus, **changes: Any) -> ServiceBusCounts:
    known: dict[str, Any] = {"connection": bus.connection_string, "url": bus.admin_url}
    return ServiceBusCounts(namespace=None, credential=None, **(known | changes))


async def test_what_is_worked_on_counts_until_it_is_completed() -> None:
    """Of one service on one lane, and of all services on it; dead letters and other lanes do not count."""
    with running() as bus:
        counts = counts_of(bus)
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            with client.get_topic_sender("global-bus-p1") as sender:
                sender.send_messages([ServiceBusMessage(b"{}", message_id=str(number)) for number in range(3)])
            assert (await counts.in_flight(1, "ocr"), await counts.in_flight(0, "ocr")) == (3, 0)
            assert await counts.in_flight(1, None) == 6
            with client.get_subscription_receiver("global-bus-p1", "ocr") as receiver:
                taken: list[ServiceBusReceivedMessage] = []
                while len(taken) < 2:
                    taken += receiver.receive_messages(max_message_count=2 - len(taken), max_wait_time=30)
                assert await counts.in_flight(1, "ocr") == 3
                receiver.complete_message(taken[0])
                receiver.dead_letter_message(taken[1])
                # the SDK does not wait until the bus has read that
                async with asyncio.timeout(30):
                    while (left := await counts.in_flight(1, "ocr")) > 1:  # noqa: ASYNC110
                        await asyncio.sleep(0.05)
                assert left == 1
        # a service that is not in the topology, or not deployed yet
        assert (await counts.in_flight(1, "nobody"), await counts.in_flight(7, "ocr")) == (0, 0)
        await counts.close()
        await counts.close()
    with pytest.raises(BusUnavailable, match="the count of global-bus-p1"):
        await counts.in_flight(1, "ocr")
    await counts.close()


async def test_without_the_right_it_is_forbidden() -> None:
    """401 of the management API: another key than that of the bus."""
    with running("--sas-key", "another") as bus:
        counts = counts_of(bus)
        for service in ("ocr", None):
            with pytest.raises(CountsForbidden, match="Data Owner"):
                await counts.in_flight(1, service)
        await counts.close()


@pytest.mark.parametrize("kind", ["memory", "tables"])
async def test_when_a_service_answered_last(kind: str, request: pytest.FixtureRequest) -> None:
    """Noted and marked apart, so that a reply and the sweeper never take each other's word away."""
    account = None
    answers: Answers = MemoryAnswers()
    if kind == "tables":
        connection, own = request.getfixturevalue("azurite"), uuid.uuid4().hex[:12]
        account = TablesAccount.connect(
            connection=connection, endpoint=None, credential=None, version_table=f"tenants{own}"
        )
        answers = TablesAnswers(account, f"gates{own}")
    later = START + timedelta(minutes=5)
    assert await answers.read() == {}
    await answers.note("ocr", START)
    await answers.mark("sis/1", START)
    await answers.mark("ocr", later)
    assert await answers.read() == {"ocr": Heard(START, later), "sis/1": Heard(None, START)}
    await answers.note("ocr", later)
    await answers.mark("sis/1", None)
    assert await answers.read() == {"ocr": Heard(later, later), "sis/1": Heard()}
    if account is not None:
        await account.close()
