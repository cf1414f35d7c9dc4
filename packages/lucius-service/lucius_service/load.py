"""Sends directives to a service at a steady rate, and measures the latency of the replies. `load_jobs` sends jobs.

A directive is sent at its due time, even if earlier directives have no RESULT. Latencies count from the due time, so
latencies grow if a service is slower than the rate.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lucius_service.contract.bench import Bench, Options

#: percentiles of latency in the report
PERCENTILES = (50, 90, 95, 99, 100)


class Kind(NamedTuple):
    """Names of the measurements of one kind of load."""

    #: names of the first reply and of the end
    first: str
    last: str
    #: unit of the rate
    unit: str


DIRECTIVES = Kind("ack", "result", "RESULT")


@dataclass(frozen=True)
class Plan:
    """The rate, the number and the mix of the directives or jobs to send."""

    #: directives or jobs per second
    rate: float
    count: int
    #: fields of directives or complete requests, each with its share
    mix: list[tuple[dict[str, Any], float]]
    #: seed of the random choice from the mix
    seed: int = 0


@dataclass
class Measured:
    """The latencies and outcomes of the sent directives or jobs."""

    sent: int
    kind: Kind = DIRECTIVES
    #: seconds from the due time of each to its first reply
    first_s: list[float] = field(default_factory=list)
    last_s: list[float] = field(default_factory=list)
    #: counts by status and error code
    outcomes: dict[str, int] = field(default_factory=dict)
    #: seconds from the first due time to the last end
    took_s: float = 0.0

    @property
    def lost(self) -> int:
        """Returns the number of directives without a RESULT, or of jobs that were not accepted or have not ended."""
        return self.sent - len(self.last_s)

    def count(self, *outcome: str | None) -> None:
        """Counts an outcome. The outcome's name has the parts that are not None."""
        name = " ".join(filter(None, outcome))
        self.outcomes[name] = self.outcomes.get(name, 0) + 1

    def describe(self) -> dict[str, Any]:
        """Returns counts, ended items per second, and percentiles in seconds, as JSON."""
        return {
            "sent": self.sent,
            "lost": self.lost,
            "outcomes": dict(sorted(self.outcomes.items())),
            f"{self.kind.last}s_per_s": round(len(self.last_s) / self.took_s, 3) if self.took_s else 0.0,
            f"{self.kind.first}_s": percentiles(self.first_s),
            f"{self.kind.last}_s": percentiles(self.last_s),
        }

    def table(self) -> str:
        """Returns the measurements as a table."""
        shown, kind = self.describe(), self.kind
        outcomes = ", ".join(f"{count} {name}" for name, count in shown["outcomes"].items()) or f"no {kind.unit}"
        rate = f"{shown[f'{kind.last}s_per_s']:g} {kind.unit}s a second"
        lines = [f"{self.sent} sent: {outcomes}, {self.lost} lost; {rate}"]
        for name in (f"{kind.first}_s", f"{kind.last}_s"):
            values = "  ".join(f"p{share} {seconds:.3f}" for share, seconds in shown[name].items())
            lines.append(f"{name:<10} {values}")
        return "\n".join(lines)


async def drive(options: Options, plan: Plan) -> Measured:
    """Sends all directives of the plan and waits at most `result_s` seconds for their RESULTs. Raises NotRun."""
    async with Bench(options) as bench:
        began = time.monotonic()
        due: dict[str, float] = {}
        async for at, sample in when_due(plan, began):
            directive = bench.directive(input_ref=sample["input_ref"], payload=sample.get("payload"))
            due[directive["jobId"]] = at
            await bench.send(directive)
        await bench.until(lambda: _ended(bench, due), options.result_s)
        return _measure(bench, due, began)


async def when_due(plan: Plan, began: float) -> AsyncIterator[tuple[float, dict[str, Any]]]:
    """Waits until each due time, then yields the due time by `time.monotonic` with its sample."""
    generator = random.Random(plan.seed)
    samples, shares = [sample for sample, _ in plan.mix], [share for _, share in plan.mix]
    for number in range(plan.count):
        at = began + number / plan.rate
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        (sample,) = generator.choices(samples, shares)
        yield at, sample


def percentiles(values: list[float]) -> dict[int, float]:
    """Returns the percentiles of the values, by percentage, or {} without values.

    A percentile is the smallest value that is at least as large as this percentage of the values.
    """
    ordered = sorted(values)
    return {share: round(ordered[max(0, -(-len(ordered) * share // 100) - 1)], 4) for share in PERCENTILES if ordered}


def _ended(bench: Bench, due: dict[str, float]) -> bool:
    jobs = {reply.body.get("jobId") for reply in bench.replies if reply.body.get("type") == "RESULT"}
    return due.keys() <= jobs


def _measure(bench: Bench, due: dict[str, float], began: float) -> Measured:
    measured = Measured(len(due))
    seen: set[tuple[str, str]] = set()
    for reply in bench.replies:
        job, kind = str(reply.body.get("jobId")), str(reply.body.get("type"))
        if job not in due or kind == "HEARTBEAT" or (job, kind) in seen:
            continue
        seen.add((job, kind))
        if kind == "ACK":
            measured.first_s.append(reply.at - due[job])
        else:
            measured.last_s.append(reply.at - due[job])
            measured.took_s = max(measured.took_s, reply.at - began)
            measured.count(str(reply.body.get("status")), (reply.body.get("error") or {}).get("code"))
    return measured


def read_mix(text: str) -> tuple[str, float]:
    """Parses `FILE` or `FILE=SHARE`. Raises ValueError if the share is not a number above 0."""
    name, separator, share = text.rpartition("=")
    if not separator:
        return text, 1.0
    with suppress(ValueError):
        if 0 < float(share) < float("inf"):
            return name, float(share)
    raise ValueError(f"{text}: the share must be a number above 0")


def as_json(measured: Measured) -> str:
    return json.dumps(measured.describe(), indent=1)
