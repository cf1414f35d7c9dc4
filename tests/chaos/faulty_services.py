"""Platform services over the real bus that duplicate, delay, drop and forge replies, as a seeded generator decides."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from datetime import UTC, datetime
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

#: the error code of every forged reply; no row of a job may have it
FORGED_CODE = "FORGED"
SUBSCRIPTIONS = ("ocr", "embedding", "sis")

#: actions of a service on a directive, in percent
_BEHAVIOURS = {
    "honest": 46,
    "before_ack": 8,
    "twice": 10,
    "contradicts": 6,
    "foreign_replies": 8,
    "fails_retryably": 8,
    "fails_finally": 2,
    "silent": 4,
    "dies_after_ack": 4,
    "late": 4,
}
#: beyond the ACK time-out of the stack under test
_LATE_S = 3.0
_AGAIN_S = 0.5


class FaultyServices:
    """Services for all three step types on the given lanes. `async with` runs them."""

    def __init__(self, connection: str, lanes: set[int], seed: int) -> None:
        self._connection = connection
        self._lanes = lanes
        self._random = random.Random(seed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._senders: dict[int, asyncio.Queue[str]] = {lane: asyncio.Queue() for lane in lanes}
        #: directives that are served, and replies that the bus has not yet
        self._open = 0
        self.directives = 0
        #: replies that the bus took
        self.replies = 0
        #: texts that are no replies, and that the bus took
        self.rubbish: set[str] = set()

    async def __aenter__(self) -> FaultyServices:
        for lane in self._lanes:
            self._spawn(self._sending(lane))
            for subscription in SUBSCRIPTIONS:
                self._spawn(self._listening(lane, subscription))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def are_quiet(self) -> bool:
        """Nothing is served, and the bus has every reply."""
        return self._open == 0

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _listening(self, lane: int, subscription: str) -> None:
        """Receives directives until it is cancelled; connects again after an outage of the bus."""
        while True:
            with contextlib.suppress(ServiceBusError, OSError, ValueError):
                async with (
                    ServiceBusClient.from_connection_string(self._connection, retry_total=0) as client,
                    client.get_subscription_receiver(
                        f"global-bus-p{lane}", subscription, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
                    ) as receiver,
                ):
                    while True:
                        for message in await receiver.receive_messages(max_message_count=20, max_wait_time=5):
                            self.directives += 1
                            self._open += 1
                            self._spawn(self._serve(json.loads(str(message))))
            await asyncio.sleep(_AGAIN_S)

    async def _sending(self, lane: int) -> None:
        """Sends the queued replies in order, each until the bus has it: a fault can repeat a reply, not lose it."""
        text: str | None = None
        while True:
            with contextlib.suppress(ServiceBusError, OSError, ValueError):
                async with (
                    ServiceBusClient.from_connection_string(self._connection, retry_total=0) as client,
                    client.get_topic_sender(f"global-bus-replies-p{lane}") as sender,
                ):
                    while True:
                        text = text or await self._senders[lane].get()
                        await sender.send_messages(ServiceBusMessage(text), timeout=10)
                        self.replies += 1
                        self._open -= 1
                        if not text.startswith("{"):
                            self.rubbish.add(text)
                        text = None
            await asyncio.sleep(_AGAIN_S)

    async def _serve(self, directive: dict[str, Any]) -> None:
        [behaviour] = self._random.choices(list(_BEHAVIOURS), list(_BEHAVIOURS.values()))
        try:
            await getattr(self, f"_{behaviour}")(directive)
        finally:
            self._open -= 1

    async def _honest(self, directive: dict[str, Any]) -> None:
        self._reply(directive, "ACK")
        for _ in range(self._random.randint(0, 2)):
            await self._work()
            self._reply(directive, "HEARTBEAT", progress={"page": 1})
        await self._work()
        self._reply(directive, "RESULT")

    async def _before_ack(self, directive: dict[str, Any]) -> None:
        self._reply(directive, "RESULT")
        await self._work()
        self._reply(directive, "ACK")

    async def _twice(self, directive: dict[str, Any]) -> None:
        for type_ in ("ACK", "ACK", "RESULT", "RESULT"):
            self._reply(directive, type_)
            await self._work()

    async def _contradicts(self, directive: dict[str, Any]) -> None:
        self._reply(directive, "RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": "first result"})
        self._reply(directive, "RESULT")
        self._reply(directive, "RESULT", status="FAILED_FINAL", error={"code": "CHANGED_MIND", "message": "a third"})

    async def _foreign_replies(self, directive: dict[str, Any]) -> None:
        for foreign in (
            {"lease_id": "00000000-0000-0000-0000-000000000000"},
            {"tenant_id": "somebody-else"},
            {"attempt_no": directive["attempt_no"] + 1},
            {"stepId": "nothing"},
            {"jobId": "job_nobody"},
        ):
            self._reply(
                directive,
                "RESULT",
                status="FAILED_FINAL",
                error={"code": FORGED_CODE, "message": "not mine"},
                **foreign,
            )
        self._send(directive, f"rubbish {self._random.getrandbits(64):x}")
        await self._honest(directive)

    async def _fails_retryably(self, directive: dict[str, Any]) -> None:
        self._reply(directive, "ACK")
        await self._work()
        self._reply(directive, "RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": "later"})

    async def _fails_finally(self, directive: dict[str, Any]) -> None:
        self._reply(directive, "ACK")
        self._reply(directive, "RESULT", status="FAILED_FINAL", error={"code": "PDF_ENCRYPTED", "message": "locked"})

    async def _silent(self, directive: dict[str, Any]) -> None:
        return

    async def _dies_after_ack(self, directive: dict[str, Any]) -> None:
        self._reply(directive, "ACK")

    async def _late(self, directive: dict[str, Any]) -> None:
        await asyncio.sleep(_LATE_S * self._random.uniform(0.5, 1.5))
        await self._honest(directive)

    async def _work(self) -> None:
        await asyncio.sleep(self._random.uniform(0, 0.8))

    def _reply(self, directive: dict[str, Any], type_: str, **fields: Any) -> None:
        body = {
            "type": type_,
            **{name: directive[name] for name in ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")},
            "timestamp": datetime.now(UTC).isoformat(),
        }
        if type_ == "RESULT":
            body |= {"status": "SUCCEEDED", "result_ref": {"uri": directive["workspace_ref"]["uri"] + "out.json"}}
        self._send(directive, json.dumps(body | fields))

    def _send(self, directive: dict[str, Any], text: str) -> None:
        self._open += 1
        self._senders[directive["lane"]].put_nowait(text)
