"""What the senders and receivers of Service Bus have in common: their faults, and how they are closed."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from azure.servicebus.aio import ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError

from shared.errors import BusUnavailable, Interrupted
from shared.time_limits import time_limit

#: what a call raises while the bus is away; TimeoutError is an OSError
BUS_FAULTS = (ServiceBusError, OSError, ValueError, Interrupted)
_CLOSE_S = 5.0
#: of one call to a receiver, with the opening of its link (R43)
_CALL_S = 15.0

Answer = TypeVar("Answer")


async def answer(call: Awaitable[Answer], what: str) -> Answer:
    """The bus's answer to a receiver's call; `what` tells what failed. Raises BusUnavailable."""
    try:
        async with time_limit(_CALL_S):
            return await call
    except BUS_FAULTS as error:
        raise BusUnavailable(f"{what}: {type(error).__name__}") from error


async def close_link(link: ServiceBusSender | ServiceBusReceiver) -> None:
    """Never fails: a link that does not close in time is left (R43)."""
    with suppress(*BUS_FAULTS):
        async with time_limit(_CLOSE_S):
            await link.close()
