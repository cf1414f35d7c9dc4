"""Measures messages per second and CPU time of the Service Bus emulator: `python -m benchmarks.bus [--quick]`.

The client is Microsoft's asynchronous Python SDK in this process. The bus is a separate process. Each row with a rate
has the broker's CPU time per message, since the SDK limits most rates.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import platform
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from azure.servicebus import ServiceBusMessage, ServiceBusReceiveMode
from azure.servicebus.aio import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from benchmarks.bus import in_process

ROOT = Path(__file__).parents[2]
BODY = "x" * 200


@dataclass
class Bus:
    process: subprocess.Popen[str]
    connection_string: str
    admin: str
    started_in_s: float

    def cpu_s(self) -> float:
        with urllib.request.urlopen(f"{self.admin}/health") as response:
            return float(json.load(response)["cpu_s"])

    def resident_bytes(self) -> int:
        """Returns the resident memory of the bus in bytes. Returns 0 on systems other than Linux."""
        try:
            status = Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        [line] = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) * 1024


def start(*arguments: str) -> Bus:
    began = time.perf_counter()
    command = [sys.executable, "-m", "emulator", "bus", "--port", "0", "--admin-port", "0", *arguments]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    _, bus, admin = process.stdout.readline().split()
    text = (
        f"Endpoint={bus};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
        "UseDevelopmentEmulator=true;"
    )
    return Bus(process, text, admin.removeprefix("admin="), time.perf_counter() - began)


@contextlib.asynccontextmanager
async def running(*arguments: str) -> AsyncIterator[tuple[Bus, ServiceBusClient]]:
    bus = start(*arguments)
    try:
        async with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            yield bus, client
    finally:
        bus.process.terminate()
        bus.process.wait()


async def measure(bus: Bus, name: str, count: int, work: Callable[[], Awaitable[None]]) -> None:
    """Runs `work`, which handles `count` messages, and prints a row."""
    cpu, began = bus.cpu_s(), time.perf_counter()
    await work()
    took, used = time.perf_counter() - began, bus.cpu_s() - cpu
    print(f"{name:<52} {count / took:>9,.0f} /s   broker {used / count * 1e6:>6,.0f} us/message", flush=True)


async def one_queue(arguments: list[str], label: str, scale: int) -> None:
    async with running("--queue", "q", *arguments) as (bus, client):
        async with client.get_queue_sender("q") as sender, client.get_queue_receiver("q") as receiver:

            async def single() -> None:
                for _ in range(scale):
                    await sender.send_messages(ServiceBusMessage(BODY))

            async def batches() -> None:
                for _ in range(scale // 10):
                    await sender.send_messages([ServiceBusMessage(BODY) for _ in range(100)])

            async def complete(count: int, at_once: int) -> None:
                done = 0
                while done < count:
                    messages = await receiver.receive_messages(at_once, max_wait_time=5)
                    for message in messages:
                        await receiver.complete_message(message)
                    done += len(messages)

            await measure(bus, f"{label}: single sends", scale, single)
            await measure(bus, f"{label}: sends in batches of 100", scale * 10, batches)
            await measure(bus, f"{label}: receive 1, complete", scale, lambda: complete(scale, 1))
            await measure(bus, f"{label}: receive 100, complete each", scale * 3, lambda: complete(scale * 3, 100))


async def many_connections(arguments: list[str], label: str, scale: int) -> None:
    """Measures 16 topics, 16 senders and 84 receivers at the same time."""
    topics = [f"t{lane}" for lane in range(16)]
    names = [argument for topic in topics for argument in ("--topic", f"{topic}/s")]
    async with running(*names, *arguments) as (bus, client):
        done = 0
        total = scale * 8 // 16 * 16
        finished = asyncio.Event()
        senders = [client.get_topic_sender(topic) for topic in topics]
        receivers = [client.get_subscription_receiver(topics[number % 16], "s") for number in range(84)]

        async def receive(receiver: ServiceBusReceiver) -> None:
            nonlocal done
            while done < total:
                for message in await receiver.receive_messages(10, max_wait_time=5):
                    await receiver.complete_message(message)
                    done += 1
                    if done == total:
                        finished.set()

        async def send(sender: ServiceBusSender) -> None:
            for _ in range(total // 16):
                await sender.send_messages(ServiceBusMessage(BODY))

        async def work() -> None:
            await asyncio.gather(*(send(sender) for sender in senders))
            await finished.wait()

        await asyncio.gather(*(handler.__aenter__() for handler in [*senders, *receivers]))
        waiting = [asyncio.create_task(receive(receiver)) for receiver in receivers]
        await measure(bus, f"{label}: 16 topics, 100 connections, sent and completed", total, work)
        await asyncio.gather(*waiting)
        await asyncio.gather(*(handler.close() for handler in [*senders, *receivers]))


async def backlog(scale: int) -> None:
    """Prints the memory of waiting messages. After a restart, prints the start time of the bus and the time to receive
    the messages.
    """
    with tempfile.TemporaryDirectory() as folder:
        count = scale * 10
        async with running("--queue", "q", "--data", folder) as (bus, client):
            before = bus.resident_bytes()
            async with client.get_queue_sender("q") as sender:
                for _ in range(count // 100):
                    await sender.send_messages([ServiceBusMessage(BODY) for _ in range(100)])
            grown = bus.resident_bytes() - before
            print(f"{'memory of 100,000 waiting messages':<52} {grown / count * 100_000 / 1e6:>9,.0f} MB")
        async with running("--queue", "q", "--data", folder) as (bus, client):
            print(f"{f'start with {count:,} waiting messages':<52} {bus.started_in_s:>9.2f} s")
            mode = ServiceBusReceiveMode.RECEIVE_AND_DELETE
            async with client.get_queue_receiver("q", receive_mode=mode, prefetch_count=500) as receiver:
                began, done = time.perf_counter(), 0
                while done < count:
                    done += len(await receiver.receive_messages(500, max_wait_time=5))
            print(f"{f'{count:,} of them received and deleted in':<52} {time.perf_counter() - began:>9.2f} s")


async def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bus", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="send a tenth of the messages")
    scale = 100 if parser.parse_args().quick else 1000
    print(f"Python {platform.python_version()}, {platform.machine()}, bodies of {len(BODY)} bytes")
    empty = start("--queue", "q")
    print(f"{'start, empty':<52} {empty.started_in_s:>9.2f} s")
    empty.process.terminate()
    empty.process.wait()
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        await one_queue([], "memory", scale)
        await one_queue(["--data", one], "--data", scale)
        await many_connections([], "memory", scale)
        await many_connections(["--data", two], "--data", scale)
    await backlog(scale)
    in_process.measure(scale * 2)


if __name__ == "__main__":
    asyncio.run(main())
