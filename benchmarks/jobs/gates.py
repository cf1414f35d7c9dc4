"""Measures ends and creations per second of one tenant with a quota, by the number of processes.

In memory, a call to a store takes 7 to 16 ms, and the processes are objects in one event loop, so on one CPU. On
Azurite, each process is a process of the operating system. A baseline sends the same number of requests to Azurite
without LUCIUS.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import statistics
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.jobs.quota_process import in_memory, over_tables
from benchmarks.jobs.stack import ROOT, running
from emulator.up.environment import _ACCOUNT_KEY, ACCOUNT
from emulator.up.parent_death import end_with_parent

#: seconds per call to the memory stores
DELAY_S = 0.010
#: limits at which no job waits, and at which every job after the first waits
WIDE, SHUT = 100_000, 1
#: callers that create jobs at the same time, in all processes together
CALLERS = 64
#: ends per second of a steady stream, or this share of the rate of simultaneous ends if that is lower
STREAM_PER_S, STREAM_SHARE = 150.0, 0.5
_WARM_UP = 8
#: seconds until each process has received its command
_LEAD_S = 0.3
#: maximum bytes of a process's output line
_LINE = 2**26


Obeys = Callable[[Mapping[str, Any]], Awaitable[Any]]


@dataclass(frozen=True)
class Fleet:
    """Processes that share a store: the measured processes, and a process that prepares their work. Each process obeys
    commands.
    """

    measured: Sequence[Obeys]
    prepares: Obeys

    @property
    def size(self) -> int:
        return len(self.measured)

    async def ask(self, commands: Sequence[Mapping[str, Any]]) -> list[Any]:
        """Sends each measured process one command, at the same time."""
        return await asyncio.gather(*(obeys(one) for obeys, one in zip(self.measured, commands, strict=True)))


async def _obeyed(process: asyncio.subprocess.Process, command: Mapping[str, Any]) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(command).encode() + b"\n")
    if not (line := await process.stdout.readline()):
        raise SystemExit("a process of the benchmark ended")
    return json.loads(line)


@contextlib.asynccontextmanager
async def _spawned(connection: str, processes: int, limit: int) -> AsyncIterator[Fleet]:
    settings = json.dumps(over_tables(connection, own=uuid.uuid4().hex[:12], limit=limit))
    started: list[asyncio.subprocess.Process] = []
    try:
        for _ in range(processes + 1):
            one = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "benchmarks.jobs.quota_process", settings),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                limit=_LINE,
                preexec_fn=end_with_parent(signal.SIGKILL),
            )
            started.append(one)
        for one in started:
            assert one.stdout is not None
            if await one.stdout.readline() != b"ready\n":
                raise SystemExit("a process of the benchmark did not start")
        obeys = [partial(_obeyed, one) for one in started]
        yield Fleet(obeys[:-1], obeys[-1])
    finally:
        for one in started:
            with contextlib.suppress(ProcessLookupError):
                one.kill()
            await one.wait()


async def rates(
    processes: Sequence[int], *, at_once: Sequence[int], creations: int, stores: Sequence[str] = ("memory", "azurite")
) -> list[dict[str, Any]]:
    """Returns a row for each store, load and number of processes. Each number in `at_once` makes a load with this
    number of simultaneous ends.
    """
    rows = []
    with contextlib.ExitStack() as closing:
        connection = _connection(closing) if "azurite" in stores else ""
        for store in stores:
            for count in processes:
                for limit in (WIDE, SHUT):
                    async with _fleet(store, connection, count, limit) as fleet:
                        found = await (_wide(fleet, at_once, creations) if limit == WIDE else _shut(fleet, creations))
                    rows += [{"store": store, "processes": count, **row} for row in found]
    return rows


def _connection(closing: contextlib.ExitStack) -> str:
    url = closing.enter_context(running()).tables_url
    # no row of these jobs is long enough to be offloaded to a blob
    return (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_ACCOUNT_KEY};TableEndpoint={url};"
        f"BlobEndpoint={url}"
    )


@contextlib.asynccontextmanager
async def _fleet(store: str, connection: str, processes: int, limit: int) -> AsyncIterator[Fleet]:
    if store == "azurite":
        async with _spawned(connection, processes, limit) as fleet:
            yield fleet
        return
    logging.disable(logging.CRITICAL)
    try:
        obeys = [one.obey for one in in_memory(processes + 1, limit=limit, delay_s=DELAY_S)]
        yield Fleet(obeys[:-1], obeys[-1])
    finally:
        logging.disable(logging.NOTSET)


async def _wide(fleet: Fleet, at_once: Sequence[int], creations: int) -> list[dict[str, Any]]:
    """Measures the loads of a quota that has room for all jobs."""
    numbers = iter(range(10**9))
    await _created(fleet, [next(numbers) for _ in range(_WARM_UP * fleet.size)])
    found = []
    await _ended(fleet, await _prepared(fleet, [next(numbers) for _ in range(_WARM_UP * fleet.size)]))
    for jobs in at_once:
        row = await _ended(fleet, await _prepared(fleet, [next(numbers) for _ in range(jobs)]))
        found.append({"load": f"{jobs} jobs ended together", **row})
    per_s = min(STREAM_PER_S, found[-1]["per_s"] * STREAM_SHARE)
    row = await _ended(fleet, await _prepared(fleet, [next(numbers) for _ in range(at_once[-1])]), per_s=per_s)
    found.append({"load": "jobs ended in a stream", **row})
    row = await _created(fleet, [next(numbers) for _ in range(creations)])
    found.append({"load": "creations, admitted immediately", **row})
    return found


async def _shut(fleet: Fleet, creations: int) -> list[dict[str, Any]]:
    """Measures the load of a quota that has no room."""
    numbers = iter(range(10**9))
    await _created(fleet, [next(numbers) for _ in range(_WARM_UP * fleet.size)])
    row = await _created(fleet, [next(numbers) for _ in range(creations)])
    return [{"load": "creations of waiting jobs", **row}]


async def _prepared(fleet: Fleet, numbers: Sequence[int]) -> list[str]:
    results = await fleet.prepares({"do": "prepare", "numbers": numbers})
    assert len(results) == len(numbers), "a job was not admitted"
    return list(results)


async def _ended(fleet: Fleet, results: Sequence[str], *, per_s: float | None = None) -> dict[str, Any]:
    work = [(number / per_s if per_s else 0.0, result) for number, result in enumerate(results)]
    return await _measured(fleet, {"do": "end"}, work, at_once=len(work) if per_s is None else None)


async def _created(fleet: Fleet, numbers: Sequence[int]) -> dict[str, Any]:
    command = {"do": "create", "callers": max(1, CALLERS // fleet.size)}
    return await _measured(fleet, command, [(0.0, number) for number in numbers], at_once=CALLERS)


async def _measured(
    fleet: Fleet, command: Mapping[str, Any], work: Sequence[tuple[float, Any]], *, at_once: int | None
) -> dict[str, Any]:
    """Spreads `work` over the processes and measures it. `at_once` is the concurrency of the baseline without LUCIUS.
    None means no baseline.
    """
    answers = await fleet.ask(
        [{**command, "begin": _soon(), "work": work[place :: fleet.size]} for place in range(fleet.size)]
    )
    counts = sum((Counter(each["counts"]) for each in answers), Counter[str]())
    row = figures([span for each in answers for span in each["spans"]], counts)
    standing = await fleet.prepares({"do": "count"})
    # counted slots without a job: turns that were left to the sweeper
    row["late"] = standing["counted"] - standing["rows"]
    if counts["batches"] and at_once is not None:
        row["bare_per_s"] = await _bare(fleet, counts, len(work), at_once)
    return row


async def _bare(fleet: Fleet, counts: Mapping[str, int], jobs: int, at_once: int) -> float:
    """Returns jobs per second if a job were its requests alone: same number, size, concurrency and processes."""
    transactions = max(1, round(counts["batches"] / jobs))
    reads = round((counts["requests"] - counts["batches"]) / jobs)
    each = {
        "do": "bare",
        "callers": max(1, at_once // fleet.size),
        "chains": max(1, jobs // fleet.size),
        "rows": max(1, round(counts["rows"] / counts["batches"])),
        "bytes": counts["bytes"] // counts["batches"],
        "transactions": transactions,
        "reads": reads,
    }
    answers = await fleet.ask([{**each, "begin": _soon()} for _ in range(fleet.size)])
    spans = [span for answer in answers for span in answer["spans"]]
    return len(spans) * (transactions + reads) / _seconds(spans) / (counts["requests"] / jobs)


def _soon() -> float:
    return asyncio.get_running_loop().time() + _LEAD_S


def figures(spans: Sequence[tuple[float, float]], counts: Mapping[str, int]) -> dict[str, Any]:
    """Returns the figures of one load from begin and end of each operation (seconds) and requests of all processes."""
    took = [ended - began for began, ended in spans]
    median = statistics.median(took)
    return {
        "jobs": len(spans),
        "per_s": len(spans) / _seconds(spans),
        "p50_ms": median * 1000,
        "max_over_p50": max(took) / median,
        "transactions": counts.get("transactions", 0),
        "conflicts": counts.get("conflicts", 0),
        "requests": counts.get("requests", 0),
        "again": counts.get("again", 0),
    }


def _seconds(spans: Sequence[tuple[float, float]]) -> float:
    return max(ended for _, ended in spans) - min(began for began, _ in spans)
