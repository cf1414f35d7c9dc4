"""`python -m benchmarks.peers [SYSTEM ...]`: the same 3-step job on LUCIUS, DBOS, Celery and Restate, in turn.

The systems are `LUCIUS`, `DBOS` (with PostgreSQL), `Celery` (with Redis) and `Restate` (its server from npm). In each
round each system starts in an empty folder and runs jobs to warm up. Then the system runs jobs one at a time, then jobs
of 64 concurrent callers, and ends.

Steps are functions of the peer's own process, which do nothing. With `--worker external` the steps are messages to one
external worker, which replies to each with an ACK and a RESULT over the system's own channel. This option adds the
system `minimal app`, an app for such a job that is handwritten on Durable Functions.

The benchmark skips an unavailable peer, and prints the reason. Missing programs go into
`.lucius/peers`, and nothing is installed on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.jobs.tables import percentiles, text_table
from benchmarks.measured import RECORDED, machine, measured, write
from benchmarks.peers.environment import CannotBeHad
from benchmarks.peers.systems import SYSTEMS

AT_ONCE = 64
_WARM_UP = 32
#: jobs at saturation: enough for about ten seconds
_JOBS = {"LUCIUS": 200, "minimal app": 200, "DBOS": 200, "Celery": 800, "Restate": 2000}
_ALONE = 30


async def turn(name: str, folder: Path, *, external: bool, quick: bool) -> dict[str, Any]:
    """Runs one system for one round. Returns jobs/s and CPU-ms per job at saturation, and ms of a job alone. Raises
    CannotBeHad.
    """
    jobs, alone = (8, 3) if quick else (_JOBS[name], _ALONE)
    async with SYSTEMS[name](folder, external=external) as system:
        await system.run(8 if quick else _WARM_UP, 8)
        idle = await system.run(alone, 1)
        cpu = system.cpu_s()
        busy = await system.run(jobs, AT_ONCE)
        cpu = system.cpu_s() - cpu
    return {
        "jobs_per_s": jobs / busy.took_s,
        "cpu_ms_per_job": cpu * 1000 / jobs,
        "job_ms": percentiles(ms(idle.each_s)),
    }


def ms(seconds: Sequence[float]) -> list[float]:
    return [each * 1000 for each in seconds]


def summary(rounds: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Returns by system its medians, and its jobs/s as multiples of LUCIUS's: (minimum, median, maximum)."""
    found = {}
    for name, turns in ((name, turns) for name, turns in rounds.items() if turns):
        pairs = zip(turns, rounds.get("LUCIUS", ()), strict=False)
        ratios = [one["jobs_per_s"] / ours["jobs_per_s"] for one, ours in pairs]
        found[name] = {
            "rounds": len(turns),
            "jobs_per_s": statistics.median(one["jobs_per_s"] for one in turns),
            "cpu_ms_per_job": statistics.median(one["cpu_ms_per_job"] for one in turns),
            "job_ms": statistics.median(one["job_ms"]["p50"] for one in turns),
            "times_lucius": [min(ratios), statistics.median(ratios), max(ratios)] if ratios else [],
        }
    return found


def text(found: dict[str, Any]) -> str:
    rows = []
    for name, one in found.items():
        ratio = "{1:.2f} ({0:.2f} to {2:.2f})".format(*one["times_lucius"]) if one["times_lucius"] else ""
        rows.append([name, one["jobs_per_s"], ratio, one["cpu_ms_per_job"], one["job_ms"]])
    head = ["medians of the rounds", "jobs/s", "times LUCIUS (least to most)", "CPU-ms a job", "one at a time, p50 ms"]
    return text_table(head, rows)


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__.partition("\n\n")[2])
    parser.add_argument(
        "systems",
        nargs="*",
        metavar="SYSTEM",
        help=f"system: {', '.join(SYSTEMS)} (default: all; minimal app only with --worker external)",
    )
    parser.add_argument(
        "--worker", choices=("local", "external"), default="local", help="place where steps run (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=3, help="number of rounds of each system (default: 3)")
    parser.add_argument("--quick", action="store_true", help="test the benchmark; the figures have no meaning")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file too")
    parser.add_argument("--record", action="store_true", help="record the figures for docs/explanation/performance.md")
    arguments = parser.parse_args()
    if arguments.quick and arguments.record:
        parser.error("--record is not allowed with --quick")
    if unknown := set(arguments.systems) - SYSTEMS.keys():
        parser.error(f"unknown system: {', '.join(sorted(unknown))}")
    external = arguments.worker == "external"
    expected = arguments.systems or [name for name in SYSTEMS if external or name != "minimal app"]
    names = [name for name in SYSTEMS if name in expected]
    print(machine(), flush=True)
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    began = time.monotonic()
    for number in range(1 if arguments.quick else arguments.rounds):
        for name in [each for each in names if each in rounds]:
            print(f"{time.monotonic() - began:4.0f} s  round {number + 1}: {name} ...", file=sys.stderr, flush=True)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    one = asyncio.run(turn(name, Path(folder), external=external, quick=arguments.quick))
            except CannotBeHad as reason:
                print(f"{name} is left out: {reason}", flush=True)
                del rounds[name]
                continue
            rounds[name].append(one)
            print(
                f"round {number + 1}: {name:<8} {one['jobs_per_s']:6.1f} jobs/s, "
                f"{one['cpu_ms_per_job']:6.1f} CPU-ms a job, one at a time p50 {one['job_ms']['p50']:.1f} ms",
                flush=True,
            )
    found = summary(rounds)
    print("\n" + text(found))
    print(f"{time.monotonic() - began:4.0f} s  done", file=sys.stderr)
    part = {"external" if external else "peers": measured(found)}
    if arguments.json:
        write(arguments.json, part)
    if arguments.record:
        write(RECORDED / "peers.json", part, keep=True)


if __name__ == "__main__":
    # SIGINT and SIGTERM end a run in the background too
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
