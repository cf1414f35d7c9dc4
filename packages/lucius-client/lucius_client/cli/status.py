"""`lucius status`: one screen with the problems, and the state of jobs, incidents, and the parts of LUCIUS."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from lucius_client.cli import rendering
from lucius_client.cli.exits import Exit
from lucius_client.cli.options import Tenant
from lucius_client.cli.rendering import Json, one_line
from lucius_client.cli.session import Session, with_session
from lucius_client.cli.tables import Column, Listing, age, age_of, print_table

_STYLES = {"ok": "bold green", "warning": "bold yellow", "critical": "bold red"}
_MARKS = {"ok": "OK", "warning": "WARNING", "critical": "CRITICAL"}
_LABEL_WIDTH = 11
#: maximum problems on a screen, with four lines each; a pipe gets all problems of the response, up to 20
MAX_SHOWN = 4
#: characters for few to many directives on a lane
_HEAT = " ▁▂▃▄▅▆▇█"

STATUS = Listing("states", "level", ())
SERVICES = Listing(
    "services",
    "service",
    (
        Column("service", "service", room=8),
        Column("state", lambda row: _state(row)),
        Column("last reply", "last_reply", drop=3),
        Column("waiting", "waiting", drop=1),
        Column("oldest", lambda row: _seconds(row["oldest_seconds"]) if row["waiting"] else None, drop=2),
        Column("in flight", "in_flight", drop=4),
        Column("ack p95", lambda row: _p95(row["ack"]), drop=6),
        Column("result p95", lambda row: _p95(row["result"]), drop=5),
    ),
)
QUOTAS = Listing(
    "quotas",
    "id",
    (
        Column("quota", "name", room=12),
        Column("state", lambda row: _quota_state(row)),
        Column("active", lambda row: _of_limit(row), drop=2),
        Column("waiting", "waiting", drop=1),
        Column("oldest", lambda row: _seconds(row["oldest_wait_seconds"]), drop=3),
    ),
)


@with_session
def status(session: Session, tenant: Tenant = None) -> None:
    """Show the problems on one screen, with the next commands.

    Exit codes:
    0: no problem
    1: a problem needs an operator
    4: the API does not respond
    """
    found = session.client.dashboard_metrics(tenant=tenant).plain()
    if session.for_people:
        _show(rendering.console(), found)
    else:
        session.show(STATUS, [found["health"]], found)
    if found["problems"]:
        raise typer.Exit(Exit.NOT_WELL)


def _show(screen: Console, found: Json) -> None:
    # FORCE_COLOR makes rich treat a pipe as a terminal; it gets colours and stays a pipe
    width = screen.width if screen.file.isatty() else None
    now = datetime.fromisoformat(found["at"])
    for line in _lines(found, now, width, MAX_SHOWN if width is not None else len(found["problems"])):
        screen.print(line, soft_wrap=True)
    services = [
        {**each, "last_reply": age_of(each["answered_at"], now) if each["answered_at"] else None}
        for each in found["services"]
    ]
    for listing, rows in ((SERVICES, services), (QUOTAS, found["quotas"])):
        if rows:
            screen.print()
            print_table(screen, listing, rows)


def _lines(found: Json, now: datetime, width: int | None, max_problems: int) -> Iterator[Text]:
    """Yields the lines above the tables, each at most `width` characters long, except commands."""
    problems = found["problems"][:max_problems]
    if not found["problems"]:
        yield from _wrapped(found["health"]["sentence"], "ok", width)
    for problem in problems:
        yield from _wrapped(problem["sentence"], problem["level"], width)
        if problem["consequence"]:
            yield from _indented(problem["consequence"], width)
        since = f"since {_exact(problem['since'])}" if problem["since"] else None
        if since:
            yield from _indented(since, width)
        if problem["command"]:
            # not shortened, so that it can be copied
            yield Text("  $ " + one_line(problem["command"]), style="bold")
    if left := len(found["problems"]) - len(problems):
        yield from map(Text, _fill(f"... and {left} more; `lucius status | cat` shows up to 20", width, "  "))
    yield Text()
    for label, value in _facts(found, now):
        yield from _labelled(label, value, width)


def _facts(found: Json, now: datetime) -> Iterator[tuple[str, str]]:
    jobs, sweeper, incidents = found["jobs"], found["sweeper"], found["incidents"]
    # the counts of all tenants are those of the last sweep
    old = f", {age_of(jobs['counted_at'], now)} ago" if found["tenant"] is None and jobs["counted_at"] else ""
    yield "Jobs", (_counts(jobs["active"]) or "none") + (" (at least)" if jobs["at_least"] else "") + old
    yield "Last hour", _last_hour(found["last_hour"])
    if found["lanes"] is not None:
        yield "Lanes", _lanes(found["lanes"])
    newest = incidents["newest"]
    count = (
        f"{incidents['open']}{' or more' if incidents['at_least'] else ''} open"
        if incidents["open"] or incidents["at_least"]
        else "none open"
    )
    yield "Incidents", count + (f", newest {age_of(newest['opened_at'], now)} ago" if newest else "")
    swept = sweeper["last_pass_at"]
    yield "Sweeper", (f"{age_of(swept, now)} ago{', late' if sweeper['late'] else ''}" if swept else "no sweep yet")
    yield "Parts", ", ".join(f"{name} {each['status']}" for name, each in found["dependencies"].items())
    yield "Tenant", found["tenant"] or "all"


def _last_hour(minutes: Iterable[Json]) -> str:
    ended: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for minute in minutes:
        ended.update(minute["ended"])
        reasons.update(minute["reasons"])
    if not ended:
        return "no job ended"
    why = f" (most: {one_line(reasons.most_common(1)[0][0])})" if reasons else ""
    return _counts(ended) + why


def _lanes(lanes: list[Json]) -> str:
    waiting = [int(each["waiting"]) for each in lanes]
    if not any(waiting):
        return "no directive waits for an ACK"
    most, oldest = max(waiting), max(lanes, key=lambda each: each["oldest_seconds"])
    steps = len(_HEAT) - 1
    heat = "".join(_HEAT[-(-each * steps // most)] for each in waiting)
    return (
        f"[{heat}] {sum(waiting):,} waiting, the oldest {_seconds(oldest['oldest_seconds'])} on lane {oldest['lane']}"
    )


def _counts(counts: dict[str, int]) -> str:
    return "  ".join(f"{number:,} {name}" for name, number in counts.items() if number)


def _state(row: Json) -> Text:
    return Text("silent", style="red") if row["silent_since"] else Text("ok", style="green")


def _quota_state(row: Json) -> Text:
    states = [name for name in ("held", "throttled") if row[name]]
    if row["breaker"]:
        states.append(f"breaker {row['breaker'].lower().replace('_', ' ')}")
    return Text(", ".join(states), style="yellow") if states else Text("near limit")


def _of_limit(row: Json) -> str:
    return f"{row['active']}/{row['max_active']}" if row["max_active"] is not None else str(row["active"])


def _p95(latency: Json | None) -> str | None:
    if latency is None:
        return None
    milliseconds = latency["p95_ms"]
    return f"{milliseconds} ms" if milliseconds < 1000 else _seconds(milliseconds / 1000)


def _seconds(seconds: Any) -> str | None:
    if seconds is None:
        return None
    since = datetime.fromtimestamp(0).astimezone()
    return age(since, datetime.fromtimestamp(float(seconds)).astimezone())


def _exact(instant: str) -> str:
    return instant.partition(".")[0].removesuffix("Z") + "Z"


def _wrapped(text: str, level: str, width: int | None) -> Iterator[Text]:
    mark = _MARKS[level]
    first, *others = _fill(f"{mark}  {one_line(text)}", width, "  ")
    yield Text(mark, style=_STYLES[level]) + Text(first[len(mark) :], style="bold")
    yield from (Text(each, style="bold") for each in others)


def _indented(text: str, width: int | None) -> Iterator[Text]:
    yield from map(Text, _fill("  " + one_line(text), width, "  "))


def _labelled(label: str, text: str, width: int | None) -> Iterator[Text]:
    first, *others = _fill(label.ljust(_LABEL_WIDTH) + one_line(text), width, " " * _LABEL_WIDTH)
    yield Text(first[:_LABEL_WIDTH], style="bold") + Text(first[_LABEL_WIDTH:])
    yield from map(Text, others)


def _fill(text: str, width: int | None, indent: str) -> list[str]:
    if width is None:
        return [text]
    return textwrap.wrap(
        text, max(width, 2 * _LABEL_WIDTH), subsequent_indent=indent, replace_whitespace=False, drop_whitespace=True
    ) or [text]
