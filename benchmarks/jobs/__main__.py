"""`python -m benchmarks.jobs [PART ...]`: cost and duration of jobs, with the whole app on the local stack.

Each part starts its own stacks. Services reply immediately, unless a part needs jobs that wait. The parts are:

- `counts`: requests, messages, episodes, executions and CPU per job
- `floor`: the same work without LUCIUS
- `latency`: one job at a time, 5 jobs per second, and saturation
- `backlog`: jobs posted while no service runs
- `growth`: jobs beside waiting jobs, and a job with a long history
- `hosts`: table requests with one and with four processes of the app
- `events`: age of events at their readers
- `gates`: ended and created jobs per second of one tenant with a quota
- `dashboard`: paint, data and frames in a browser
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.jobs import counts, dashboard, events, floor, gates, growth, hosts, latency, report
from benchmarks.measured import RECORDED, machine, measured, write

#: sizes: (quick, default, full)
_Sizes = tuple[int, int, int]
_JOBS: _Sizes = (4, 120, 500)
_ALONE: _Sizes = (3, 60, 200)
_PACED: _Sizes = (5, 150, 1500)
_SATURATED: _Sizes = (8, 400, 2_000)
_AT_ONCE: _Sizes = (4, 64, 500)
_BACKLOG: _Sizes = (8, 2_000, 2_000)
_WAITING = ((4,), (100, 1_000), (100, 1_000, 10_000))
_EVENTS: _Sizes = (16, 240, 1_200)
_PAIRS = ((0, 2), (0, 20, 100), (0, 20, 100, 500))
#: numbers of processes, of simultaneous ends, and of creations
_PROCESSES = ((1, 2), (1, 4, 10), (1, 4, 10))
_ENDS = ((8,), (50, 300), (50, 300, 1_000))
#: processes of the app
_HOSTS = ((2,), (1, 4), (1, 4))
#: number of times that each page is opened
_PAGES: _Sizes = (1, 5, 20)
_CREATIONS: _Sizes = (8, 300, 1_000)


def _counts(size: int) -> dict[str, Any]:
    rows = asyncio.run(counts.counts(_JOBS[size]))
    return {"jobs": rows, **asyncio.run(counts.groups(_JOBS[size]))}


def _floor(size: int) -> dict[str, Any]:
    return asyncio.run(floor.floor(_JOBS[size]))


def _latency(size: int) -> dict[str, Any]:
    return {
        "one at a time": asyncio.run(latency.alone(_ALONE[size])),
        f"{latency.GOAL_PER_S} a second": asyncio.run(latency.paced(_PACED[size])),
        "saturated": asyncio.run(latency.saturated(_SATURATED[size], _AT_ONCE[size])),
    }


def _backlog(size: int) -> dict[str, Any]:
    return asyncio.run(growth.backlog(_BACKLOG[size]))


def _growth(size: int) -> dict[str, Any]:
    return {
        "waiting": asyncio.run(growth.waiting(_WAITING[size])),
        "age": asyncio.run(growth.ageing(_PAIRS[size], jobs=2 if size == 0 else 10)),
    }


def _hosts(size: int) -> dict[str, Any]:
    return asyncio.run(hosts.requests(_HOSTS[size], _ALONE[size]))


def _events(size: int) -> dict[str, Any]:
    return asyncio.run(events.ages(_EVENTS[size], _AT_ONCE[size]))


def _gates(size: int) -> dict[str, Any]:
    rows = asyncio.run(gates.rates(_PROCESSES[size], at_once=_ENDS[size], creations=_CREATIONS[size]))
    return {"call_ms": gates.DELAY_S * 1000, "rows": rows}


def _dashboard(size: int) -> dict[str, Any]:
    return dashboard.dashboard(_PAGES[size])


PARTS: dict[str, Callable[[int], dict[str, Any]]] = {
    "counts": _counts,
    "floor": _floor,
    "latency": _latency,
    "backlog": _backlog,
    "growth": _growth,
    "hosts": _hosts,
    "events": _events,
    "gates": _gates,
    "dashboard": _dashboard,
}


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.jobs", description=__doc__.partition("\n\n")[2])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"part to measure: {', '.join(PARTS)} (default: all)")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--full", action="store_true", help="measure large sizes; each part takes less than ten minutes")
    size.add_argument("--quick", action="store_true", help="test the benchmark; the figures have no meaning")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument(
        "--record", action="store_true", help="record the figures for docs/explanation/performance.md and the cost page"
    )
    arguments = parser.parse_args()
    if arguments.quick and arguments.record:
        parser.error("--record is not allowed with --quick")
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"unknown part: {', '.join(sorted(unknown))}")
    print(machine(), flush=True)
    began, found = time.monotonic(), {}
    for name in arguments.parts or PARTS:
        print(f"{time.monotonic() - began:4.0f} s  {name} ...", file=sys.stderr, flush=True)
        found[name] = measured(PARTS[name](2 if arguments.full else 0 if arguments.quick else 1))
        print(report.TEXTS[name](found[name]["figures"]) + "\n", flush=True)
        if arguments.json:
            write(arguments.json, found)
        if arguments.record:
            write(RECORDED / "jobs.json", {name: found[name]}, keep=True)
    if "counts" in found and "floor" in found:
        print(report.ratio_to_floor(found["counts"]["figures"], found["floor"]["figures"]))
    print(f"{time.monotonic() - began:4.0f} s  done", file=sys.stderr)


if __name__ == "__main__":
    # SIGINT and SIGTERM end a run in the background too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
