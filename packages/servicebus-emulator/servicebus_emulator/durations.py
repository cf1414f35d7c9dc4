"""ISO 8601 durations, as configuration and the management API write them: `PT5M`, `P1DT2H3.5S`."""

from __future__ import annotations

import re

_PATTERN = re.compile(
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
#: Azure's "never" is the largest duration of .NET; 1,000 years and more are read as never
_NEVER_MS = 1000 * 365 * 86_400_000
NEVER = "P10675199DT2H48M5.4775807S"


def parse_duration(text: str) -> int | None:
    """Returns the duration in milliseconds, or None for never. Raises ValueError for any other text."""
    match = _PATTERN.fullmatch(text)
    if match is None or text in ("P", "PT") or text.endswith("T"):
        raise ValueError(f"'{text}' is not an ISO 8601 duration such as PT5M")
    days, hours, minutes = (int(match[name] or 0) for name in ("days", "hours", "minutes"))
    ms = ((days * 24 + hours) * 60 + minutes) * 60_000 + round(float(match["seconds"] or 0) * 1000)
    return None if ms >= _NEVER_MS else ms


def format_duration(ms: int | None) -> str:
    """Formats a duration in milliseconds, without units that are 0. None means never."""
    if ms is None:
        return NEVER
    days, rest = divmod(ms, 86_400_000)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    time = "".join(f"{value}{unit}" for value, unit in ((hours, "H"), (minutes, "M")) if value)
    if rest:
        time += f"{rest / 1000:g}S"
    date = f"{days}D" if days else ""
    return f"P{date}T{time}" if time else f"P{date}" if date else "PT0S"
