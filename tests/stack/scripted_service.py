"""A platform service that a test plays itself, over the real bus."""

from __future__ import annotations

import json
import time
import uuid
from datetime import UTC, datetime
from types import TracebackType
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode

#: every job of this tenant is on one lane
TENANT = "tenant_a"
LANE = 15

RECEIVE_TIMEOUT_S = 60


class ScriptedService:
    """Receives the directives of one step type on one lane and sends the replies of the test."""

    def __init__(self, connection: str, subscription: str = "ocr") -> None:
        self._client = ServiceBusClient.from_connection_string(connection)
        self._receiver = self._client.get_subscription_receiver(
            f"global-bus-p{LANE}", subscription, receive_mode=ServiceBusReceiveMode.RECEIVE_AND_DELETE
        )
        self._sender = self._client.get_topic_sender(f"global-bus-replies-p{LANE}")
        self._received: list[dict[str, Any]] = []

    def __enter__(self) -> ScriptedService:
        # a link that a receive opens has to be open within the time that it waits
        self._receiver.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def directive(self, job_id: str) -> dict[str, Any]:
        """The next directive of the job; those of others, which come in any order, are kept for them."""
        deadline = time.monotonic() + RECEIVE_TIMEOUT_S
        while time.monotonic() < deadline:
            for number, directive in enumerate(self._received):
                if directive["jobId"] == job_id:
                    return self._received.pop(number)
            for message in self._receiver.receive_messages(max_message_count=1, max_wait_time=2):
                self._received.append(json.loads(str(message)))
        raise AssertionError(f"no directive for {job_id} within {RECEIVE_TIMEOUT_S} s")

    def directives(self, most: int = 10) -> list[dict[str, Any]]:
        """The directives that arrive within a second."""
        received = self._receiver.receive_messages(max_message_count=most, max_wait_time=1)
        return [json.loads(str(each)) for each in received]

    def reply(self, directive: dict[str, Any], type_: str, **fields: Any) -> None:
        body = {
            "type": type_,
            **{name: directive[name] for name in ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")},
            "timestamp": datetime.now(UTC).isoformat(),
        }
        if type_ == "RESULT":
            body |= {"status": "SUCCEEDED", "result_ref": {"uri": directive["workspace_ref"]["uri"] + "out.json"}}
        self.send(json.dumps(body | fields))

    def send(self, body: str | bytes) -> str:
        """Sends anything on the reply lane. Returns its message id."""
        message_id = str(uuid.uuid4())
        self._sender.send_messages(ServiceBusMessage(body, message_id=message_id))
        return message_id
