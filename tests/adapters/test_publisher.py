import asyncio
import json
from typing import Any

from azure.servicebus import ServiceBusMessage

from shared.adapters.servicebus.publisher import ServiceBusPublisher
from shared.contracts.messages import Directive
from shared.core.jobs.directive import directive_of
from tests.jobs import Story, planned

#: fields of a directive without callbacks
FIELDS = {
    *("type", "jobId", "tenant_id", "stepId", "protocol_id", "step_type", "attempt_no", "lease_id", "input_ref"),
    *(
        "workspace_ref",
        "output_ref",
        "final",
        "payload",
        "mode",
        "lane",
        "routing_key_used",
        "correlation_id",
        "traceparent",
    ),
}
PROPERTIES = {"type", "mode", "tenant_id", "step_type", "job_id", "step_id", "attempt_no", "lane"}


class Sender:
    """As touchy as the SDK's."""

    def __init__(self) -> None:
        self.sent: list[ServiceBusMessage] = []
        self._busy = False

    async def send_messages(self, message: ServiceBusMessage, **options: Any) -> None:
        assert not self._busy, "used by two at once"
        self._busy = True
        await asyncio.sleep(0)
        self._busy = False
        self.sent.append(message)


class Client:
    def __init__(self) -> None:
        self.senders: dict[str, Sender] = {}

    def get_topic_sender(self, topic: str) -> Sender:
        assert topic not in self.senders, "one sender a lane"
        return self.senders.setdefault(topic, Sender())


def directive(**changes: Any) -> Directive:
    story = Story(planned(**changes))
    story.recorded()
    return directive_of(story.record, story.step())


async def test_one_sender_a_lane_is_used_by_one_at_a_time() -> None:
    """Race sender: thirty publishes at once on two lanes, each lane's one after another."""
    client = Client()
    publisher = ServiceBusPublisher(client)  # type: ignore[arg-type]
    expected = [directive(job_id=f"job_{number}", tenant_id=f"tenant_{number % 2}") for number in range(30)]
    await asyncio.gather(*(publisher.publish(each, time_to_live_s=60) for each in expected))
    sent = [message for sender in client.senders.values() for message in sender.sent]
    assert {message.message_id for message in sent} == {f"job_{number}:ocr:1" for number in range(30)}
    assert len(sent) == 30


async def test_a_directive_on_the_wire_has_every_field_of_the_contract() -> None:
    """Body, application properties, message id, correlation id and partition key."""
    client = Client()
    traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    expected = directive(mode="BURST", doc_id="Doc-7", correlation_id="corr-7", traceparent=traceparent)
    await ServiceBusPublisher(client).publish(expected, time_to_live_s=930)  # type: ignore[arg-type]
    [[message]] = [sender.sent for sender in client.senders.values()]
    body = json.loads(b"".join(message.body))
    assert set(body) == FIELDS
    assert (body["type"], body["mode"], body["traceparent"]) == ("DIRECTIVE", "BURST", traceparent)
    assert body["workspace_ref"]["uri"].endswith("/lucius/tenant_a/job_1/OCR/1/")
    assert set(message.application_properties) >= PROPERTIES
    assert (message.message_id, message.content_type) == ("job_1:ocr:1", "application/json")
    assert message.partition_key == body["routing_key_used"]
    assert message.time_to_live.total_seconds() == 930
