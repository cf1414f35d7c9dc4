"""The limits of HTTP requests: `maxConcurrentRequests` and `maxOutstandingRequests` of host.json."""

from __future__ import annotations

import asyncio
from types import TracebackType

#: no limit, the default outside the Consumption plan
UNLIMITED = -1


class TooManyRequestsError(Exception):
    """The maximum number of outstanding requests is reached."""


class RequestThrottle:
    """An async context manager around a request. Raises `TooManyRequestsError` if the maximum number of outstanding
    requests is reached.
    """

    def __init__(self, max_concurrent: int, max_outstanding: int) -> None:
        self._slots = asyncio.Semaphore(max_concurrent) if max_concurrent != UNLIMITED else None
        self._max_outstanding = max_outstanding
        self._outstanding = 0

    async def __aenter__(self) -> None:
        if self._max_outstanding != UNLIMITED and self._outstanding >= self._max_outstanding:
            raise TooManyRequestsError
        self._outstanding += 1
        if self._slots is not None:
            try:
                await self._slots.acquire()
            except BaseException:
                self._outstanding -= 1
                raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._outstanding -= 1
        if self._slots is not None:
            self._slots.release()
