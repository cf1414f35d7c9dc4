"""Service Bus triggers: peek-lock; a function that returns completes the message, one that raises abandons it.

One SDK receiver a function. The SDK's receiver must not be used by two coroutines at once: they would wait for
each other's frames (up to 0.2 s a settlement). So one coroutine owns it: it receives, and interrupts that to
settle what has finished and to renew locks.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from .functions import Function
from .service_bus_message import convert

_LOG = logging.getLogger("emulator.host")

#: The SDK looks at its connection that often while idle; frames wake it at once all the same.
_IDLE_POLL_S = 2.0
_RECEIVE_WAIT_S = 60.0
_FIRST_RETRY_S = 0.2
_MAX_RETRY_S = 5.0
#: How long an interrupted receive may take to come back before it is interrupted again.
_INTERRUPT_S = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """From host.json, `extensions.serviceBus`. Renewal in seconds, 0: none."""

    max_concurrent_calls: int
    max_renewal_s: float
    prefetch_count: int


@dataclass(slots=True, eq=False)
class _InFlight:
    message: ServiceBusReceivedMessage
    task: asyncio.Task[None] | None
    renew_at: datetime | None
    give_up_at: datetime


class ServiceBusTrigger:
    """`invoke` runs the function with a `func.ServiceBusMessage`, and tells whether it succeeded."""

    def __init__(
        self,
        function: Function,
        connection: str,
        limits: Limits,
        invoke: Callable[[Function, Any], Awaitable[bool]],
    ) -> None:
        self._function = function
        self._connection = connection
        self._limits = limits
        self._invoke = invoke
        self._in_flight: set[_InFlight] = set()
        self._finished: deque[tuple[_InFlight, bool]] = deque()
        self._wake = asyncio.Event()
        self._stopping = False
        self._lost = False

    @property
    def source(self) -> str:
        fields = self._function.trigger.fields
        topic = fields.get("topicName")
        return f"{topic}/{fields.get('subscriptionName')}" if topic else str(fields.get("queueName"))

    async def run(self) -> None:
        """Until `stop`; a bus that goes away is connected to again for ever."""
        delay = _FIRST_RETRY_S
        while not self._stopping:
            try:
                async with ServiceBusClient.from_connection_string(
                    self._connection, retry_total=0, socket_timeout=_IDLE_POLL_S
                ) as client:
                    async with self._receiver(client) as receiver:
                        if self._lost:
                            self._lost = False
                            _LOG.info("%s receives from %s again", self._function.name, self.source)
                        delay = _FIRST_RETRY_S
                        await self._serve(receiver)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # whatever the SDK raises: the trigger must not die
                self._finished.clear()
                if not self._lost:
                    self._lost = True
                    _LOG.warning("%s cannot receive from %s, trying on: %s", self._function.name, self.source, error)
            if not self._stopping:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _MAX_RETRY_S)

    def stop(self) -> None:
        """Takes nothing more; `run` ends when what is in flight is settled."""
        self._stopping = True
        self._wake.set()

    def _receiver(self, client: ServiceBusClient) -> ServiceBusReceiver:
        options: dict[str, Any] = {"prefetch_count": self._limits.prefetch_count}
        trigger = self._function.trigger
        if topic := trigger.text("topicName"):
            return client.get_subscription_receiver(topic, str(trigger.fields["subscriptionName"]), **options)
        return client.get_queue_receiver(str(trigger.fields["queueName"]), **options)

    async def _serve(self, receiver: ServiceBusReceiver) -> None:
        while True:
            self._wake.clear()
            while self._finished:
                await self._settle(receiver, *self._finished.popleft())
            await self._renew(receiver)
            if self._stopping and not self._in_flight:
                return
            if self._stopping or len(self._in_flight) >= self._limits.max_concurrent_calls:
                await self._wait(None)
            else:
                for message in await self._receive(receiver):
                    self._start(message)

    async def _receive(self, receiver: ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
        # One at a time: asked for more, the SDK holds the first back for 0.2 s to see whether others come.
        receiving = asyncio.ensure_future(receiver.receive_messages(max_message_count=1, max_wait_time=_RECEIVE_WAIT_S))
        try:
            await self._wait(receiving)
        finally:
            while not receiving.done():
                receiving.cancel()
                await asyncio.wait([receiving], timeout=_INTERRUPT_S)
        return [] if receiving.cancelled() else receiving.result()

    async def _wait(self, receiving: asyncio.Future[Any] | None) -> None:
        """Until something was received or finished, or a lock must be renewed."""
        due = min((one.renew_at for one in self._in_flight if one.renew_at is not None), default=None)
        timeout = None if due is None else max(0.0, (due - datetime.now(UTC)).total_seconds())
        woken = asyncio.ensure_future(self._wake.wait())
        try:
            futures = [woken] if receiving is None else [woken, receiving]
            await asyncio.wait(futures, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            woken.cancel()

    def _start(self, message: ServiceBusReceivedMessage) -> None:
        now = datetime.now(UTC)
        one = _InFlight(message, None, None, now + timedelta(seconds=min(self._limits.max_renewal_s, 1e8)))
        self._plan_renewal(one, now)
        self._in_flight.add(one)
        one.task = asyncio.ensure_future(self._call(one))

    async def _call(self, one: _InFlight) -> None:
        succeeded = False
        try:
            succeeded = await self._invoke(self._function, convert(one.message))
        finally:
            self._in_flight.discard(one)
            self._finished.append((one, succeeded))
            self._wake.set()

    def _plan_renewal(self, one: _InFlight, now: datetime) -> None:
        until = one.message.locked_until_utc
        one.renew_at = None
        if until is not None and self._limits.max_renewal_s > 0:
            at = now + (until.replace(tzinfo=UTC) - now) / 2
            one.renew_at = at if at < one.give_up_at else None

    async def _renew(self, receiver: ServiceBusReceiver) -> None:
        for one in list(self._in_flight):
            now = datetime.now(UTC)
            if one.renew_at is None or one.renew_at > now:
                continue
            try:
                await receiver.renew_message_lock(one.message)
                self._plan_renewal(one, datetime.now(UTC))
            except Exception as error:  # a lost lock: the message comes again, its function goes on
                one.renew_at = None
                _LOG.warning("%s: the lock of message %s is lost: %s", self.source, one.message.message_id, error)

    async def _settle(self, receiver: ServiceBusReceiver, one: _InFlight, succeeded: bool) -> None:
        try:
            if succeeded:
                await receiver.complete_message(one.message)
            else:
                await receiver.abandon_message(one.message)
        except Exception as error:  # a lost lock or connection: the message comes again
            _LOG.warning("%s: message %s could not be settled: %s", self.source, one.message.message_id, error)
