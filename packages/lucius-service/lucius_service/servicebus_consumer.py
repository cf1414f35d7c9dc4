"""Receives directives from the bus: one loop and one receiver per lane, reopened whenever the connection is lost.

Only the loop of a lane uses its receiver. Receiving, renewing and settling run one at a time, since all three share one
connection and one read lock in the SDK's receiver. If the lane has unsettled messages, a receive waits
at most `HOLDING_WAIT_S` seconds, since a settlement waits for its end. Otherwise a receive waits at most
`IDLE_WAIT_S` seconds.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import MessageAlreadySettled, MessageLockLostError

from lucius_service.attempts import Attempt, Attempts
from lucius_service.directive import DIRECTIVE_TOPIC_PREFIX, DirectiveRefused, read_directive

log = logging.getLogger(__name__)

#: maximum seconds of a wait for a message while the lane holds none
IDLE_WAIT_S = 60.0
#: maximum seconds of a wait while the lane holds messages, since a settlement waits for its end
HOLDING_WAIT_S = 1.0
#: time before its end at which a lock is renewed; LUCIUS's subscriptions lock for 5 minutes (infra/bicep/topology.json)
RENEW_BEFORE = timedelta(seconds=120)
#: seconds after which the SDK wakes an idle receiver; a message wakes it immediately. The default of 0.2 s causes 80
#: wake-ups a second over 16 lanes. Each receiver gets the value, since receivers of SDK 7.15 do not take it from their
#: client
SOCKET_TIMEOUT_S = 1.0
#: seconds between reads of the SDK while the lane receives nothing, so that the bus sees a live connection
KEEP_ALIVE_S = 5.0
#: pauses between tries to open a lane; the last one repeats
REOPEN_PAUSES_S = (0.5, 1, 2, 5, 10)


@dataclass(eq=False)
class _HeldMessage:
    message: ServiceBusReceivedMessage
    attempt: Attempt


class LaneConsumer:
    """The consumer of one lane, which receives directives and settles their messages."""

    def __init__(
        self,
        client: ServiceBusClient,
        lane: int,
        subscription: str,
        step_type: str,
        lanes: int,
        attempts: Attempts,
    ) -> None:
        self._client = client
        self._topic = f"{DIRECTIVE_TOPIC_PREFIX}{lane}"
        self._subscription = subscription
        self._step_type = step_type
        self._lanes = lanes
        self._attempts = attempts
        self._held: list[_HeldMessage] = []
        #: set while the lane is open
        self.open = asyncio.Event()

    async def serve(self, stopping: asyncio.Event) -> None:
        """Serves until `stopping` is set and every message is settled. Stops immediately if cancelled.

        If the connection is lost after `stopping` is set, returns without settling. Service Bus then delivers the
        messages again.
        """
        failures = 0
        while not stopping.is_set() or self._held:
            try:
                async with self._client.get_subscription_receiver(
                    self._topic,
                    self._subscription,
                    client_identifier=f"{self._subscription}:{self._topic}",
                    socket_timeout=SOCKET_TIMEOUT_S,
                ) as receiver:
                    self.open.set()
                    failures = 0
                    while not stopping.is_set() or self._held:
                        await self._turn(receiver, stopping)
            except Exception as error:
                # any exception, since the SDK raises errors of its inner layers; a lane is always opened again
                pause = REOPEN_PAUSES_S[min(failures, len(REOPEN_PAUSES_S) - 1)]
                failures += 1
                if self.open.is_set() or failures == 1:
                    text = " ".join(str(error).split())[:200]
                    log.warning(
                        "%s: cannot receive messages; retried after a pause (%s: %s)",
                        *(self._topic, type(error).__name__, text),
                    )
                self.open.clear()
                if stopping.is_set():
                    return  # held messages are delivered again after their locks
                await asyncio.sleep(pause)
        self.open.clear()

    async def _turn(self, receiver: ServiceBusReceiver, stopping: asyncio.Event) -> None:
        for held in list(self._held):
            if held.attempt.ended.is_set():
                await self._settle(receiver, held)
                self._held.remove(held)
            elif not await self._keep_lock(receiver, held):
                self._held.remove(held)
        if stopping.is_set() or self._attempts.is_full:
            keep_alive(receiver, KEEP_ALIVE_S)
            await asyncio.sleep(0.1)
            return
        keep_alive(receiver, math.inf)
        wait_s = HOLDING_WAIT_S if self._held else IDLE_WAIT_S
        for message in await _receive(receiver, wait_s, stopping):
            await self._take(receiver, message)

    async def _take(self, receiver: ServiceBusReceiver, message: ServiceBusReceivedMessage) -> None:
        try:
            directive = read_directive(_body(message), self._step_type, self._lanes)
        except DirectiveRefused as refusal:
            log.warning("%s: dead-lettered a message: %s", self._topic, refusal.description)
            await receiver.dead_letter_message(message, reason=refusal.reason, error_description=refusal.description)
            return
        self._held.append(_HeldMessage(message, await self._attempts.take(directive)))

    async def _settle(self, receiver: ServiceBusReceiver, held: _HeldMessage) -> None:
        try:
            if held.attempt.abandoned:
                await receiver.abandon_message(held.message)
            else:
                await receiver.complete_message(held.message)
        except (MessageLockLostError, MessageAlreadySettled) as error:
            # the message is delivered again, and the stored RESULT is sent
            log.info(
                "%s: could not settle a message, which Service Bus delivers again: %s",
                self._topic,
                type(error).__name__,
            )

    async def _keep_lock(self, receiver: ServiceBusReceiver, held: _HeldMessage) -> bool:
        """Renews a lock that expires within `RENEW_BEFORE`. Returns `False` if the lock is lost. The message then
        arrives again, and joins its attempt if it arrives in this process.
        """
        until = held.message.locked_until_utc
        if until is None or until - datetime.now(UTC) > RENEW_BEFORE:
            return True
        try:
            await receiver.renew_message_lock(held.message)
        except (MessageLockLostError, MessageAlreadySettled):
            log.info(
                "%s: the lock of a message was lost during its work; Service Bus delivers the message again",
                self._topic,
            )
            return False
        return True


def keep_alive(receiver: ServiceBusReceiver, every_s: float) -> None:
    """Sets the interval at which the SDK reads the connection in the background. The SDK has no such option.

    A message that arrives this way waits up to `SOCKET_TIMEOUT_S` in a queue, while the receive waits for another
    frame. Therefore, the SDK must not read in the background while the lane receives.
    """
    receiver._handler._keep_alive_interval = every_s


async def _receive(
    receiver: ServiceBusReceiver, wait_s: float, stopping: asyncio.Event
) -> list[ServiceBusReceivedMessage]:
    """Receives at most one message, since the queue of attempts is bounded. Returns [] if no message arrives within
    `wait_s` seconds or before `stopping` is set.
    """
    receive = asyncio.create_task(receiver.receive_messages(max_message_count=1, max_wait_time=wait_s))
    stop = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({receive, stop}, return_when=asyncio.FIRST_COMPLETED)
        if receive.done():
            return receive.result()
        receive.cancel()
        await asyncio.gather(receive, return_exceptions=True)
        return []
    finally:
        stop.cancel()
        if not receive.done():
            receive.cancel()


def _body(message: ServiceBusReceivedMessage) -> bytes:
    """Returns the sections of a data body, joined. Raises DirectiveRefused for another kind of body."""
    try:
        return b"".join(message.body)
    except TypeError:
        raise DirectiveRefused("DirectiveMalformed", "the body must be a data body with JSON") from None
