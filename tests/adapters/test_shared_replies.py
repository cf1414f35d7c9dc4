"""Replies of all lanes in one queue, on the bus emulator: each has its lane, and none is lost."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from datetime import UTC, datetime
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from emulator.topology import TOPOLOGY, config
from shared.adapters.servicebus.lanes import ServiceBusLanes
from shared.adapters.servicebus.publisher import ServiceBusPublisher
from shared.adapters.servicebus.receivers import ServiceBusDeadReplies
from shared.adapters.servicebus.reply_entities import TOPIC_PROPERTY, ReplyEntities
from shared.errors import BusUnavailable
from shared.ports.bus import DeadReply
from shared.wiring import SystemClock
from tests.servicebus_emulator.process import start_bus

REPLIES = json.loads(TOPOLOGY.read_text())["replies"]
SHARED = ReplyEntities(REPLIES["prefix"], REPLIES["subscription"], REPLIES["queue"], are_shared=True)
LANES = ReplyEntities(REPLIES["prefix"], REPLIES["subscription"], REPLIES["queue"])


@pytest.mark.parametrize("topic", [None, b"\xff", "another", SHARED.prefix, SHARED.prefix + 5000 * "9"])
def test_a_message_without_a_topic_has_lane_0(topic: object) -> None:
    """One that was sent to the queue itself may have any property."""
    assert SHARED.lane_of({TOPIC_PROPERTY: topic}) == 0


async def test_a_look_at_a_lane_shows_what_a_change_of_the_setting_left_in_the_queue() -> None:
    """No lease ends while a reply waits there for the sweeper (R8)."""
    bus = start_bus("--topic", f"{LANES.topic(0)}/{LANES.subscription}", "--queue", LANES.queue)
    publisher = ServiceBusPublisher.connect(connection=bus.connection_string, namespace=None, credential=None)
    try:
        async with publisher.client.get_queue_sender(LANES.queue) as sender:
            await sender.send_messages(ServiceBusMessage(b"{}", message_id="left"))
        await send(publisher.client, LANES.topic(0), "new")
        look = await ServiceBusLanes(publisher.client, LANES, SystemClock()).replies(0, since=datetime.now(UTC))
        assert [name for name, _ in look.oldest] == ["left", "new"]
    finally:
        await publisher.close()
        await publisher.client.close()
        bus.kill()


def delete(url: str) -> None:
    urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=60).close()


async def send(client: ServiceBusClient, entity: str, *names: str, properties: dict[str, str] | None = None) -> None:
    async with client.get_topic_sender(entity) as sender:
        for name in names:
            message = ServiceBusMessage(b"{}", message_id=name, application_properties=properties)  # type: ignore[arg-type]
            await sender.send_messages(message)


async def drained(client: ServiceBusClient, entities: ReplyEntities, lane: int | None) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []

    async def take(reply: DeadReply) -> bool:
        found.append((reply.message_id, reply.lane))
        return True

    assert await ServiceBusDeadReplies(client, entities).drain(lane, take)
    return found


async def test_forwarded_replies_keep_their_lane_wherever_they_lie(tmp_path: Path) -> None:
    """In the queue, in its dead letters, in those of a topic that could not forward; and after the setting is reset.

    A sender that sets the property itself has no effect. Over 5 s: each entity has its own link to one bus.
    """
    bus_config = config(json.loads(TOPOLOGY.read_text()), shared_replies=True)
    (tmp_path / "Config.json").write_text(json.dumps(bus_config))
    bus = start_bus("--config", tmp_path / "Config.json")
    publisher = ServiceBusPublisher.connect(connection=bus.connection_string, namespace=None, credential=None)
    client = publisher.client
    try:
        await send(client, SHARED.topic(3), "m3", properties={TOPIC_PROPERTY: "another", "kept": "yes"})
        await send(client, SHARED.topic(15), "m15", "bad15")
        looks = ServiceBusLanes(client, SHARED, SystemClock())
        # the read at a lease's end shows messages of every lane (R8)
        look = await looks.replies(7, since=datetime.now(UTC))
        assert [name for name, _ in look.oldest] == ["m3", "m15", "bad15"]
        async with client.get_queue_receiver(SHARED.queue) as receiver:
            messages = [
                message
                for _ in range(3)
                for message in await receiver.receive_messages(max_message_count=1, max_wait_time=60)
            ]
            found = {message.message_id: message for message in messages}
            assert {name: SHARED.lane_of(each.application_properties) for name, each in found.items()} == {
                "m3": 3,
                "m15": 15,
                "bad15": 15,
            }
            assert (found["m3"].application_properties or {})[b"kept"] == b"yes"
            await receiver.dead_letter_message(found["bad15"], reason="Broken")
            await receiver.complete_message(found["m3"])
            await receiver.abandon_message(found["m15"])
        assert await drained(client, SHARED, None) == [("bad15", 15)]
        # the queue still holds m15 when the reply functions are those of the lanes again
        assert await drained(client, LANES, None) == [("m15", 15)]
        # the state between in a change of the setting: topics forward, the app reads lanes; no lease ends meanwhile
        with pytest.raises(BusUnavailable):
            await ServiceBusLanes(client, LANES, SystemClock()).replies(3, since=datetime.now(UTC))
        # a queue that is gone or full: the topic keeps its reply among its dead letters
        await asyncio.to_thread(delete, f"{bus.admin_url}/{SHARED.queue}?api-version=2021-05")
        await send(client, SHARED.topic(5), "m5")
        await send(client, SHARED.topic(6), "m6")
        assert await drained(client, SHARED, 5) == [("m5", 5)]
        assert await drained(client, SHARED, None) == []
        # a change of the setting before they were drained
        assert await drained(client, LANES, 6) == [("m6", 6)]
    finally:
        await publisher.close()
        await publisher.client.close()
        bus.kill()
