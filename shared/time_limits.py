"""Time limits of functions, and of calls to stores and to the bus (R43).

Each limit is below the limit around it, so that a hanging call ends with its own error and is tried again in time:

    STORE.call_s 40 < TAKE_S 45 < ACTIVITY_S 120 < REQUEST_S 200 < 230, Azure's front end
    RETRY_FOR_S 240 + TAKE_S 45 < REPLY_S 290 < 300, the renewal of a message's lock (host.json)
    SWEEP_S 570 < 600, `functionTimeout` (host.json)

Azure's Python worker keeps no reference to the task of an invocation, and asyncio refers to tasks weakly. A task that
waits for nothing but bytes can be collected as garbage. Then its invocation never ends, and the host waits until
`functionTimeout` (Azure/azure-functions-python-worker#1800, Azure/azure-functions-durable-python#567). The timer of a
limit refers to the task that it limits, so the task lives until it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from shared.errors import Interrupted

#: seconds of an HTTP function; Azure's front end gives up after 230 s
REQUEST_S = 200.0
#: seconds of an activity, for which an orchestration waits
ACTIVITY_S = 120.0
#: seconds of a reply function; the host renews the lock of its message for 300 s (host.json)
REPLY_S = 290.0
#: seconds of one try to apply a reply
TAKE_S = 45.0
#: seconds of a batch of hints: the host does not renew the locks of a batch, which last 60 s (topology.json)
HINTS_S = 50.0
#: seconds of a webhook's try, which posts for at most 10 s and reads and writes rows; the host renews its message's
#: lock
DELIVERY_S = 120.0
#: seconds after which no further try to apply a reply starts
RETRY_FOR_S = 240.0
#: seconds of the sweeper; `functionTimeout` in host.json is 600 s
SWEEP_S = 570.0
#: seconds of one call of the durable client, whose default is 240 s
ENGINE_CALL_S = 30.0
#: seconds of one fetch of the issuer's keys, for which requests wait
KEYS_CALL_S = 5.0


@dataclass(frozen=True, kw_only=True)
class StoreLimits:
    """Timeouts of an Azure SDK's client, whose defaults are 300 s for a connection and 300 s for a response.

    The timeouts apply to each try. The wait that a throttled store requests (`Retry-After`) and the fetch of a token
    are additional. The limit around the call ends both. The direct transport waits at most `read_s` before each retry.
    """

    #: seconds for a connection, including its TLS handshake
    connect_s: float
    #: seconds for the next byte of a response; Azure Tables itself ends a page of a query after 5 s
    #: (https://learn.microsoft.com/rest/api/storageservices/query-timeout-and-pagination)
    read_s: float
    #: number of tries after the first; the layers above try again too
    retries: int
    #: seconds before each retry except the first, which is immediate
    backoff_s: float = 0.5

    @property
    def call_s(self) -> float:
        """Returns the maximum time of a call in seconds: its tries and the waits between the tries, without the
        additional times.
        """
        return (1 + self.retries) * (self.connect_s + self.read_s) + self.backoff_s * self.retries

    @property
    def options(self) -> dict[str, Any]:
        """Returns keywords for a client of `azure.core`."""
        return {
            "connection_timeout": self.connect_s,
            "read_timeout": self.read_s,
            "retry_total": self.retries,
            "retry_backoff_max": self.backoff_s,
        }

    @property
    def blob_options(self) -> dict[str, Any]:
        """Returns keywords for a client of `azure.storage.blob`, whose own retries are by default 15 s apart."""
        return {**self.options, "initial_backoff": 0.25, "increment_base": 0, "random_jitter_range": 0.25}


#: limits for tables and blobs
STORE = StoreLimits(connect_s=3, read_s=10, retries=2)
#: limits for App Configuration: a request waits for the first read, and the next refresh reads again
CONFIGURATION = StoreLimits(connect_s=3, read_s=5, retries=1)
#: limits for a probe, which requests the present state
PROBE = StoreLimits(connect_s=3, read_s=3, retries=0)

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Raises Interrupted if the block takes longer than `seconds`, or if a client in the block cancelled its call.

    A cancellation of the task itself is raised again.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise Interrupted(f"no response within {seconds:g} s") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise Interrupted("a client cancelled its call") from error


def limited(
    seconds: float,
) -> Callable[[Callable[Given, Awaitable[Returned]]], Callable[Given, Awaitable[Returned]]]:
    """Returns a decorator. The decorated function raises Interrupted as `time_limit(seconds)` does.

    The attribute `limit_s` of the function has this limit.
    """

    def decorate(function: Callable[Given, Awaitable[Returned]]) -> Callable[Given, Awaitable[Returned]]:
        @wraps(function)
        async def bounded(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
            async with time_limit(seconds):
                return await function(*args, **kwargs)

        bounded.__dict__["limit_s"] = seconds
        return bounded

    return decorate
