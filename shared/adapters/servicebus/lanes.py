"""Reads the lanes of Service Bus. Each subscription or queue has one open link, and one read for all callers that wait
for the read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver
from azure.servicebus.exceptions import MessagingEntityNotFoundError

from shared.adapters.servicebus.links import answer, close_link
from shared.adapters.servicebus.reply_entities import ReplyEntities
from shared.core.jobs.backlog import MAX_SHOWN, LaneLook, together
from shared.core.jobs.routing import DIRECTIVE_TOPIC_PREFIX
from shared.errors import BusUnavailable
from shared.ports.environment import Clock

#: time without use after which a link is closed at the next read, since each is a connection of its own
_IDLE = timedelta(minutes=5)
#: start of the oldest messages, even if the link has already shown later ones
_FIRST_SEQUENCE_NUMBER = 1


class ServiceBusLanes:
    """Implementation of `shared.ports.bus.Lanes` over Azure Service Bus."""

    def __init__(self, client: ServiceBusClient, replies: ReplyEntities, clock: Clock) -> None:
        self._client = client
        self._replies = replies
        self._clock = clock
        self._looked: dict[str, _Entity] = {}

    async def replies(self, lane: int, *, since: datetime) -> LaneLook:
        looks = []
        # also if the topics do not forward: a change of `LUCIUS_REPLIES` leaves replies in the queue
        if self._replies.queue:
            queue = self._replies.queue
            looks.append(await self._look(queue, lambda: self._replies.queue_receiver(self._client), since))
        if not self._replies.are_shared:
            topic = self._replies.topic(lane)
            looks.append(await self._look(topic, lambda: self._replies.lane_receiver(self._client, lane), since))
        return together(looks)

    async def directives(self, lane: int, service: str, *, since: datetime) -> LaneLook:
        topic = f"{DIRECTIVE_TOPIC_PREFIX}{lane}"
        return await self._look(
            f"{topic}/{service}", lambda: self._client.get_subscription_receiver(topic, service), since
        )

    async def _look(self, name: str, receiver: Callable[[], ServiceBusReceiver], since: datetime) -> LaneLook:
        known = self._looked.get(name)
        if known is None:
            known = self._looked[name] = _Entity(name, receiver, self._clock)
        look = await known.look(since)
        for other in list(self._looked.values()):
            await other.close_if_idle(self._clock.now() - _IDLE)
        return look


class _Entity:
    """A subscription or a queue, with its link."""

    def __init__(self, name: str, open_receiver: Callable[[], ServiceBusReceiver], clock: Clock) -> None:
        self._name = name
        self._open_receiver = open_receiver
        self._clock = clock
        self._receiver: ServiceBusReceiver | None = None
        self._last: LaneLook | None = None
        #: start and error of the last read, if it failed
        self._failed: tuple[datetime, BusUnavailable] | None = None
        #: a link serves one call at a time; waiting callers share the running read if it is recent enough
        self._lock = asyncio.Lock()

    async def look(self, since: datetime) -> LaneLook:
        """Returns the result of a read that started at `since` or later. Raises BusUnavailable if that read fails."""
        async with self._lock:
            if self._failed is not None and self._failed[0] >= since:
                raise BusUnavailable(str(self._failed[1]))
            if self._last is None or self._last.looked_at < since:
                self._last = await self._peek()
            return self._last

    async def _peek(self) -> LaneLook:
        began = self._clock.now()
        if self._receiver is None:
            self._receiver = self._open_receiver()
        try:
            look = await answer(self._peek_all(self._receiver, began), f"{self._name} cannot be read")
        except BaseException as fault:
            if isinstance(fault, BusUnavailable):
                # callers that wait for the lock need not fail one after the other
                self._failed = (began, fault)
            # a link that failed, or was cut off in the middle of a frame, may be unusable
            await self._close()
            raise
        self._failed = None
        return look

    async def _peek_all(self, receiver: ServiceBusReceiver, began: datetime) -> LaneLook:
        """Returns the oldest messages that the bus shows, at most `MAX_SHOWN`. A response may be shorter than
        requested, so only an empty response means the end.
        """
        shown: list[tuple[str, datetime]] = []
        following = _FIRST_SEQUENCE_NUMBER
        while len(shown) < MAX_SHOWN:
            try:
                messages = await receiver.peek_messages(
                    max_message_count=MAX_SHOWN - len(shown), sequence_number=following
                )
            except MessagingEntityNotFoundError:
                # a missing subscription has no messages: its topic dropped the directive
                messages = []
            if not messages:
                return LaneLook(began, shown)
            shown += [(message.message_id or "", _find_enqueued_at(message)) for message in messages]
            following = (messages[-1].sequence_number or following) + 1
        return LaneLook(began, shown, is_all=False)

    async def close_if_idle(self, before: datetime) -> None:
        if self._lock.locked() or self._receiver is None or self._last is None or self._last.looked_at >= before:
            return
        async with self._lock:
            await self._close()

    async def _close(self) -> None:
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            await close_link(receiver)


def _find_enqueued_at(message: ServiceBusReceivedMessage) -> datetime:
    return message.enqueued_time_utc or datetime.min.replace(tzinfo=UTC)
