"""The other side of the contract: sends directives and listens to the replies, with Microsoft's SDK."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
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
from azure.storage.blob import BlobServiceClient

#: Nothing here takes long; the machine may be busy.
REPLY_TIMEOUT_S = 60


class Invoker:
    """Replies of lane 0, collected in the background for as long as it is open."""

    def __init__(self, bus_connection: str, blob_connection: str) -> None:
        self._client = ServiceBusClient.from_connection_string(bus_connection, retry_total=0)
        self.blobs = BlobServiceClient.from_connection_string(blob_connection)
        self._replies: list[tuple[dict[str, Any], ServiceBusReceivedMessage]] = []
        self._senders: dict[int, ServiceBusSender] = {}
        self._peekers: dict[tuple[str, int, bool], ServiceBusReceiver] = {}
        self._closing = threading.Event()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def close(self) -> None:
        self._closing.set()
        self._listener.join(REPLY_TIMEOUT_S)
        for link in (*self._peekers.values(), *self._senders.values()):
            link.close()
        self._client.close()
        self.blobs.close()

    def uri(self, container: str, name: str) -> str:
        return f"{self.blobs.url.rstrip('/')}/{container}/{name}"

    def upload(self, name: str, data: bytes) -> str:
        """Puts a document where callers put theirs; gives its uri."""
        container = self.blobs.get_container_client("documents")
        if not container.exists():
            container.create_container()
        container.upload_blob(name, data, overwrite=True)
        return self.uri("documents", name)

    def download(self, uri: str) -> bytes:
        container, _, name = uri.removeprefix(self.blobs.url.rstrip("/") + "/").partition("/")
        return bytes(self.blobs.get_blob_client(container, name).download_blob().readall())

    def directive(self, step_type: str = "PROBE", payload: Any = None, **changes: Any) -> dict[str, Any]:
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
            "input_ref": {"uri": self.uri("documents", "none")},
            "workspace_ref": {"uri": self.uri("workspace", f"lucius/acme/{job}/{step_type}/{attempt}/")},
            "output_ref": {"uri": self.uri("results", job)},
            "payload": payload,
            "mode": "DEFAULT",
            "lane": 0,
            "routing_key_used": "acme",
            "correlation_id": f"c-{job}",
            **changes,
        }

    def send(self, directive: dict[str, Any] | bytes, step_type: str = "PROBE", lane: int = 0) -> None:
        """Always as a new message, so that it is not the topic that finds a duplicate."""
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
        return [
            body for body, _ in list(self._replies) if body["jobId"] == job and (not kinds or body["type"] in kinds)
        ]

    def messages(self, job: str) -> list[ServiceBusReceivedMessage]:
        return [message for body, message in list(self._replies) if body["jobId"] == job]

    def result(self, job: str, count: int = 1) -> dict[str, Any]:
        """The `count`-th RESULT of a job."""
        self.wait(lambda: len(self.replies(job, "RESULT")) >= count, f"RESULT {count} of {job}")
        return self.replies(job, "RESULT")[count - 1]

    def runs(self, directive: dict[str, Any]) -> int:
        """How often the probe worked on this attempt."""
        prefix = directive["workspace_ref"]["uri"].removeprefix(self.uri("workspace", "")) + "runs/"
        container = self.blobs.get_container_client("workspace")
        return len(list(container.list_blobs(prefix))) if container.exists() else 0

    def waiting(self, subscription: str, lane: int = 0, *, dead: bool = False) -> list[ServiceBusReceivedMessage]:
        """What lies in a subscription, or in its dead-letter queue; locked messages too."""
        receiver = self._peekers.get((subscription, lane, dead))
        if receiver is None:
            sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
            receiver = self._client.get_subscription_receiver(f"global-bus-p{lane}", subscription, sub_queue=sub_queue)
            self._peekers[subscription, lane, dead] = receiver
        # from the start each time: a peek without a number goes on where the last one ended
        return receiver.peek_messages(max_message_count=50, sequence_number=1)

    def left(self, directive: dict[str, Any]) -> int:
        """How many messages of this job lie in its service's subscription."""
        bodies = (b"".join(message.body) for message in self.waiting(directive["stepId"], directive["lane"]))
        return sum(directive["jobId"].encode() in body for body in bodies)

    def wait(self, done: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + REPLY_TIMEOUT_S
        while not done():
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
                self._closing.wait(0.3)  # the bus is away: a test took it away
