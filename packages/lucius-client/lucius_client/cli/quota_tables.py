"""Tables of `lucius quota`, and text for the effect of a change."""

from __future__ import annotations

from typing import Any

from lucius_client.cli.rendering import Json
from lucius_client.cli.tables import Column, Listing, to_second


def change_line(change: Json) -> str:
    """Formats the effect of a change, or of its preview, on one line."""
    quota = change["quota"]
    gate = quota["name"] or f"tenant {quota['tenant']}" + "".join(
        f", {name} {quota[name]}" for name in ("type", "source") if quota[name] is not None
    )
    if not change["changed"]:
        return f"{gate}: unchanged ({summary(change['after'])})"
    before, after = summary(change["before"]), summary(change["after"])
    # a reset of a closed breaker deletes only the breaker's counts
    line = f"{gate}: {before} -> {after}" if before != after else f"{gate}: changed, the limits stay ({after})"
    if not change.get("dryRun"):
        return line
    if (counted := change.get("released")) is None:
        return f"{line} (dry run)"
    return f"{line} (dry run: {_counted(counted)} jobs start, {_counted(change['held_back'])} continue to wait)"


def _counted(number: int) -> str:
    """Formats a number of jobs. The API counts to 1,000."""
    return "1,000 or more" if number >= 1000 else str(number)


def summary(state: Json) -> str:
    """Formats the limits of a quota, its breaker, hold and throttle, and the job that was admitted past the quota."""
    rule = state.get("rule")
    parts = [f"{name}={_value(value)}" for name, value in sorted((rule or {}).items()) if value is not None]
    if rule == {}:
        parts.append("no limit")
    if job := state.get("job_id"):
        parts.append(f"admitted {job}")
    if (breaker := state.get("breaker")) is not None:
        parts.append(f"breaker {_standing(breaker)}")
    for name, text in (("hold", "held"), ("throttle", "throttled")):
        if (found := state.get(name)) is not None:
            rate = f" to {found['max_per_hour']} an hour" if "max_per_hour" in found else ""
            end = f" until {to_second(found['until'])}" if found.get("until") else ""
            parts.append(f"{text}{rate}{end}")
    return ", ".join(parts) or "nothing"


def _value(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return "(" + " ".join(f"{name}={each}" for name, each in sorted(value.items()) if each is not None) + ")"


def _standing(breaker: Json) -> str:
    state = str(breaker["state"])
    if state == "OPEN":
        return f"{state} until {to_second(breaker['until'])}, {breaker['bad']} of {breaker['calls']} failed"
    return f"{state}, at most {breaker['allow']} active" if state == "HALF_OPEN" else state


def _breaker(row: Json) -> str | None:
    return _standing(row["breaker"]) if row["breaker"] is not None else None


def _limit(row: Json) -> Any:
    return (row["in_force"] or {}).get("max_active")


def _rate(row: Json) -> int | None:
    rates = [each["max_per_hour"] for each in (row["in_force"], row["throttle"]) if each and each.get("max_per_hour")]
    return min(rates, default=None)


def _held(row: Json) -> Any:
    return (row["hold"] or {}).get("at")


#: condition that starts a waiting job, by the cause of its wait
_STARTS = {
    "HELD": "when resumed",
    "FULL": "after a job ends",
    "RATE": "when the rate allows",
    "BREAKER": "when the breaker allows",
    "LINE": "after earlier jobs",
}


def _starts(row: Json) -> Any:
    """Returns the estimated start, else the condition that starts the job."""
    return row["nextEligibleAt"] or _STARTS.get(row["why"])


GATES = Listing(
    "quotas",
    "id",
    (
        Column("quota", lambda row: row["name"] or row["tenant"], room=12),
        Column("type", "type", room=6, drop=3),
        Column("source", "source", room=6, drop=4),
        Column("active", "active"),
        Column("limit", _limit),
        Column("waiting", "staged"),
        Column("starts/h", _rate, drop=2),
        Column("set by", "ruled_by", room=6, drop=7),
        Column("held", _held, at=True, drop=1),
        Column("breaker", _breaker, room=8, drop=5),
        Column("oldest", "oldest_wait_at", at=True, drop=6),
        Column("hold reason", lambda row: (row["hold"] or {}).get("reason"), wide=True),
        Column("in effect", lambda row: summary({**row, "rule": row["in_force"]}), wide=True),
        Column("id", "id", wide=True),
    ),
)
WAITING = Listing(
    "waiting jobs",
    "jobId",
    (
        Column("position", "position", drop=1),
        Column("job", "jobId"),
        Column("type", "request_type", room=6, drop=6),
        Column("source", "source", room=6, drop=7),
        Column("priority", "priority", drop=5),
        Column("since", "created_at", at=True, drop=3),
        Column("why", "why", room=6, drop=2),
        Column("quota", "gate", room=8, drop=4),
        Column("starts", _starts, at=True, drop=4),
        Column("waits for", "waits_for", wide=True),
    ),
)
QUOTA_LOG = Listing(
    "changes",
    "seq",
    (
        Column("no", "seq"),
        Column("at", "at", at=True),
        Column("type", "type"),
        Column("actor", "actor", room=8, drop=2),
        Column("reason", "reason", room=8, drop=1),
        Column("after", lambda row: summary(row["data"].get("after", row["data"])), room=10, drop=3),
    ),
)
