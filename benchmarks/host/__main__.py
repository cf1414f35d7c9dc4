"""`python -m benchmarks.host [--quick]`: requests, messages, episodes and steps per second, recovery, memory.

For HTTP, Service Bus and recovery this process sends to a host process. The other figures come from a child process
that drives the engine of its own host, so that they include no HTTP client.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.host.app import write_app

ROOT = Path(__file__).parents[2]


def start(kind: str, *arguments: str | Path, environment: dict[str, str] | None = None) -> tuple[Any, str, float]:
    """Starts a process. Returns the process, the URL of its ready line, and the seconds until that line."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "emulator", kind, "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    assert process.stdout is not None
    return process, process.stdout.readline().split()[1], time.perf_counter() - began


def stop(process: Any) -> None:
    process.terminate()
    process.wait()
    process.stdout.close()


def start_bare() -> Any:
    """Starts a bare server, which prints its URL."""
    return subprocess.Popen([sys.executable, "-m", "benchmarks.host.bare"], cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def http(app: Path, requests: int) -> list[str]:
    process, url, started = start("host", "--no-keys", "--app", app)
    lines = [f"start-up of the host: {started:.2f} s"]
    bare = start_bare()
    try:
        async with aiohttp.ClientSession() as session:
            least, rate = await _ask(session, bare.stdout.readline().strip(), requests)
            lines.append(f"HTTP by a bare aiohttp server: {rate:.0f} requests/s with 32 at once; alone {least:.2f} ms")
            for path in ("/async", "/sync"):
                alone, rate = await _ask(session, url + path, requests)
                lines.append(
                    f"HTTP {path}: {rate:.0f} requests/s with 32 at once; alone {alone:.2f} ms, "
                    f"{alone - least:.2f} ms of it added by the host"
                )
    finally:
        stop(process)
        stop(bare)
    return lines


async def _ask(session: aiohttp.ClientSession, url: str, requests: int) -> tuple[float, float]:
    """Returns the median latency in milliseconds of one request at a time, and requests per second of 32 at once."""

    async def ask() -> float:
        began = time.perf_counter()
        async with session.get(url) as response:
            await response.read()
        return (time.perf_counter() - began) * 1000

    semaphore = asyncio.Semaphore(32)

    async def many() -> None:
        async with semaphore:
            await ask()

    await asyncio.gather(*(ask() for _ in range(50)))
    alone = sorted([await ask() for _ in range(500)])
    began = time.perf_counter()
    await asyncio.gather(*(many() for _ in range(requests)))
    return alone[250], requests / (time.perf_counter() - began)


async def service_bus(folder: Path, messages: int) -> list[str]:
    from azure.servicebus import ServiceBusMessage
    from azure.servicebus.aio import ServiceBusClient

    queues = [{"Name": "work", "Properties": {}}]
    config = folder / "Config.json"
    config.write_text(json.dumps({"UserConfig": {"Namespaces": [{"Name": "n", "Queues": queues, "Topics": []}]}}))
    bus, address, _ = start("bus", "--admin-port", "0", "--config", config)
    connection = (
        f"Endpoint={address};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
        "UseDevelopmentEmulator=true;"
    )
    host, url, _ = start(
        "host",
        "--no-keys",
        "--app",
        write_app(folder / "bus-app", with_bus=True),
        environment={"BUS_CONNECTION": connection},
    )
    try:
        await asyncio.sleep(1.0)  # wait until the receiver has a link
        async with ServiceBusClient.from_connection_string(connection) as client:
            async with client.get_queue_sender("work") as sender:
                began = time.perf_counter()
                for first in range(0, messages, 500):
                    await sender.send_messages([ServiceBusMessage("x") for _ in range(min(500, messages - first))])
                async with aiohttp.ClientSession() as session:
                    while await _taken(session, url) < messages:  # noqa: ASYNC110  # the count is elsewhere
                        await asyncio.sleep(0.02)
                rate = messages / (time.perf_counter() - began)
        return [f"Service Bus trigger: {rate:.0f} messages/s of one queue"]
    finally:
        stop(host)
        stop(bus)


async def _taken(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}/taken") as response:
        return int(await response.text())


def durable(app: Path, data: Path, *arguments: str | int) -> dict[str, Any]:
    """Runs `benchmarks.host.durable` in a separate process."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.host.durable", str(app), str(data)]
    done = subprocess.run([*command, *map(str, arguments)], cwd=ROOT, stdout=subprocess.PIPE, check=True)
    numbers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.host", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="do a tenth of the work")
    scale = 10 if parser.parse_args().quick else 1
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, store on disk")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        app = write_app(folder / "app")
        for line in asyncio.run(http(app, 5000 // scale)):
            print(line)
        for line in asyncio.run(service_bus(folder, 2000 // scale)):
            print(line)
        for mode, instances, size in (
            ("run", 100, 1),
            ("run", 100, 3),
            ("run", 5000 // scale, 1),
            ("run", 5000 // scale, 3),
            ("grown", 100 // scale, 1000),
        ):
            numbers = durable(app, folder / f"data-{mode}-{instances}-{size}", mode, instances, size)
            sdk = f"{numbers['sdk_ms']:.2f} ms ({numbers['sdk_share']:.0%}) of it in the SDK and the app's code"
            print(
                f"{instances} instances at once, histories of {numbers['history']} events in the end: "
                f"{numbers['episodes_s']:.0f} episodes/s, {numbers['steps_s']:.0f} steps/s; "
                f"{numbers['cpu_ms']:.2f} ms of CPU an episode, {sdk}",
                flush=True,
            )
        numbers = durable(app, folder / "waiting", "wait", 10_000 // scale)
        print(f"{numbers['instances']} waiting instances: {numbers['bytes_each']:.0f} bytes of memory each")
        for line in asyncio.run(recovery(app, folder / "waiting", numbers["instances"] - 1)):
            print(line)


async def recovery(app: Path, data: Path, waiting: int) -> list[str]:
    """Measures the time until a host with waiting instances serves, and until an event ends one of them."""
    process, url, started = start("host", "--no-keys", "--app", app, "--data", data)
    try:
        began = time.perf_counter()
        one = f"{url}/runtime/webhooks/durabletask/instances/{waiting}"
        async with aiohttp.ClientSession() as session:
            async with session.post(f"{one}/raiseEvent/go", json={}) as response:
                assert response.status == 202, response.status
            while await _status(session, one) != "Completed":  # noqa: ASYNC110  # as a client has to
                await asyncio.sleep(0.005)
        answered = time.perf_counter() - began
    finally:
        stop(process)
    return [
        f"a host with these instances serves after {started:.2f} s, "
        f"and the first instance that gets an event ends {answered:.2f} s later"
    ]


async def _status(session: aiohttp.ClientSession, url: str) -> str:
    async with session.get(url) as response:
        return str((await response.json())["runtimeStatus"])


if __name__ == "__main__":
    main()
