"""What the senders and receivers of Service Bus have in common: their client, a sender, their faults and their end."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from azure.core.credentials_async import AsyncTokenCredential
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from shared.errors import BusUnavailable, Interrupted
from shared.time_limits import time_limit

#: what a call raises while the bus is away; TimeoutError is an OSError
BUS_FAULTS = (ServiceBusError, OSError, ValueError, Interrupted)
_CLOSE_S = 5.0
#: the SDK's own short retries; what lasts longer is the business of whoever calls
_SDK_RETRIES = 2
_SDK_BACKOFF_FACTOR_S = 0.3
#: of one try of the SDK, which else has no limit for opening a connection
_TRY_TIMEOUT_S = 10.0
#: of one call to a receiver, with the opening of its link (R43)
_CALL_S = 15.0

Answer = TypeVar("Answer")


def bus_client(
    *, connection: str | None, namespace: str | None, credential: AsyncTokenCredential | None
) -> ServiceBusClient:
    """Over a connection string, else over a namespace's host name with a credential."""
    options: dict[str, Any] = {
        "retry_total": _SDK_RETRIES,
        "retry_backoff_factor": _SDK_BACKOFF_FACTOR_S,
        "try_timeout": _TRY_TIMEOUT_S,
    }
    if connection is not None:
        if "usedevelopmentemulator=true" in connection.lower():
            # a bus on this machine has no TLS: else the SDK reads all certificates of the world for each link
            options["ssl_context"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ServiceBusClient.from_connection_string(connection, **options)
    if namespace is None or credential is None:
        raise ValueError("needs a connection string, or a namespace and a credential")
    return ServiceBusClient(namespace, credential, **options)


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


class Sender:
    """Sends to one queue or topic; its link is opened on first use, and one that failed again at the next send."""

    def __init__(
        self, name: str, opened: Callable[[str], ServiceBusSender], *, send_s: float, open_s: float | None = None
    ) -> None:
        """`send_s`: of one send, in seconds; `open_s`: of one that opens the link, where it may take longer."""
        self._name = name
        self._opened = opened
        self._send_s, self._open_s = send_s, open_s or send_s
        self._sender: ServiceBusSender | None = None
        #: Race sender: an aio sender must not be used by two coroutines at once
        self._lock = asyncio.Lock()

    async def send(self, messages: Sequence[ServiceBusMessage]) -> None:
        """Together. Raises BusUnavailable."""
        async with self._lock:
            try:
                async with time_limit(self._send_s if self._sender is not None else self._open_s):
                    if self._sender is None:
                        self._sender = self._opened(self._name)
                    await self._sender.send_messages(list(messages))
            except MessageSizeExceededError as error:
                raise BusUnavailable(f"messages for {self._name} are too large for the bus") from error
            except BUS_FAULTS as error:
                await self.close()
                raise BusUnavailable(f"{self._name} took no messages: {type(error).__name__}") from error
            except asyncio.CancelledError:
                await self.close()
                raise

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        if sender is not None:
            await close_link(sender)
