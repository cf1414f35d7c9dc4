"""What the senders and receivers of Service Bus have in common: their faults, and how they are closed."""

from __future__ import annotations

from contextlib import suppress

from azure.servicebus.aio import ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError

from shared.errors import Interrupted
from shared.time_limits import time_limit

#: what a call raises while the bus is away; TimeoutError is an OSError
BUS_FAULTS = (ServiceBusError, OSError, ValueError, Interrupted)
_CLOSE_S = 5.0


async def close_link(link: ServiceBusSender | ServiceBusReceiver) -> None:
    """Never fails: a link that does not close in time is left (R43)."""
    with suppress(*BUS_FAULTS):
        async with time_limit(_CLOSE_S):
            await link.close()
