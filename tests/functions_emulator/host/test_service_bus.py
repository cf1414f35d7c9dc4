"""Service Bus triggers and outputs with the bus emulator."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.amqp import AmqpAnnotatedMessage

from emulator.up.ports import find_free
from tests.functions_emulator.host.process import SOON_S, Host, eventually, start_host
from tests.functions_emulator.host.service_bus_app import CONFIG, MessageLog, environment, send
from tests.servicebus_emulator.process import Bus, start_bus


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bus") / "Config.json"
    path.write_text(json.dumps(CONFIG))
    return path


@pytest.fixture(scope="module")
def bus(config: Path) -> Iterator[Bus]:
    # below the ports of outgoing connections, so that no process takes it while the bus is stopped
    running = start_bus("--config", config, port=find_free())
    yield running
    running.stop()


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> MessageLog:
    return MessageLog(tmp_path_factory.mktemp("received") / "messages.jsonl")


@pytest.fixture(scope="module")
def host(bus: Bus, received: MessageLog, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    settings = environment(bus, received)
    # the same connection, identity-based as on Azure
    namespace = settings.pop("BUS_CONNECTION").split("sb://")[1].split(";")[0].rstrip("/")
    settings |= {
        "BUS_CONNECTION__fullyQualifiedNamespace": namespace,
        "BUS_CONNECTION__credential": "managedidentity",
    }
    running = start_host("bus", tmp_path_factory.mktemp("host"), environment=settings)
    yield running
    assert running.stop() == 0


def test_a_topic_message_arrives_with_its_metadata(host: Host, bus: Bus, received: MessageLog) -> None:
    """The function gets body, system properties and application properties; its return completes the message."""
    message = ServiceBusMessage(
        "hello",
        message_id="m-1",
        correlation_id="c-1",
        subject="s",
        content_type="text/plain",
        application_properties={"lane": 3, "word": "w"},
    )
    send(bus, "news", message)
    (line,) = eventually(lambda: received.of("hello"), lambda: host.log)
    assert line["function"] == "from_topic"
    assert (line["message_id"], line["correlation_id"], line["subject"]) == ("m-1", "c-1", "s")
    assert line["properties"] == {"lane": 3, "word": "w"}
    assert line["delivery_count"] == 1
    assert line["lock_token"]
    assert line["metadata"] == "m-1"


def test_a_body_is_text_unless_the_trigger_takes_bytes(host: Host, bus: Bus, received: MessageLog) -> None:
    """Other bytes than UTF-8 are U+FFFD without `dataType` (MessageToStringConverter.cs), and exact with it."""
    for queue, expected in (("work", "caf\ufffd \ufffd(\ufffd"), ("bytes", "caf\\xe9 \\xc3(\\xf0\\x9f")):
        send(bus, queue, ServiceBusMessage(b"caf\xe9 \xc3(\xf0\x9f"))
        (line,) = eventually(lambda expected=expected: received.of(expected), lambda: host.log)
        assert line["function"] == {"work": "from_queue", "bytes": "from_bytes"}[queue]
    send(bus, "work", AmqpAnnotatedMessage(value_body="a value, as of JMS"))
    eventually(lambda: received.of("a value, as of JMS"), lambda: host.log)


def test_a_raise_abandons_at_once_until_the_message_is_dead(host: Host, bus: Bus, received: MessageLog) -> None:
    """Three deliveries follow one another at once, then the message is in the dead-letter queue."""
    send(bus, "work", ServiceBusMessage("bad", message_id="m-bad"))
    eventually(lambda: len(received.of("bad")) == 3 or None, lambda: host.log)
    assert [line["delivery_count"] for line in received.of("bad")] == [1, 2, 3]
    with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        dead = client.get_queue_receiver("work", sub_queue=ServiceBusSubQueue.DEAD_LETTER)
        with dead:
            (message,) = dead.receive_messages(max_wait_time=SOON_S)
            assert message.message_id == "m-bad"
            dead.complete_message(message)
    assert "from_queue failed, invocation " in host.log


def test_many_messages_are_each_handled_once(host: Host, bus: Bus, received: MessageLog) -> None:
    """Two hundred messages, two at a time; none is lost and none is repeated."""
    send(bus, "work", *(ServiceBusMessage(f"n-{number}") for number in range(200)))
    expected = {f"n-{number}" for number in range(200)}
    bodies = eventually(
        lambda: lines if expected <= set(lines := [line["body"] for line in received.lines]) else None, lambda: host.log
    )
    assert sorted(body for body in bodies if body.startswith("n-")) == sorted(expected)


def test_a_flood_at_one_function_delays_no_other_function(host: Host, bus: Bus, received: MessageLog) -> None:
    """The guarantee of `replies = 'Lanes'` (decision 69): each function receives independently of blocked calls of
    others. Behind them on the same queue, as with one queue for all replies, a message waits.
    """
    flood = [f"held-{number}" for number in range(20)]
    send(bus, "slow", *map(ServiceBusMessage, flood))
    send(bus, "slow", ServiceBusMessage("held-behind"))
    send(bus, "news", ServiceBusMessage("another lane"))
    send(bus, "work", ServiceBusMessage("a third lane"))
    for body in ("another lane", "a third lane"):
        eventually(lambda body=body: received.of(body), lambda: host.log)
    assert [line for line in received.lines if line["body"].startswith("held")] == []
    received.path.with_name(received.path.name + ".released").touch()
    for body in (*flood, "held-behind"):
        eventually(lambda body=body: received.of(body), lambda: host.log)


def test_outputs_are_sent(host: Host, bus: Bus, received: MessageLog) -> None:
    """The values of the outputs arrive at the queue and the topic; an output that is not set sends nothing."""
    assert host.post("/send?queue=q-1&topic=t-1").text == "sent"
    assert host.post("/send?queue=q-2").text == "sent"
    for body in ("q-1", "q-2", "t-1"):
        eventually(lambda body=body: received.of(body), lambda: host.log)
    assert [line["function"] for line in (*received.of("q-1"), *received.of("t-1"))] == ["from_queue", "from_topic"]
    assert len([line for line in received.lines if line["function"] == "from_topic" and line["body"][0] == "t"]) == 1


def test_cardinality_many_gives_lists(host: Host, bus: Bus, received: MessageLog) -> None:
    """Messages that wait together come in one list, each once."""
    expected: list[str] = []

    def in_lists() -> bool:
        """The host waits for others for 20 ms, in which a busy machine may bring none."""
        bodies = [str(len(expected) + number) for number in range(20)]
        expected.extend(bodies)
        send(bus, "batch", *map(ServiceBusMessage, bodies))
        eventually(lambda: len(batched()) >= len(expected), lambda: host.log)
        return any(line["function"] != "in_batches/1" for line in batched())

    def batched() -> list[dict[str, Any]]:
        return [one for one in received.lines if "in_batches" in one["function"] and one["body"].isdigit()]

    eventually(in_lists, lambda: host.log)
    assert sorted(line["body"] for line in batched()) == sorted(expected)


def test_a_batch_without_a_data_type_passes_json_net(host: Host, bus: Bus, received: MessageLog) -> None:
    """Dates are rewritten (azure-functions-python-worker issue 1401), and other bodies as Python writes JSON."""
    send(bus, "batch", ServiceBusMessage('{"value":"2024-01-19T12:50:41.250940Z","n":1.10}'))
    (line,) = eventually(lambda: received.of('{"value": "2024-01-19T12:50:41.25094Z", "n": 1.1}'), lambda: host.log)
    assert line["function"].startswith("in_batches")
    send(bus, "exact", ServiceBusMessage('{"value":"2024-01-19T12:50:41.250940Z","n":1.10}'))
    (line,) = eventually(lambda: received.of('{"value":"2024-01-19T12:50:41.250940Z","n":1.10}'), lambda: host.log)
    assert line["function"] == "in_exact_batches"


def test_one_message_that_is_not_json_fails_its_whole_batch(host: Host, bus: Bus, received: MessageLog) -> None:
    """Before Python runs (PocoTriggerArgumentBinding.cs of azure-webjobs-sdk), up to the dead-letter queue.

    A trigger with BINARY takes both.
    """
    with ServiceBusClient.from_connection_string(bus.connection_string) as client:
        with client.get_queue_sender("batch") as sender:
            batch = sender.create_message_batch()
            batch.add_message(ServiceBusMessage("caf\xe9, not JSON", message_id="m-no-json"))
            batch.add_message(ServiceBusMessage('"good"', message_id="m-good"))
            sender.send_messages(batch)
        with client.get_queue_receiver("batch", sub_queue=ServiceBusSubQueue.DEAD_LETTER) as dead:
            (message,) = dead.receive_messages(max_wait_time=SOON_S)
            assert message.message_id == "m-no-json"
            dead.complete_message(message)
    assert "in_batches failed before it ran, with " in host.log
    assert "message m-no-json is not JSON" in host.log
    assert not received.of("caf\xe9, not JSON")
    send(bus, "exact", ServiceBusMessage("caf\xe9, not JSON"), ServiceBusMessage(""))
    for body in ("caf\xe9, not JSON", ""):
        (line,) = eventually(lambda body=body: received.of(body), lambda: host.log)
        assert line["function"] == "in_exact_batches"


def test_sessions_keep_their_order(host: Host, bus: Bus, received: MessageLog) -> None:
    """Messages of one session are handled one after another, several sessions at once."""
    send(bus, "ordered", *(ServiceBusMessage(str(n), session_id=f"s{n % 3}") for n in range(30)))
    lines = eventually(
        lambda: lines if len(lines := [one for one in received.lines if "in_order" in one["function"]]) >= 30 else None,
        lambda: host.log,
    )
    for session in range(3):
        bodies = [int(one["body"]) for one in lines if one["function"] == f"in_order/s{session}"]
        assert bodies == [number for number in range(30) if number % 3 == session]


def test_the_lock_of_a_slow_message_is_renewed(host: Host, bus: Bus, received: MessageLog) -> None:
    """A function that takes longer than the lock keeps its message: it runs once, nothing is dead-lettered."""
    send(bus, "slow", ServiceBusMessage("8.0"))
    (line,) = eventually(lambda: received.of("8.0"), lambda: host.log)
    assert line["delivery_count"] == 1
    assert not re.search("renew the lock of message|could not be settled", host.log)


def test_a_bus_that_goes_away_is_found_again(host: Host, bus: Bus, received: MessageLog, config: Path) -> None:
    """The host logs once that it cannot receive, and continues when the bus is back."""
    send(bus, "work", ServiceBusMessage("before"))
    eventually(lambda: received.of("before"), lambda: host.log)
    bus.kill()
    eventually(lambda: host.log.count("cannot receive from work") == 1 or None, lambda: host.log)
    restarted = start_bus("--config", config, port=bus.port)
    bus.process, bus.admin_port = restarted.process, restarted.admin_port  # the fixture stops it
    send(bus, "work", ServiceBusMessage("after"))
    eventually(lambda: received.of("after"), lambda: host.log)
    assert host.log.count("cannot receive from work") == 1
