"""The side of LUCIUS: sends directives and receives replies, with Microsoft's SDK."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
    ServiceBusSender,
    ServiceBusSubQueue,
)
from azure.servicebus.exceptions import ServiceBusError

from tests.lucius_service.blob_account import BlobAccount

#: longer than any reply takes on a busy machine
REPLY_TIMEOUT_S = 60


def new_directive(account: BlobAccount, step_type: str, payload: Any = None, **changes: Any) -> dict[str, Any]:
    """A directive of a new job, as LUCIUS sends it; `changes` replace fields."""
    job = changes.pop("jobId", str(uuid4()))
    attempt = changes.get("attempt_no", 1)
    return {
        "type": "DIRECTIVE",
        "jobId": job,
        "tenant_id": "acme",
        "stepId": step_type.lower(),
        "protocol_id": step_type.lower(),
        "step_type": step_type,
        "attempt_no": attempt,
        "lease_id": str(uuid4()),
        "input_ref": {"uri": account.uri("documents", "none")},
        "workspace_ref": {"uri": account.uri("workspace", f"lucius/acme/{job}/{step_type}/{attempt}/")},
        "output_ref": {"uri": account.uri("results", job)},
        "payload": payload,
        "mode": "DEFAULT",
        "lane": 0,
        "routing_key_used": "acme",
        "correlation_id": f"c-{job}",
        **changes,
    }


class Invoker:
    """Sends directives to any lane and collects the replies of lane 0 in the background until it is closed."""

    def __init__(self, bus_connection: str, account: BlobAccount) -> None:
        self._client = ServiceBusClient.from_connection_string(bus_connection, retry_total=0)
        self._account = account
        self._replies: list[tuple[dict[str, Any], ServiceBusReceivedMessage]] = []
        self._senders: dict[int, ServiceBusSender] = {}
        self._peekers: dict[tuple[str, int, bool], ServiceBusReceiver] = {}
        self._closing = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def close(self) -> None:
        self._closing.set()
        self._listener.join(REPLY_TIMEOUT_S)
        # each close waits half a second for its socket
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda link: link.close(), (*self._peekers.values(), *self._senders.values())))
        self._client.close()

    def directive(self, step_type: str = "PROBE", payload: Any = None, **changes: Any) -> dict[str, Any]:
        return new_directive(self._account, step_type, payload, **changes)

    def send(self, directive: dict[str, Any] | bytes, step_type: str = "PROBE", lane: int = 0) -> None:
        """Sends a new message each time, so that the topic does not detect a duplicate."""
        body = directive if isinstance(directive, bytes) else json.dumps(directive).encode()
        message = ServiceBusMessage(
            body,
            message_id=str(uuid4()),
            content_type="application/json",
            application_properties={"type": "DIRECTIVE", "step_type": step_type},
        )
        if lane not in self._senders:
            self._senders[lane] = self._client.get_topic_sender(f"global-bus-p{lane}")
        self._senders[lane].send_messages(message)

    def replies(self, job: str, *kinds: str) -> list[dict[str, Any]]:
        """The replies of a job so far, of these types or all."""
        return [
            body for body, _ in list(self._replies) if body["jobId"] == job and (not kinds or body["type"] in kinds)
        ]

    def messages(self, job: str) -> list[ServiceBusReceivedMessage]:
        """The messages that carried the replies of a job."""
        return [message for body, message in list(self._replies) if body["jobId"] == job]

    def result(self, job: str, count: int = 1) -> dict[str, Any]:
        """The `count`-th RESULT of a job."""
        self.wait(lambda: len(self.replies(job, "RESULT")) >= count, f"RESULT {count} of {job}")
        return self.replies(job, "RESULT")[count - 1]

    def runs(self, directive: dict[str, Any]) -> int:
        """Returns the number of times that the probe service worked on this attempt."""
        return self._account.count(directive["workspace_ref"]["uri"] + "runs/")

    def waiting(self, subscription: str, lane: int = 0, *, dead: bool = False) -> list[ServiceBusReceivedMessage]:
        """The messages of a subscription, or of its dead-letter queue; also locked ones."""
        receiver = self._peekers.get((subscription, lane, dead))
        if receiver is None:
            sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
            receiver = self._client.get_subscription_receiver(f"global-bus-p{lane}", subscription, sub_queue=sub_queue)
            self._peekers[subscription, lane, dead] = receiver
        # without a sequence number a peek continues where the last one ended
        return receiver.peek_messages(max_message_count=50, sequence_number=1)

    def left(self, directive: dict[str, Any]) -> int:
        """Returns the number of messages of this job in the subscription of its service."""
        bodies = (b"".join(message.body) for message in self.waiting(directive["stepId"], directive["lane"]))
        return sum(directive["jobId"].encode() in body for body in bodies)

    def wait(self, is_done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + REPLY_TIMEOUT_S
        while not is_done():
            assert time.monotonic() < deadline, f"{what} did not come"
            time.sleep(0.05)

    def _listen(self) -> None:
        while not self._closing.is_set():
            try:
                with self._client.get_subscription_receiver("global-bus-replies-p0", "lucius-invoker") as receiver:
                    while not self._closing.is_set():
                        for message in receiver.receive_messages(max_message_count=20, max_wait_time=0.5):
                            self._replies.append((json.loads(b"".join(message.body)), message))
                            receiver.complete_message(message)
            except (ServiceBusError, OSError, ValueError):
                self._closing.wait(0.3)  # the bus is down: a test stopped it
