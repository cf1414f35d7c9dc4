"""Service Bus triggers with sessions. Several sessions are processed concurrently, and the messages or batches of one
session one after another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from azure.servicebus import NEXT_AVAILABLE_SESSION
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import OperationTimeoutError

from functions_emulator.host.functions import Function
from functions_emulator.host.service_bus_trigger import Limits, call, open_receiver, settle, source_of

_LOG = logging.getLogger("functions_emulator.host")

_RETRY_S = 2.0
#: seconds between two checks of an idle session for a stop
_RECEIVE_WAIT_S = 1.0


class SessionTrigger:
    """A trigger that serves up to `max_sessions` sessions. Closes a session that is idle for `idle_s` seconds.

    `invoke` runs the function and returns `True` if it succeeded.
    """

    def __init__(
        self,
        function: Function,
        connection: str,
        limits: Limits,
        max_sessions: int,
        idle_s: float,
        invoke: Callable[[Function, Any], Awaitable[bool]],
    ) -> None:
        self._function = function
        self._connection = connection
        self._limits = limits
        self._max_sessions = max_sessions
        self._idle_s = idle_s
        self._invoke = invoke
        self._many = str(function.trigger.fields.get("cardinality")).lower() == "many"
        self._accepting: set[asyncio.Task[Any]] = set()
        self._stopping = False
        self._lost = False

    async def run(self) -> None:
        """Runs until `stop`."""
        await asyncio.gather(*(self._serve_sessions() for _ in range(self._max_sessions)))

    def stop(self) -> None:
        """Accepts no more sessions. `run` ends after the current messages."""
        self._stopping = True
        for task in self._accepting:
            task.cancel()

    async def _serve_sessions(self) -> None:
        while not self._stopping:
            try:
                async with ServiceBusClient.from_connection_string(self._connection, retry_total=0) as client:
                    while not self._stopping:
                        await self._serve_next(client)
            except OperationTimeoutError:
                continue  # no session has messages
            except asyncio.CancelledError:
                if not self._stopping:
                    raise
            except Exception as error:  # any error of the SDK: the trigger must not end
                if not self._lost:
                    self._lost = True
                    _LOG.warning(
                        "%s cannot receive from %s, retrying: %s",
                        self._function.name,
                        source_of(self._function),
                        error,
                    )
                await asyncio.sleep(_RETRY_S)

    async def _serve_next(self, client: ServiceBusClient) -> None:
        receiver = open_receiver(client, self._function, session_id=NEXT_AVAILABLE_SESSION)
        opening = asyncio.ensure_future(receiver.__aenter__())
        self._accepting.add(opening)
        try:
            await opening
            self._lost = False
            await self._serve(receiver)
        finally:
            self._accepting.discard(opening)
            await receiver.close()

    async def _serve(self, receiver: ServiceBusReceiver) -> None:
        idle = 0.0
        count = self._limits.max_batch if self._many else 1
        while not self._stopping and idle < self._idle_s:
            messages = await receiver.receive_messages(max_message_count=count, max_wait_time=_RECEIVE_WAIT_S)
            if not messages:
                idle += _RECEIVE_WAIT_S
                await self._renew(receiver)
                continue
            idle = 0.0
            running = asyncio.ensure_future(call(self._function, messages, self._many, self._invoke))
            while not running.done():
                await asyncio.wait([running], timeout=_RECEIVE_WAIT_S)
                await self._renew(receiver)
            for message in messages:
                if self._limits.auto_complete or not running.result():
                    await settle(receiver, message, running.result(), source_of(self._function))

    async def _renew(self, receiver: ServiceBusReceiver) -> None:
        """Renews the session's lock when less than 10 s of it are left."""
        until = receiver.session.locked_until_utc
        if until is None or self._limits.max_renewal_s <= 0:
            return
        left = (until.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds()
        if left < 10.0:
            await receiver.session.renew_lock()
