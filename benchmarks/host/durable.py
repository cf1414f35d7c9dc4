"""The durable part of the benchmark, which drives the engine of a host in this process. Prints one JSON line."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

from functions_emulator.durable.client import Client
from functions_emulator.durable.engine import Engine
from functions_emulator.durable.runner import Runner
from functions_emulator.host import worker
from functions_emulator.host.functions_host import FunctionsHost

#: number of history events of a step: one TaskScheduled, and three of each of its two episodes (OrchestratorStarted,
#: TaskCompleted or EventRaised, OrchestratorCompleted)
_EVENTS_A_STEP = 7


class Measured:
    """A wrapper around the functions of the app, which counts their episodes and CPU seconds."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions
        self.episodes = 0
        self.seconds = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._functions, name)

    async def run_orchestrators(self, calls: Any) -> Any:
        self.episodes += len(calls)
        return await self._functions.run_orchestrators(calls)


def _time_calls(measured: Measured) -> None:
    """Adds up the CPU time of sync functions, which is that of the SDK and of the app's code."""
    original = worker._call_sync

    def call_sync(*arguments: Any) -> Any:
        began = time.thread_time()
        try:
            return original(*arguments)
        finally:
            measured.seconds += time.thread_time() - began

    worker._call_sync = call_sync


async def _start(app: Path, data: Path) -> tuple[FunctionsHost, Engine, Measured]:
    host = FunctionsHost(app, data_dir=data, host="127.0.0.1", port=0)
    await host.start()
    runner: Runner = host._runner
    measured = Measured(runner._functions)
    runner._functions = measured
    _time_calls(measured)
    return host, runner._engine, measured


async def run(app: Path, data: Path, instances: int, steps: int) -> dict[str, Any]:
    """Measures instances that start at the same time and run `steps` steps each."""
    host, engine, measured = await _start(app, data)
    client = Client(engine)
    for number in range(instances):
        client.start("job", str(number), json.dumps(json.dumps(steps)))
    return await _measure(host, engine, measured, instances, instances * steps)


async def grown(app: Path, data: Path, instances: int, events: int) -> dict[str, Any]:
    """Measures the last steps of instances with histories of about `events` events.

    The code of one instance makes its history. The others are copies of its rows under other ids.
    """
    before, rest = (events - 4) // _EVENTS_A_STEP, 4
    host, engine, _ = await _start(app, data)
    client = Client(engine)
    client.start("job", "0", json.dumps(json.dumps(before + rest)))
    for step in range(before):
        await _wait_until_idle(engine)
        client.raise_event("0", f"done:{step}", "null")
    await _wait_until_idle(engine)
    await host.stop()
    db = sqlite3.connect(data / "host.sqlite3")
    for number in range(1, instances):
        for table in ("instances", "history"):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "instance_id"]
            names = ", ".join(columns)
            db.execute(
                f"INSERT INTO {table} (instance_id, {names}) SELECT ?, {names} FROM {table} WHERE instance_id = '0'",
                (str(number),),
            )
    db.commit()
    db.close()
    host, engine, measured = await _start(app, data)
    client = Client(engine)
    for number in range(instances):
        client.raise_event(str(number), f"done:{before}", "null")
    return await _measure(host, engine, measured, instances, instances * rest)


async def _wait_until_idle(engine: Engine) -> None:
    while not engine.idle:  # noqa: ASYNC110  # nothing tells when an engine comes to rest
        await asyncio.sleep(0.001)


async def _measure(
    host: FunctionsHost, engine: Engine, measured: Measured, instances: int, steps: int
) -> dict[str, Any]:
    """Runs until all instances have ended. Sends an instance its next event when the instance waits for the event, as a
    service replies.
    """
    client = Client(engine)
    began, cpu = time.perf_counter(), time.process_time()
    done = asyncio.Event()
    ended = 0
    finish = engine.finish_episode

    def finish_and_reply(episode: Any, reply: Any) -> None:
        nonlocal ended
        finish(episode, reply)
        one = episode.instance.instance_id
        ended += reply.done
        for waiting in engine.reports.waiting_for(one):
            if waiting.startswith("event "):
                client.raise_event(one, waiting.removeprefix("event "), "null")
        if ended == instances:
            done.set()

    engine.finish_episode = finish_and_reply  # type: ignore[method-assign]
    await done.wait()
    seconds = time.perf_counter() - began
    history = len(client.history(client.status("0")))
    busy = time.process_time() - cpu
    await host.stop()
    return {
        "episodes_s": measured.episodes / seconds,
        "steps_s": steps / seconds,
        "history": history,
        "sdk_share": measured.seconds / busy,
        "cpu_ms": busy / measured.episodes * 1000,
        "sdk_ms": measured.seconds / measured.episodes * 1000,
    }


async def wait(app: Path, data: Path, instances: int) -> dict[str, Any]:
    """Measures the memory of a waiting instance. Each instance waits for an event or a timer."""
    host, engine, _ = await _start(app, data)
    client = Client(engine)
    before = _resident()
    for number in range(instances):
        client.start("patient", str(number), None)
    await _wait_until_idle(engine)
    each = (_resident() - before) / instances
    await host.stop()
    return {"instances": instances, "bytes_each": each}


def _resident() -> int:
    """Returns the resident memory in bytes. Linux only."""
    status = Path("/proc/self/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    sys.setswitchinterval(0.001)
    _, app, data, mode, *numbers = sys.argv
    work = {"run": run, "grown": grown, "wait": wait}[mode]
    print(json.dumps(asyncio.run(work(Path(app), Path(data), *map(int, numbers)))))
