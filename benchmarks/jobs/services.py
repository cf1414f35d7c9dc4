"""Platform services without work: an ACK on receipt, a RESULT a moment later, so that LUCIUS alone is measured."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

#: between ACK and RESULT: long enough that the two do not race for the job's row, as with any real work
WORK_S = 0.3


@dataclass
class Answering:
    """What the services saw: when each job's first directive came, and how large messages are."""

    first_directive_at: dict[str, float] = field(default_factory=dict)
    directives: int = 0
    replies: int = 0
    directive_bytes: int = 0
    reply_bytes: int = 0


async def answer(connection: str, lanes: Iterable[int], services: Sequence[str], seen: Answering) -> None:
    """Answers every directive of those lanes with ACK and RESULT, until cancelled."""
    async with ServiceBusClient.from_connection_string(connection) as client:
        async with asyncio.TaskGroup() as group:
            for lane in lanes:
                sender = Sender(client.get_topic_sender(f"global-bus-replies-p{lane}"), seen)
                for service in services:
                    receiver = client.get_subscription_receiver(f"global-bus-p{lane}", service)
                    group.create_task(_serve(receiver, sender, seen))


class Sender:
    """The SDK's sender is not for concurrent use."""

    def __init__(self, sender: Any, seen: Answering) -> None:
        self._sender, self._seen, self._alone = sender, seen, asyncio.Lock()

    async def send(self, reply: dict[str, Any]) -> None:
        text = json.dumps(reply)
        self._seen.replies += 1
        self._seen.reply_bytes += len(text)
        async with self._alone:
            await self._sender.send_messages(ServiceBusMessage(text, content_type="application/json"))


async def _serve(receiver: Any, sender: Sender, seen: Answering) -> None:
    async with receiver:
        while True:
            messages = await receiver.receive_messages(max_message_count=20, max_wait_time=5)
            await asyncio.gather(*(_attempt(receiver, sender, message, seen) for message in messages))


async def _attempt(receiver: Any, sender: Sender, message: Any, seen: Answering) -> None:
    body = b"".join(message.body)
    directive = json.loads(body)
    seen.directives += 1
    seen.directive_bytes += len(body)
    seen.first_directive_at.setdefault(directive["jobId"], time.perf_counter())
    ack, result = replies(directive)
    await sender.send(ack)
    await asyncio.sleep(WORK_S)
    await sender.send(result)
    await receiver.complete_message(message)


def replies(directive: dict[str, Any]) -> list[dict[str, Any]]:
    """ACK and RESULT of a step that went well."""
    attempt = {
        **{name: directive[name] for name in ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")},
        "timestamp": datetime.now(UTC).isoformat(),
        "correlation_id": directive.get("correlation_id"),
    }
    result_ref = {"uri": directive["workspace_ref"]["uri"] + "result.json"}
    return [{**attempt, "type": "ACK"}, {**attempt, "type": "RESULT", "status": "SUCCEEDED", "result_ref": result_ref}]
