"""A message is received when it arrives: the private behaviour of the SDK that this requires."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from functions_emulator.host import service_bus_trigger
from lucius_service import servicebus_consumer
from tests.servicebus_emulator.process import Bus

_DEADLINE_S = 60


@pytest.mark.parametrize("keep_alive", [servicebus_consumer.keep_alive, service_bus_trigger.keep_alive])
async def test_how_often_the_sdk_listens_by_itself(
    quiet_bus: Bus, keep_alive: Callable[[ServiceBusReceiver, float], None]
) -> None:
    """An open receiver reads the interval at each poll, and its default is five seconds."""
    async with ServiceBusClient.from_connection_string(quiet_bus.connection_string) as client:
        async with client.get_subscription_receiver("global-bus-p1", "killed", socket_timeout=0.3) as receiver:
            handler: Any = receiver._handler
            listened = asyncio.Event()
            listen = handler._connection.listen

            async def heard(*arguments: Any, **options: Any) -> None:
                listened.set()
                await listen(*arguments, **options)

            handler._connection.listen = heard
            assert (handler._keep_alive_interval, handler._socket_timeout) == (5, 0.3)
            keep_alive(receiver, 0.0)
            await asyncio.wait_for(listened.wait(), _DEADLINE_S)
            keep_alive(receiver, math.inf)
            assert handler._keep_alive_interval == math.inf
