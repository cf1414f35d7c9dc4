"""Shared parts of the senders and receivers of Service Bus: their client, faults and closing."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, TypeVar

from azure.core.credentials_async import AsyncTokenCredential
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender
from azure.servicebus.exceptions import ServiceBusError

from shared.errors import BusUnavailable, Interrupted
from shared.time_limits import time_limit

#: errors of a failed call to the bus. TimeoutError is an OSError. The SDK raises AttributeError on a link
#: that the bus closed while idle (https://github.com/Azure/azure-sdk-for-python/issues/48921)
BUS_FAULTS = (ServiceBusError, OSError, ValueError, AttributeError, Interrupted)
_CLOSE_S = 5.0
#: short retries of the SDK; the caller handles longer faults
_SDK_RETRIES = 2
_SDK_BACKOFF_FACTOR_S = 0.3
#: maximum seconds of one try of the SDK, which otherwise has no limit for opening a connection
_TRY_TIMEOUT_S = 10.0
#: maximum seconds of one call to a receiver, including the opening of its link (R43)
_CALL_S = 15.0

_Returned = TypeVar("_Returned")


def bus_client(
    *, connection: str | None, namespace: str | None, credential: AsyncTokenCredential | None
) -> ServiceBusClient:
    """Connects with a connection string, or with a namespace's host name and a credential. Raises ValueError if both
    are missing.
    """
    options: dict[str, Any] = {
        "retry_total": _SDK_RETRIES,
        "retry_backoff_factor": _SDK_BACKOFF_FACTOR_S,
        "try_timeout": _TRY_TIMEOUT_S,
    }
    if connection is not None:
        if "usedevelopmentemulator=true" in connection.lower():
            # a local bus has no TLS; without this, the SDK reads all root certificates for each link
            options["ssl_context"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return ServiceBusClient.from_connection_string(connection, **options)
    if namespace is None or credential is None:
        raise ValueError("the Service Bus client needs a connection string, or a namespace and a credential")
    return ServiceBusClient(namespace, credential, **options)


async def answer(call: Awaitable[_Returned], what: str) -> _Returned:
    """Awaits a call of a receiver and returns the result. `what` is the name of the call in errors. Raises
    BusUnavailable.
    """
    try:
        async with time_limit(_CALL_S):
            return await call
    except BUS_FAULTS as error:
        raise BusUnavailable(f"{what}: {type(error).__name__}") from error


async def close_link(link: ServiceBusSender | ServiceBusReceiver) -> None:
    """Closes a link, and ignores faults of the bus. Leaves a link open that does not close within `_CLOSE_S` (5)
    seconds (R43).
    """
    with suppress(*BUS_FAULTS):
        async with time_limit(_CLOSE_S):
            await link.close()
