"""Queue, blob and table bindings with Azurite."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest
from azure.storage.queue import QueueClient

from functions_emulator.host.storage_queue import QueueOptions, QueueTrigger
from tests.functions_emulator.host.process import Host, eventually, start_host


@pytest.fixture(scope="module")
def host(azurite: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("host")
    # the three services, identity-based as on Azure
    parts = dict(part.split("=", 1) for part in azurite.strip(";").split(";"))
    identity = {
        f"STORAGE_CONNECTION__{service}ServiceUri": parts[f"{service.capitalize()}Endpoint"]
        for service in ("blob", "queue", "table")
    }
    running = start_host("storage", folder, environment=identity)
    yield running
    assert running.stop() == 0


def test_a_word_goes_through_queue_blob_and_table(host: Host) -> None:
    """From HTTP to a queue, a blob and a table, and back by table and blob inputs."""
    assert host.get("/word/hello").status_code == 404
    assert host.post("/enqueue/hello").text == "queued"
    response = eventually(
        lambda: word if (word := host.get("/word/hello")).status_code == 200 else None, lambda: host.log
    )
    assert response.json()["blob"] == "hello 1"
    row = response.json()["row"]
    assert (row["text"], row["path"], row["length"]) == ("hello 1", "words/hello.txt", 7)
    assert host.get("/words").json() == ["hello"]


def test_a_message_that_fails_becomes_poison(host: Host, azurite: str) -> None:
    """After maxDequeueCount failures it is in the poison queue."""
    host.post("/enqueue/bad")
    poison = QueueClient.from_connection_string(azurite, "incoming-poison")

    def peeked() -> list[object]:
        try:
            return list(poison.peek_messages())
        except Exception:
            return []

    (message,) = eventually(peeked, lambda: host.log)
    assert "eyJ3b3JkIjogImJhZCJ9" in str(message)
    assert host.log.count("to_blob failed, invocation") == 2


async def test_what_the_storage_refuses_is_one_line(azurite: str, caplog: pytest.LogCaptureFixture) -> None:
    """A queue name that is too short is logged without the whole response."""
    function: Any = SimpleNamespace(name="shout", trigger=SimpleNamespace(fields={"queueName": "in"}))
    options = QueueOptions(batch_size=1, max_dequeue_count=1, max_poll_s=1, visibility_s=0, base64=True)
    running = asyncio.create_task(QueueTrigger(function, azurite, options, AsyncMock()).run())
    try:
        async with asyncio.timeout(30):
            while not (lines := [line for line in caplog.messages if line.startswith("shout cannot")]):  # noqa: ASYNC110
                await asyncio.sleep(0.05)
    finally:
        running.cancel()
    assert "name length" in lines[0]
    assert "\n" not in lines[0]
