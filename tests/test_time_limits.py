"""Time limits of functions and of calls to the bus (R43)."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shared import time_limits
from shared.adapters.servicebus import links as servicebus_links
from shared.adapters.servicebus import publisher as servicebus_publisher
from shared.adapters.servicebus.lanes import ServiceBusLanes
from shared.adapters.servicebus.publisher import ServiceBusPublisher
from shared.adapters.servicebus.receivers import ServiceBusDeadReplies
from shared.adapters.servicebus.reply_entities import ReplyEntities
from shared.errors import BusUnavailable, Interrupted, PublishUnavailable
from shared.time_limits import CONFIGURATION, PROBE, STORE, limited, time_limit
from shared.wiring import SystemClock
from tests.adapters.test_publisher import directive
from tests.servicebus_emulator.process import start_bus

ROOT = Path(__file__).parents[1]
DEADLINE_S = 60


async def test_what_takes_too_long_is_interrupted() -> None:
    with pytest.raises(Interrupted, match=r"no response within 0\.01 s"):
        async with time_limit(0.01):
            await asyncio.Event().wait()


async def test_a_cancellation_that_comes_out_of_a_client_is_an_ordinary_error() -> None:
    async def client() -> None:
        raise asyncio.CancelledError

    with pytest.raises(Interrupted, match="cancelled its call"):
        await limited(60)(client)()


async def test_a_cancellation_from_outside_passes_through() -> None:
    task = asyncio.create_task(limited(60)(asyncio.Event().wait)())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_work_is_not_taken_for_the_limit() -> None:
    """A client's own TimeoutError stays one, since the adapters map it."""
    with pytest.raises(TimeoutError, match="of the client"):
        async with time_limit(60):
            raise TimeoutError("of the client")


def test_the_functions_have_limits_below_those_of_the_host(app_functions: list[Any]) -> None:
    """`functionTimeout`, and for a message the time for which its lock is renewed."""
    host = json.loads((ROOT / "host.json").read_text())
    longest_s = _seconds(host["functionTimeout"])
    renewed_s = _seconds(host["extensions"]["serviceBus"]["maxAutoLockRenewalDuration"])
    functions = [function for function in app_functions if not function.is_http_function()]
    limits = {
        function.get_function_name(): (
            function.get_trigger().type,
            getattr(function.get_user_function(), "limit_s", longest_s),
        )
        for function in functions
        if function.get_trigger().type != "orchestrationTrigger"
    }
    assert {"activityTrigger", "serviceBusTrigger", "timerTrigger"} <= {kind for kind, _ in limits.values()}
    assert [name for name, (_, limit_s) in limits.items() if limit_s >= longest_s] == []
    assert all(limit_s < renewed_s for kind, limit_s in limits.values() if kind == "serviceBusTrigger")


def _seconds(time_span: str) -> int:
    hours, minutes, seconds = map(int, time_span.split(":"))
    return (hours * 60 + minutes) * 60 + seconds


def test_each_limit_is_below_the_one_around_it() -> None:
    """A store that hangs fails its own try; the function around it still responds."""
    assert STORE.call_s < time_limits.TAKE_S < time_limits.ACTIVITY_S < time_limits.REQUEST_S < 230
    assert time_limits.RETRY_FOR_S + time_limits.TAKE_S < time_limits.REPLY_S < 300
    assert max(CONFIGURATION.call_s, PROBE.call_s, time_limits.ENGINE_CALL_S) < time_limits.TAKE_S


async def _mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(600)


@asynccontextmanager
async def publisher_to(serve: Callable[..., Awaitable[None]]) -> AsyncIterator[ServiceBusPublisher]:
    """Yields a publisher whose bus accepts connections and calls `serve` with them."""
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connection = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=R;SharedAccessKey=S;UseDevelopmentEmulator=true;"
    yield ServiceBusPublisher.connect(connection=connection, namespace=None, credential=None)
    server.close()


@pytest.mark.parametrize("call", ["peek", "drain", "publish"])
async def test_a_call_to_a_silent_bus_ends_though_nobody_holds_its_task(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in Azure's Python worker, which starts the task of an invocation and keeps no reference to it."""
    monkeypatch.setattr(servicebus_links, "_CALL_S", 1.0)
    monkeypatch.setattr(servicebus_links, "_CLOSE_S", 0.2)
    monkeypatch.setattr(servicebus_publisher, "_PUBLISH_S", 1.0)
    ended: list[type[BaseException]] = []

    async def work(publisher: ServiceBusPublisher) -> None:
        try:
            if call == "peek":
                lanes = ServiceBusLanes(
                    publisher.client,
                    ReplyEntities("global-bus-replies-p", "lucius-invoker", "lucius-replies"),
                    SystemClock(),
                )
                looks = (lanes.replies(lane, since=datetime.now(UTC)) for lane in (0, 1))
                await asyncio.gather(*looks)
            elif call == "drain":
                dead = ServiceBusDeadReplies(
                    publisher.client, ReplyEntities("global-bus-replies-p", "lucius-invoker", "lucius-replies")
                )
                await dead.drain(0, _take)
            else:
                await publisher.publish(directive(), time_to_live_s=60)
        except BaseException as error:
            ended.append(type(error))

    async with publisher_to(_mute) as publisher:
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: loop.create_task(work(publisher)) and None)
        until = loop.time() + DEADLINE_S
        while not ended and loop.time() < until:
            await asyncio.sleep(0.1)
            gc.collect()
    assert ended == [PublishUnavailable if call == "publish" else BusUnavailable]


async def test_a_publish_that_was_cut_off_leaves_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK keeps a connection open until its sender is closed, also without a reference to the sender."""
    monkeypatch.setattr(servicebus_links, "_CLOSE_S", 0.5)
    bus = start_bus("--topic", "global-bus-p15/ocr")
    try:
        publisher = ServiceBusPublisher.connect(connection=bus.connection_string, namespace=None, credential=None)
        await publisher.publish(directive(), time_to_live_s=60)
        assert len(_kept_alive()) == 1
        bus.process.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(servicebus_publisher, "_PUBLISH_S", 0.5)
        with pytest.raises(PublishUnavailable):
            await publisher.publish(directive(), time_to_live_s=60)
        bus.process.send_signal(signal.SIGCONT)
        # it is closed while others are in use
        for _ in range(DEADLINE_S * 10):
            if not _kept_alive():
                break
            await asyncio.sleep(0.1)
        assert _kept_alive() == []
        await publisher.close()
    finally:
        bus.kill()


def _kept_alive() -> list[str]:
    tasks = (repr(task) for task in asyncio.all_tasks())
    return [task for task in tasks if "_keep_alive_async" in task]


async def _take(reply: object) -> bool:
    raise AssertionError("there is none")
