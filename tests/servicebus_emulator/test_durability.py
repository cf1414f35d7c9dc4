"""With `--data`, SIGKILL loses no accepted message and restores no completed one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient as AioClient
from azure.servicebus.exceptions import ServiceBusError

from servicebus_emulator.broker.sqlite_store import SqliteStore
from servicebus_emulator.clock import SystemClock
from tests.servicebus_emulator.process import Bus, fails, start_bus

WAIT_S = 60


def test_every_kind_of_state_is_there_after_a_kill(config_path: Path, tmp_path: Path) -> None:
    """Messages in every state, seen ids and numbers survive; locked messages are free and count a delivery."""
    arguments = ("--config", config_path, "--data", tmp_path, "--virtual-clock")
    bus = start_bus(*arguments)
    try:
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            with client.get_queue_sender("plain-1") as sender, client.get_queue_receiver("plain-1") as receiver:
                for name in ("abandoned", "deferred", "dead", "completed", "locked", "active"):
                    sender.send_messages(ServiceBusMessage(name, application_properties={"name": name}))
                later = datetime.now(UTC) + timedelta(hours=1)
                sender.schedule_messages(ServiceBusMessage("scheduled"), later)
                received = {}
                while len(received) < 5:
                    for message in receiver.receive_messages(max_message_count=5 - len(received), max_wait_time=WAIT_S):
                        received[str(message)] = message
                receiver.abandon_message(received["abandoned"])
                receiver.defer_message(received["deferred"])
                receiver.dead_letter_message(received["dead"], reason="why")
                receiver.complete_message(received["completed"])
            with client.get_queue_sender("deduplicating-0") as sender:
                sender.send_messages(ServiceBusMessage("first", message_id="same"))
        bus.kill()
        bus = start_bus(*arguments)
        counts = bus.get("/entities")["plain-1"]
        assert counts.pop("enqueued") >= 7
        assert counts == {
            "active": 3,
            "locked": 0,
            "deferred": 1,
            "scheduled": 1,
            "dead_letter": 1,
        }
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            with client.get_queue_sender("deduplicating-0") as sender:
                sender.send_messages(ServiceBusMessage("second", message_id="same"))
            bus.post("/clock/advance", {"seconds": 3600})
            with client.get_queue_receiver("plain-1") as receiver:
                [deferred] = receiver.receive_deferred_messages(received["deferred"].sequence_number)
                assert (str(deferred), deferred.application_properties[b"name"]) == ("deferred", b"deferred")
                assert deferred.delivery_count == 1
                after_kill = {}
                while len(after_kill) < 4:
                    for message in receiver.receive_messages(max_message_count=4, max_wait_time=WAIT_S):
                        after_kill[str(message)] = message
                assert {name: message.delivery_count for name, message in after_kill.items()} == {
                    "abandoned": 1,
                    "locked": 1,
                    "active": 0,
                    "scheduled": 0,
                }
                receiver.defer_message(after_kill["scheduled"])
                assert after_kill["scheduled"].sequence_number > received["locked"].sequence_number + 2
            with client.get_queue_receiver("plain-1", sub_queue="deadletter") as dead:
                [message] = dead.receive_messages(max_wait_time=WAIT_S)
                assert (str(message), message.dead_letter_reason) == ("dead", "why")
        assert bus.get("/entities")["deduplicating-0"]["active"] == 1
        bus.kill()
        bus = start_bus(*arguments)
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            with client.get_queue_receiver("plain-1") as receiver:
                counts = {str(message): message.delivery_count for message in receiver.peek_messages(10)}
        assert counts == {"deferred": 2, "abandoned": 2, "locked": 2, "active": 1, "scheduled": 1}
    finally:
        bus.kill()


async def test_kills_under_load_lose_and_repeat_nothing(config_path: Path, tmp_path: Path) -> None:
    """After SIGKILLs under load all accepted messages are delivered, and no completed one again."""
    arguments = ("--config", config_path, "--data", tmp_path)
    bus = start_bus(*arguments)
    accepted: set[str] = set()
    completed: set[str] = set()
    in_doubt: set[str] = set()
    rng = random.Random(11)
    try:
        for life in range(3):
            stop = asyncio.Event()
            work = asyncio.gather(
                _send(bus, life, accepted, stop), _consume(bus, completed, in_doubt, stop), return_exceptions=False
            )
            goal = len(accepted) + 150
            while len(accepted) < goal or len(completed) < 60 * (life + 1):
                await asyncio.sleep(rng.random() * 0.05)
                assert not work.done()
            stop.set()
            bus.kill()
            await asyncio.wait_for(work, 60)
            bus = start_bus(*arguments)
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
            with client.get_queue_receiver("plain-2", receive_mode=mode) as receiver:
                waiting, remaining = bus.get("/entities")["plain-2"]["active"], list[str]()
                while len(remaining) < waiting:
                    messages = receiver.receive_messages(max_message_count=500, max_wait_time=WAIT_S)
                    assert messages, f"{len(remaining)} of {waiting} messages came"
                    remaining += [str(message) for message in messages]
                assert receiver.receive_messages(max_wait_time=0.3) == []
        assert sorted(set(remaining)) == sorted(remaining)
        assert set() == completed & set(remaining)
        assert set() == accepted - completed - in_doubt - set(remaining)
        assert len(accepted) >= 450
    finally:
        bus.kill()


async def _send(bus: Bus, life: int, accepted: set[str], stop: asyncio.Event) -> None:
    number = 0
    with contextlib.suppress(ServiceBusError):
        async with AioClient.from_connection_string(bus.connection_string, retry_total=0) as client:
            async with client.get_queue_sender("plain-2") as sender:
                while not stop.is_set():
                    names = [f"{life}-{number + i}" for i in range(5)]
                    number += 5
                    await sender.send_messages([ServiceBusMessage(name) for name in names])
                    accepted.update(names)


async def _consume(bus: Bus, completed: set[str], in_doubt: set[str], stop: asyncio.Event) -> None:
    with contextlib.suppress(ServiceBusError):
        async with AioClient.from_connection_string(bus.connection_string, retry_total=0) as client:
            async with client.get_queue_receiver("plain-2", prefetch_count=10) as receiver:
                while not stop.is_set():
                    for message in await receiver.receive_messages(max_message_count=10, max_wait_time=1):
                        # A completion that the kill cuts off may have taken effect or not.
                        in_doubt.add(str(message))
                        await receiver.complete_message(message)
                        in_doubt.discard(str(message))
                        completed.add(str(message))


def test_data_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """Data in use, of another format, damaged or not a database: one line that names the file and the remedy."""
    store = SqliteStore(tmp_path / "bus.sqlite3", SystemClock().now_ms)
    assert "another bus uses the file" in fails("--queue", "q", "--data", tmp_path)
    store.close()
    with contextlib.closing(sqlite3.connect(tmp_path / "bus.sqlite3")) as database:
        row = ("q", 1, b"no message", 0, 1, None, 0, 0, None, None, 0)
        database.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        database.commit()
        assert "bus.sqlite3: " in fails("--queue", "q", "--data", tmp_path)
        database.execute("PRAGMA user_version = 77")
    line = fails("--queue", "q", "--data", tmp_path)
    assert "bus.sqlite3 has format 77, and this version of the emulator writes format 1; use another --data" in line
    (tmp_path / "bus.sqlite3").write_text("no database " * 100)
    assert "file is not a database" in fails("--queue", "q", "--data", tmp_path)


def test_an_entity_is_stored_once_in_any_case_of_its_name(tmp_path: Path) -> None:
    """A queue that is deleted, and created again with another case of its name, is there after a restart."""
    for changes in ({"orders": None, "topic/Subscriptions/s": "created"}, {"Orders": "created"}, {}):
        store = SqliteStore(tmp_path / "bus.sqlite3", SystemClock().now_ms)
        stored = store.entities()
        for path, description in changes.items():
            store.put_entity(path, description)
        store.forget_entities("Topic/")
        store.commit()
        store.close()
    assert stored == {"Orders": "created"}
