"""Formats the figures of each part as tables of text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.jobs.tables import PERCENTILES, text_table
from benchmarks.scale.job import Job

_P = [f"p{share}" for share in PERCENTILES]
_DELAYS = {
    "submit_ms": "submit: POST to 202",
    "scheduling_ms": "scheduling: POST to the directive read",
    "lease_ms": "lease: directive read to its ACK committed",
    "job_ms": "whole job",
}
#: processes that do not belong to the system under measurement
OUTSIDE = ("driver",)


def counts(figures: dict[str, Any]) -> str:
    rows = figures["jobs"]
    jobs = [Job(row["steps"]) for row in rows]
    bounds = {
        "table writes": [job.table_writes for job in jobs],
        "table reads": [job.table_reads for job in jobs],
        "directives": [job.steps for job in jobs],
        "replies": [2 * job.steps for job in jobs],
        "episodes": [job.episodes for job in jobs],
        "activities": [job.activities for job in jobs],
    }
    head = ["a job of", *(f"{row['steps']} step{'s' * (row['steps'] > 1)}" for row in rows)]
    lines: list[list[Any]] = []
    for name in rows[0]["per_job"]:
        cells = [f"{row['per_job'][name]:.2f}" for row in rows]
        if name in bounds:
            cells = [f"{cell} (bound {bound})" for cell, bound in zip(cells, bounds[name], strict=True)]
        lines.append([name, *cells])
    processes = rows[0]["cpu_ms_per_job"]
    lines += [[f"CPU-ms: {name}", *(row["cpu_ms_per_job"][name] for row in rows)] for name in processes]
    lines.append(["of the host's CPU-ms: app and SDKs", *(row.get("app_cpu_ms_per_job", "") for row in rows)])
    lines.append(["CPU-ms: all but the driver", *(cpu_of_all(row["cpu_ms_per_job"]) for row in rows)])
    lines.append(["jobs/s", *(row["jobs_per_s"] for row in rows)])
    parts = [[name, ms] for name, ms in figures["host_cpu_ms_per_job"].items()]
    steps = [[name, f"{share:.1%}"] for name, share in figures["host_steps"].items()]
    groups = [
        [name, one["executions_per_job"], one["wall_ms_per_job"], *(one["wall_ms"].get(p, 0.0) for p in _P)]
        for name, one in figures["groups"].items()
    ]
    return "\n\n".join(
        (
            text_table(head, lines),
            text_table(["the host's CPU-ms for a 3-step job, by owner of the code", ""], parts),
            text_table(["the largest steps of its profile", ""], steps),
            text_table(["one 3-step job at a time, in Flex's groups", "executions", "wall ms a job", *_P], groups),
        )
    )


def floor(figures: dict[str, Any]) -> str:
    used = figures["cpu_ms_per_job"]
    return text_table(["floor of a 3-step job", "CPU-ms"], [*used.items(), ("sum", sum(used.values()))])


def ratio_to_floor(counted: dict[str, Any], floors: dict[str, Any]) -> str:
    """Returns the ratio of the CPU of a 3-step job to the CPU of its floor, as one line."""
    [used] = [cpu_of_all(row["cpu_ms_per_job"]) for row in counted["jobs"] if row["steps"] == 3]
    least = sum(floors["cpu_ms_per_job"].values())
    return f"a 3-step job takes {used / least:.2f} times the CPU of its floor ({used:.0f} and {least:.0f} ms)"


def cpu_of_all(used: dict[str, float]) -> float:
    """Returns the CPU-ms per job of all processes except the driver."""
    return sum(ms for name, ms in used.items() if name not in OUTSIDE)


def hosts(figures: dict[str, Any]) -> str:
    """Returns the table of requests, with a row for each number of processes."""
    return text_table(list(figures["rows"][0]), [list(row.values()) for row in figures["rows"]])


def latency(figures: dict[str, Any]) -> str:
    tables = []
    for name, one in figures.items():
        head = [f"{name}: {one['jobs']} jobs, {one['jobs_per_s']:.1f}/s, {one['refused']} refused; ms", *_P]
        rows = [[text, *(one[key].get(p, "") for p in _P)] for key, text in _DELAYS.items()]
        tables.append(text_table(head, rows))
    return "\n\n".join(tables)


def backlog(figures: dict[str, Any]) -> str:
    one = figures
    rows = [
        ["posted/s", one["posts_per_s"]],
        *([f"submit {p} ms", one["submit_ms"][p]] for p in _P),
        ["drained jobs/s", one["drained_jobs_per_s"]],
        ["directives a job", one["directives_per_job"]],
        ["jobs that failed", one["failed"]],
        ["CPU-ms a drained job (app, Azurite, bus)", one["cpu_ms_per_drained_job"]],
        *(
            [f"memory when {when}, MB: {name}", mb]
            for when, by in one["resident_mb"].items()
            for name, mb in by.items()
        ),
    ]
    return text_table([f"a backlog of {one['jobs']} 3-step jobs", ""], rows)


def growth(figures: dict[str, Any]) -> str:
    waiting = [
        [
            one["waiting"],
            *(one[key][p] for key in ("submit_ms", "job_ms") for p in ("p50", "p99")),
            sum(one["cpu_ms_per_job"].values()),
            *(one["resident_mb"][name] for name in ("host", "azurite", "bus")),
        ]
        for one in figures["waiting"]
    ]
    age = [
        [one["events"], *(one[key][p] for key in ("read_ms", "end_ms") for p in ("p50", "p99"))]
        for one in figures["age"]
    ]
    delays = ["submit p50", "p99", "job p50", "p99"]
    return "\n\n".join(
        (
            text_table(["waiting jobs", *delays, "CPU-ms a job", "MB: host", "Azurite", "bus"], waiting),
            text_table(["events of a job", "read p50", "p99", "RESULT to read of the job's end p50", "p99"], age),
        )
    )


def events(figures: dict[str, Any]) -> str:
    one = figures
    head = [f"{one['events']} events of {one['readers']} tenants at {one['events_per_s']:.1f}/s; ms", *_P]
    rows = [
        ["age: transition to the bytes at the reader", *(one["age_ms"].get(p, "") for p in _P)],
        ["age: events while a request of the reader waits", *(one["met_ms"].get(p, "") for p in _P)],
    ]
    bound = f"the machine makes {one['capacity_per_s']:.1f} events/s at most, {one['events_per_job']:.1f} a job"
    return f"{text_table(head, rows)}\n{bound}"


def gates(figures: dict[str, Any]) -> str:
    names = ["per_s", "p50_ms", "max_over_p50", "transactions", "conflicts", "requests", "again", "late", "bare_per_s"]
    lines = [
        [f"{row['store']}, {row['load']}", row["processes"], row["jobs"], *(row.get(name, "") for name in names)]
        for row in figures["rows"]
    ]
    head = ["one tenant with a quota", "processes", "jobs", "per second", "p50 ms", "max/p50", *names[3:]]
    return text_table([*head[:-1], "per second without LUCIUS"], lines)


def dashboard(figures: dict[str, Any]) -> str:
    head = [f"each opened {figures['times']} times, without a cache", "paint ms p50", "max", "data ms p50", "max"]
    head += ["files", "bytes"]
    lines = [
        [name, *one["paint_ms"].values(), *one["data_ms"].values(), one["files"], one["bytes"]]
        for name, one in figures["views"].items()
    ]
    slowest, slow = max(figures["slowest_frame_ms"]), sum(figures["slow_frames"])
    frames = f"{figures['rows']:,} rows scroll: slowest frame {slowest:.0f} ms, {slow} frames over the goal"
    return f"{text_table(head, lines)}\n{frames}"


TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "counts": counts,
    "floor": floor,
    "latency": latency,
    "backlog": backlog,
    "growth": growth,
    "hosts": hosts,
    "events": events,
    "gates": gates,
    "dashboard": dashboard,
}
