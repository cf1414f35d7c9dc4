"""The figures of docs/explanation/performance.md, from the records in docs/explanation/performance.

With RECORD, `make bench`, `make bench-peers` and `make quality` write jobs.json, peers.json and quality.json. Two files
were made once, with parts of earlier commits or other programs:

- microsoft.json has the figures of programs that are not in this repository.
- gates-before.json has the part `gates` at the commit before decision 45.

The part `before` of quality.json has the figures of the commit before decision 63.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from scripts.generate.tables import markdown_table

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "performance"
_SHARES = ("p50", "p95", "p99")
_DELAYS = {
    "submit_ms": "submit: POST to 202",
    "scheduling_ms": "scheduling: POST to the directive read",
    "lease_ms": "lease: directive read to its ACK committed",
    "job_ms": "whole job",
}
_PACED = "5 a second"
#: number of processes that share a tenant's quota; file with the earlier figures
_SHARED_BY, _BEFORE = 4, "gates-before.json"
#: minimum share of Azurite's own rate at which Azurite is the limit
_AZURITES = 0.8
_STORES = {"memory": "in memory", "azurite": "on Azurite"}
#: process outside the system under measurement
_DRIVER = "driver"

Figures = Any


def _table(part: str, body: Callable[[Figures], str], file: str = "jobs.json") -> Callable[[], str]:
    """Makes a function that formats the figures of a part below their machine, date and commit.

    Without recorded figures, the function returns `Not recorded yet.`
    """

    def text() -> str:
        found = _recorded(file).get(part)
        if found is None:
            return "Not recorded yet."
        quoted = f"{found['machine']}; {found['date']}, commit {found['commit']}:"
        return f"{quoted}\n\n{body(found['figures'])}"

    return text


def _recorded(file: str) -> dict[str, Any]:
    path = FOLDER / file
    recorded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return recorded


def _counts(figures: Figures) -> str:
    rows = figures["jobs"]
    head = ("figure for a job of", *(f"{row['steps']} step{'s' * (row['steps'] > 1)}" for row in rows))
    lines = [(name, *(_number(row["per_job"][name]) for row in rows)) for name in rows[0]["per_job"]]
    used = [row["cpu_ms_per_job"] for row in rows]
    lines += [(f"CPU-ms: {name}", *(_number(each[name]) for each in used)) for name in used[0]]
    if "app_cpu_ms_per_job" in rows[0]:
        lines.append(("CPU-ms: app and SDKs within the host", *(_number(row["app_cpu_ms_per_job"]) for row in rows)))
    lines.append(("CPU-ms: all processes except the driver", *(f"**{_number(_system(each))}**" for each in used)))
    return markdown_table(head, lines)


def _groups(figures: Figures) -> str:
    rows = (
        (name, *map(_number, (one["executions_per_job"], one["wall_ms_per_job"], *_shares(one["wall_ms"]))))
        for name, one in figures["groups"].items()
    )
    return markdown_table(("scale group", "executions a job", "wall ms a job", *_execution_heads()), rows)


def _execution_heads() -> tuple[str, ...]:
    return tuple(f"execution {share}, ms" for share in _SHARES)


def _floor(figures: Figures) -> str:
    used = figures["cpu_ms_per_job"]
    lines = [(name, _number(ms)) for name, ms in used.items()]
    lines.append(("floor", f"**{_number(sum(used.values()))}**"))
    if (job := _three_steps()) is not None:
        lines.append(("a job, as a multiple of its floor", f"**{job / sum(used.values()):.2f} times**"))
    return markdown_table(("a 3-step job without LUCIUS", "CPU-ms"), lines)


def _latency(figures: Figures) -> str:
    rows = [
        (f"{name}, {_number(one['jobs_per_s'])} jobs/s", text, *map(_number, _shares(one[key])))
        for name, one in figures.items()
        for key, text in _DELAYS.items()
    ]
    return markdown_table(("load of 3-step jobs", "duration", *(f"{share}, ms" for share in _SHARES)), rows)


def _backlog(figures: Figures) -> str:
    memory = figures["resident_mb"]
    rows = [
        ("posted, jobs/s", _number(figures["posts_per_s"])),
        ("drained, jobs/s", _number(figures["drained_jobs_per_s"])),
        ("directives a job (3 if no attempt was repeated)", _number(figures["directives_per_job"])),
        ("failed jobs", _number(figures["failed"])),
        ("CPU-ms a drained job, sum of host, Azurite and bus", _number(figures["cpu_ms_per_drained_job"])),
        *(
            (f"memory, MB: {name}", " / ".join(_number(memory[when][name]) for when in memory))
            for name in memory["empty"]
        ),
    ]
    head = "value (memory before, during and after the backlog)"
    return markdown_table((f"figure for {figures['jobs']:,} 3-step jobs", head), rows)


def _growth(figures: Figures) -> str:
    waiting = (
        (
            f"{one['waiting']:,}",
            *(_number(one[key][share]) for key in ("submit_ms", "job_ms") for share in ("p50", "p99")),
            _number(sum(one["cpu_ms_per_job"].values())),
            *(_number(one["resident_mb"][name]) for name in ("host", "azurite", "bus")),
        )
        for one in figures["waiting"]
    )
    delays = ("submit p50, ms", "submit p99, ms", "whole job p50, ms", "whole job p99, ms")
    return markdown_table(("waiting jobs", *delays, "CPU-ms a job", "host, MB", "Azurite, MB", "bus, MB"), waiting)


def _events(figures: Figures) -> str:
    rows = [
        ("time from the transition to the reader", *map(_number, _shares(figures["age_ms"]))),
        ("the same, if the reader's request already waited", *map(_number, _shares(figures["met_ms"]))),
    ]
    rate, capacity = _number(figures["events_per_s"]), _number(figures["capacity_per_s"])
    head = f"{figures['events']:,} events at {rate} a second (maximum of this machine: {capacity})"
    return markdown_table((head, *(f"{share}, ms" for share in _SHARES)), rows)


def _hosts(figures: Figures) -> str:
    rows = [
        (row["processes"], _number(row["table reads"]), _number(row["table transactions"])) for row in figures["rows"]
    ]
    return markdown_table(("processes of the app", "table reads a 3-step job", "table transactions a 3-step job"), rows)


def _dashboard(figures: Figures) -> str:
    rows = [
        (
            f"`#/{name}`",
            *map(_number, (one[part][share] for part in ("paint_ms", "data_ms") for share in ("p50", "max"))),
        )
        for name, one in figures["views"].items()
    ]
    slowest = _number(max(figures["slowest_frame_ms"]))
    rows.append((f"slowest frame while {figures['rows']:,} jobs scroll", "", slowest, "", ""))
    head = f"view, opened {figures['times']} times"
    return markdown_table((head, "first paint p50, ms", "maximum, ms", "data p50, ms", "maximum, ms"), rows)


def _gates(store: str) -> Callable[[Figures], str]:
    """Returns the rates of one tenant with a quota over a store, next to the earlier rates."""

    def text(figures: Figures) -> str:
        before = _rates_before(store)
        rows = []
        for row in figures["rows"]:
            if row["store"] != store:
                continue
            old = before.get((row["load"], row["processes"]))
            cells = [_number(row[name]) for name in ("per_s", "p50_ms", "max_over_p50")]
            cells += [_number(row["transactions"] / row["jobs"]), f"{row['conflicts']:,}"]
            if store == "azurite":
                cells.append(_number(row["bare_per_s"]) if "bare_per_s" in row else "")
            rows.append((row["load"], str(row["processes"]), "" if old is None else _number(old["per_s"]), *cells))
        rates = ("jobs a second, before", "jobs a second")
        head = ("load", "processes", *rates, "p50, ms", "maximum over p50", "transactions a job", "conflicts")
        return markdown_table((*head, *(["Azurite alone, jobs a second"] if store == "azurite" else [])), rows)

    return text


def _rates_before(store: str) -> dict[tuple[str, int], Any]:
    rows = _recorded(_BEFORE).get("gates", {}).get("figures", {}).get("rows", [])
    return {(row["load"], row["processes"]): row for row in rows if row["store"] == store}


def _peers(figures: Figures) -> str:
    rows = []
    for name, one in figures.items():
        least, median, most = one["times_lucius"] or (0.0, 0.0, 0.0)
        spread = f"{median:.2f} ({least:.2f} to {most:.2f})" if one["times_lucius"] else ""
        rows.append((name, spread, *map(_number, (one["jobs_per_s"], one["cpu_ms_per_job"], one["job_ms"]))))
    ratio = "jobs/s divided by LUCIUS's, median (minimum to maximum)"
    return markdown_table(("system", ratio, "jobs/s", "CPU-ms a job", "one job at a time, p50 ms"), rows)


def _microsoft(figures: Figures) -> str:
    processes = ("host", "worker", "azurite", "bus")
    rows = []
    for name, used in figures.items():
        # the emulated host has no separate worker
        cells = [_number(used[process]) if process in used else "in the host" for process in processes]
        rows.append((name, *cells, f"**{_number(sum(used.values()))}**"))
    return markdown_table(("CPU-ms a 3-step job", *processes, "sum"), rows)


def goals() -> str:
    """Returns the table of goals, each with the recorded figure and `reached`, `not reached` or `not recorded`."""
    found = {part: each["figures"] for part, each in _recorded("jobs.json").items()}
    external = _recorded("peers.json").get("external", {}).get("figures", {})
    rows = []

    def goal(text: str, figure: float | None, reached: Callable[[float], bool]) -> None:
        verdict = "not recorded" if figure is None else "reached" if reached(figure) else "**not reached**"
        rows.append((text, "" if figure is None else _number(figure), verdict))

    delays = found.get("latency", {})
    alone, paced = delays.get("one at a time", {}).get("job_ms", {}), delays.get(_PACED, {})
    goal("duration of one job at a time, p50: under 100 ms", alone.get("p50"), lambda each: each < 100)
    scheduling, lease = paced.get("scheduling_ms", {}), paced.get("lease_ms", {})
    goal("scheduling at 5 jobs/s, p99: under 100 ms", scheduling.get("p99"), lambda each: each < 100)
    goal("lease at 5 jobs/s, p99: under 50 ms", lease.get("p99"), lambda each: each < 50)
    events = found.get("events", {}).get("age_ms", {})
    goal("age of an event when a waiting caller gets it, p99: under 500 ms", events.get("p99"), lambda each: each < 500)
    for name, most in (("DBOS", 0.67), ("minimal app", 1.5)):
        ratios = external.get(name, {}).get("times_lucius") or [None, None, None]
        text = f"{name} with an external worker, jobs/s divided by LUCIUS's jobs/s: at most {most}"
        goal(text, ratios[1], partial(operator.ge, most))
    views = found.get("dashboard", {}).get("views", {}).values()
    paint = max((each["paint_ms"]["p50"] for each in views), default=None)
    goal("first paint of a view of the dashboard, p50: under 1,000 ms", paint, lambda each: each < 1000)
    frame = max(found.get("dashboard", {}).get("slowest_frame_ms", []), default=None)
    goal("slowest frame while 10,000 jobs scroll on the dashboard: at most 50 ms", frame, lambda each: each <= 50)
    for store, where in _STORES.items():
        _quota_goals(goal, found.get("gates", {}).get("rows", []), store, where)
    return markdown_table(("goal", "recorded", "result"), rows)


def _quota_goals(
    goal: Callable[[str, float | None, Callable[[float], bool]], None], rows: list[Any], store: str, where: str
) -> None:
    """Adds the goals of four processes that share a tenant's quota."""
    shared = [row for row in rows if (row["store"], row["processes"]) == (store, _SHARED_BY)]
    ends = [row for row in shared if row["load"].endswith("jobs ended together")]
    of_quota = f"of a tenant with a quota, {_SHARED_BY} processes, {where}"
    if store == "memory":
        creations = [row["per_s"] for row in shared if row["load"].startswith("creations")]
        slowest = [row["max_over_p50"] for row in shared if "ended" in row["load"]]
        least = min((row["per_s"] for row in ends), default=None)
        goal(f"ended jobs a second {of_quota}: at least 150", least, lambda each: each >= 150)
        created = min(creations, default=None)
        goal(f"created jobs a second {of_quota}: at least 100", created, lambda each: each >= 100)
        text = f"maximum time to end a job over its median, {of_quota}: at most 3"
        goal(text, max(slowest, default=None), lambda each: each <= 3)
    else:
        before = _rates_before(store)
        pairs = [(row, old) for row in ends if (old := before.get((row["load"], row["processes"]))) is not None]
        gained = min((row["per_s"] / old["per_s"] for row, old in pairs), default=None)
        is_azurites = all(row["per_s"] >= _AZURITES * row["bare_per_s"] for row, _ in pairs)
        bound = f"at least 4, or each rate {100 * _AZURITES:.0f} % of Azurite's"
        text = f"ended jobs a second {of_quota}, over the rate before decision 45: {bound}"
        goal(text, gained, lambda each: each >= 4 or is_azurites)


def _quality() -> str:
    """Returns the table of both halves, before decision 63 and after it."""
    recorded = _recorded("quality.json")
    parts = [recorded[name] for name in ("before", "after") if name in recorded]
    columns = [(half, part) for half in ("development", "held_out") for part in parts]
    head = ("figure", *(f"{half.replace('_', '-')}, commit {part['commit']}" for half, part in columns))
    figures = [part["figures"][half] for half, part in columns]
    rows = []
    for name, text in _QUALITY.items():
        kinds = {kind for each in figures for kind in each.get(name, {})}
        for kind in sorted(kinds, key=lambda kind: (kind != "all", kind)):
            found = [each.get(name, {}).get(kind) for each in figures]
            words = f"{text}: {kind.replace('_', ' ')}"
            rows.append((words, *("" if value is None else _share(name, value) for value in found)))
    last = parts[-1]
    seed, questions = last["figures"]["seed"], last["figures"]["held_out"]["questions"]["all"]
    quoted = f"{last['machine']}; {last['date']}; {questions} questions in each half, held-out seed `{seed}`:"
    return f"{quoted}\n\n{markdown_table(head, rows)}"


def _share(name: str, value: float) -> str:
    return _number(value) if name == "cpu_s_a_page" else f"{100 * value:.3g} %"


def _three_steps() -> float | None:
    """Returns the CPU-ms of a 3-step job in all processes except the driver."""
    counted = _recorded("jobs.json").get("counts")
    return None if counted is None else _system(counted["figures"]["jobs"][-1]["cpu_ms_per_job"])


def _system(used: dict[str, float]) -> float:
    return sum(ms for name, ms in used.items() if name != _DRIVER)


def _shares(found: dict[str, float]) -> list[float]:
    return [found[share] for share in _SHARES]


def _number(value: float) -> str:
    """Returns a number with three significant digits, or with all digits before the point if those are more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


_QUALITY = {
    "character_error_rate": "character errors",
    "passage_top_1": "right first passage",
    "passage_top_3": "right passage among the first three",
    "answers_right": "right answers",
    "answers_right_model": "right answers with a model",
    "near_misses_null": "near misses answered with null",
    "cpu_s_a_page": "CPU seconds a page",
}

#: parts that `scripts.generate` writes
PARTS = {
    "performance-counts": _table("counts", _counts),
    "performance-groups": _table("counts", _groups),
    "performance-floor": _table("floor", _floor),
    "performance-latency": _table("latency", _latency),
    "performance-backlog": _table("backlog", _backlog),
    "performance-growth": _table("growth", _growth),
    "performance-hosts": _table("hosts", _hosts),
    "performance-events": _table("events", _events),
    "performance-dashboard": _table("dashboard", _dashboard),
    "performance-gates-azurite": _table("gates", _gates("azurite")),
    "performance-microsoft": _table("cpu", _microsoft, "microsoft.json"),
    "performance-peers": _table("peers", _peers, "peers.json"),
    "performance-external": _table("external", _peers, "peers.json"),
    "performance-goals": goals,
    "performance-quality": _quality,
}
