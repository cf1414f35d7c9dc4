"""Time limits of functions and of calls to the bus (R43).

Azure's Python worker keeps no reference to the task of an invocation, and asyncio refers to tasks weakly. A task that
waits for nothing but bytes can be collected as garbage; then its invocation never ends, and the host waits until
`functionTimeout` (Azure/azure-functions-python-worker#1800, Azure/azure-functions-durable-python#567). The timer of a
limit refers to the task that it limits, so the task lives until it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

from shared.errors import Interrupted

#: of an HTTP function; Azure's front end gives up after 230 s
REQUEST_S = 200.0
#: of an activity: an orchestration waits for it
ACTIVITY_S = 120.0
#: of a reply function; the host renews the lock of its message for 300 s (host.json)
REPLY_S = 290.0
#: of the sweeper; `functionTimeout` of host.json is 600 s
SWEEP_S = 570.0

Given = ParamSpec("Given")
Returned = TypeVar("Returned")


@asynccontextmanager
async def time_limit(seconds: float) -> AsyncIterator[None]:
    """Raises Interrupted when the block takes longer, or when a client inside it gave up by cancelling.

    A cancellation of the task from outside passes through.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            yield
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise Interrupted(f"no answer within {seconds:g} s") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise Interrupted("a client cancelled its call") from error


def limited(
    seconds: float,
) -> Callable[[Callable[Given, Awaitable[Returned]]], Callable[Given, Awaitable[Returned]]]:
    """Decorates a function of the app: it raises Interrupted after `seconds`, which are its attribute `limit_s`."""

    def decorate(function: Callable[Given, Awaitable[Returned]]) -> Callable[Given, Awaitable[Returned]]:
        @wraps(function)
        async def bounded(*args: Given.args, **kwargs: Given.kwargs) -> Returned:
            async with time_limit(seconds):
                return await function(*args, **kwargs)

        bounded.__dict__["limit_s"] = seconds
        return bounded

    return decorate
