"""Service Bus triggers in peek-lock mode. The host completes the message if the function returns, unless
`autoCompleteMessages` is false. The host abandons the message if the function raises an exception.

Each function has one receiver of the SDK. Two coroutines must not use a receiver concurrently, since they wait for each
other's frames (up to 0.2 s per settlement). So one coroutine owns the receiver. This coroutine interrupts a receive to
settle messages and to renew locks.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver

from functions_emulator.host.functions import Function
from functions_emulator.host.service_bus_message import UnreadableBatchError, convert, convert_batch

_LOG = logging.getLogger("functions_emulator.host")

#: seconds after which the SDK polls an idle connection; a frame wakes the SDK immediately. Each receiver gets the
#: value, since receivers of SDK 7.15 do not take it from their client
_IDLE_POLL_S = 1.0
#: seconds without a message after which a receiver must show the bus that its connection lives
_KEEP_ALIVE_S = 30.0
_RECEIVE_WAIT_S = 60.0
#: seconds that a batch waits for more messages after its first one, as in Azure.Messaging.ServiceBus
_BATCH_WAIT_S = 0.02
_FIRST_RETRY_S = 0.2
_MAX_RETRY_S = 5.0
#: seconds after which an interrupted receive that has not ended is interrupted again
_INTERRUPT_S = 0.05


@dataclass(frozen=True, slots=True)
class Limits:
    """`extensions.serviceBus` of host.json. If `max_renewal_s` is 0, locks are not renewed."""

    max_concurrent_calls: int
    max_renewal_s: float
    prefetch_count: int
    max_batch: int
    auto_complete: bool


@dataclass(slots=True, eq=False)
class _InFlight:
    """An invocation and its messages: one, or a batch if the cardinality is many."""

    messages: list[ServiceBusReceivedMessage]
    task: asyncio.Task[None] | None
    renew_at: datetime | None
    give_up_at: datetime


class ServiceBusTrigger:
    """The trigger of one function. `invoke` runs the function with a `func.ServiceBusMessage` or a list, and returns
    `True` if it succeeded.
    """

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
        self._many = str(function.trigger.fields.get("cardinality")).lower() == "many"
        self._slots = 1 if self._many else limits.max_concurrent_calls

    @property
    def source(self) -> str:
        """Returns the name of the queue or subscription, for the log."""
        return source_of(self._function)

    async def run(self) -> None:
        """Runs until `stop`. A lost connection is opened again, without a limit."""
        delay = _FIRST_RETRY_S
        while not self._stopping:
            try:
                async with ServiceBusClient.from_connection_string(
                    self._connection, retry_total=0, ssl_context=_unused_tls(self._connection)
                ) as client:
                    async with open_receiver(
                        client,
                        self._function,
                        prefetch_count=self._limits.prefetch_count,
                        socket_timeout=_IDLE_POLL_S,
                    ) as receiver:
                        if self._lost:
                            self._lost = False
                            _LOG.info("%s receives from %s again", self._function.name, self.source)
                        delay = _FIRST_RETRY_S
                        await self._serve(receiver)
            except asyncio.CancelledError:
                raise
            except Exception as error:  # any error of the SDK: the trigger must not end
                self._finished.clear()
                if not self._lost:
                    self._lost = True
                    _LOG.warning("%s cannot receive from %s, retrying: %s", self._function.name, self.source, error)
            if not self._stopping:
                await asyncio.sleep(delay)
                delay = min(delay * 2, _MAX_RETRY_S)

    def stop(self) -> None:
        """Stops receiving. `run` ends after the messages in flight are completed or abandoned."""
        self._stopping = True
        self._wake.set()

    async def _serve(self, receiver: ServiceBusReceiver) -> None:
        while True:
            self._wake.clear()
            while self._finished:
                await self._settle(receiver, *self._finished.popleft())
            await self._renew(receiver)
            if self._stopping and not self._in_flight:
                return
            if self._stopping or len(self._in_flight) >= self._slots:
                if not await self._wait(None, _KEEP_ALIVE_S):
                    keep_alive(receiver, _KEEP_ALIVE_S)
            elif messages := await self._receive(receiver):
                self._start(messages)

    async def _receive(self, receiver: ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
        keep_alive(receiver, math.inf)
        receiving = asyncio.ensure_future(self._messages(receiver))
        try:
            await self._wait(receiving)
        finally:
            while not receiving.done():
                receiving.cancel()
                await asyncio.wait([receiving], timeout=_INTERRUPT_S)
        return [] if receiving.cancelled() else receiving.result()

    async def _messages(self, receiver: ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
        # With a higher count the SDK holds the first message back for 0.2 s, and then until its next poll.
        first = await receiver.receive_messages(max_message_count=1, max_wait_time=_RECEIVE_WAIT_S)
        if not first or not self._many or self._limits.max_batch == 1:
            return first
        handler = receiver._handler
        handler._socket_timeout = _BATCH_WAIT_S
        try:
            most = self._limits.max_batch - 1
            return first + await receiver.receive_messages(max_message_count=most, max_wait_time=_BATCH_WAIT_S)
        except asyncio.CancelledError:
            # other messages that arrived are still in the SDK's queue
            return first
        finally:
            handler._socket_timeout = _IDLE_POLL_S

    async def _wait(self, receiving: asyncio.Future[Any] | None, at_most_s: float = math.inf) -> bool:
        """Waits until a message is received, an invocation ends, a lock must be renewed, or the time is up: False."""
        due = min((one.renew_at for one in self._in_flight if one.renew_at is not None), default=None)
        renew_in_s = math.inf if due is None else max(0.0, (due - datetime.now(UTC)).total_seconds())
        timeout = min(renew_in_s, at_most_s)
        woken = asyncio.ensure_future(self._wake.wait())
        try:
            futures = [woken] if receiving is None else [woken, receiving]
            done, _ = await asyncio.wait(
                futures, timeout=None if timeout == math.inf else timeout, return_when=asyncio.FIRST_COMPLETED
            )
            return bool(done) or renew_in_s < at_most_s
        finally:
            woken.cancel()

    def _start(self, messages: list[ServiceBusReceivedMessage]) -> None:
        now = datetime.now(UTC)
        one = _InFlight(messages, None, None, now + timedelta(seconds=min(self._limits.max_renewal_s, 1e8)))
        self._plan_renewal(one, now)
        self._in_flight.add(one)
        one.task = asyncio.ensure_future(self._call(one))

    async def _call(self, one: _InFlight) -> None:
        succeeded = False
        try:
            succeeded = await call(self._function, one.messages, self._many, self._invoke)
        finally:
            self._in_flight.discard(one)
            self._finished.append((one, succeeded))
            self._wake.set()

    def _plan_renewal(self, one: _InFlight, now: datetime) -> None:
        locks = [until for message in one.messages if (until := message.locked_until_utc) is not None]
        one.renew_at = None
        if locks and self._limits.max_renewal_s > 0:
            at = now + (min(locks).replace(tzinfo=UTC) - now) / 2
            one.renew_at = at if at < one.give_up_at else None

    async def _renew(self, receiver: ServiceBusReceiver) -> None:
        for one in list(self._in_flight):
            now = datetime.now(UTC)
            if one.renew_at is None or one.renew_at > now:
                continue
            try:
                for message in one.messages:
                    await receiver.renew_message_lock(message)
                self._plan_renewal(one, datetime.now(UTC))
            except Exception as error:  # a lost lock: the message is delivered again, its function continues
                one.renew_at = None
                _LOG.warning("%s: could not renew the lock of message %s: %s", self.source, message.message_id, error)

    async def _settle(self, receiver: ServiceBusReceiver, one: _InFlight, succeeded: bool) -> None:
        if succeeded and not self._limits.auto_complete:
            return  # the app settles the message, or lets the lock expire
        for message in one.messages:
            await settle(receiver, message, succeeded, self.source)


def _unused_tls(connection: str) -> ssl.SSLContext | None:
    """Returns a TLS context that trusts no certificate, for a bus without TLS; `None` for another bus.

    Without this context, the SDK reads all certificates of the machine for each receiver.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if "usedevelopmentemulator=true" in connection.lower() else None


def source_of(function: Function) -> str:
    """Returns the name of the queue or subscription, for the log."""
    fields = function.trigger.fields
    topic = fields.get("topicName")
    return f"{topic}/{fields.get('subscriptionName')}" if topic else str(fields.get("queueName"))


def open_receiver(client: ServiceBusClient, function: Function, **options: Any) -> ServiceBusReceiver:
    """Returns the receiver of a function's queue or subscription."""
    trigger = function.trigger
    if topic := trigger.text("topicName"):
        return client.get_subscription_receiver(topic, str(trigger.fields["subscriptionName"]), **options)
    return client.get_queue_receiver(str(trigger.fields["queueName"]), **options)


def keep_alive(receiver: ServiceBusReceiver, every_s: float) -> None:
    """Sets the interval at which the SDK listens on the connection without a call. The SDK has no option for this
    interval.

    A message that arrives this way waits in a queue until the receive gets another frame. So the SDK must not listen
    during a receive.
    """
    receiver._handler._keep_alive_interval = every_s


async def call(
    function: Function,
    messages: Sequence[ServiceBusReceivedMessage],
    many: bool,
    invoke: Callable[[Function, Any], Awaitable[bool]],
) -> bool:
    """Runs the function with the message, or with the list if `many`. Returns `True` if the function succeeded."""
    try:
        value = convert_batch(messages, function.trigger) if many else convert(messages[0], function.trigger)
    except UnreadableBatchError as error:
        _LOG.error("%s failed before it ran, with %d messages: %s", function.name, len(messages), error)
        return False
    return await invoke(function, value)


async def settle(
    receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage, succeeded: bool, source: str
) -> None:
    """Completes or abandons a message. Logs a failure, after which the bus may deliver the message again."""
    try:
        if succeeded:
            await receiver.complete_message(message)
        else:
            await receiver.abandon_message(message)
    except Exception as error:  # a lost lock or connection
        _LOG.warning("%s: message %s could not be settled: %s", source, message.message_id, error)
