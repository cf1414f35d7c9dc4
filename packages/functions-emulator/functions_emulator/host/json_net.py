"""Reads JSON as Json.NET does by default. A text in the form of a date becomes a date, and is written as a date.

Source: JamesNK/Newtonsoft.Json, Src/Newtonsoft.Json/Utilities: DateTimeParser.cs, DateTimeUtils.cs. This module omits
the syntax that Json.NET accepts in addition to RFC 8259 (comments, single quotes, names without quotes), and dates as
`/Date(0)/`.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

_DATE = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,7}))?"
    r"(?:(?P<utc>[Zz])|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?",
    re.ASCII,
)


def read(text: str) -> Any:
    """Returns the value of a JSON text, with each date as Json.NET writes it, or `None` for an empty text.

    Raises `ValueError` if the text is not JSON.
    """
    if not text.strip():
        return None
    return _dates_rewritten(json.loads(text, parse_constant=str))


def _dates_rewritten(value: Any) -> Any:
    if isinstance(value, str):
        return _rewritten(value)
    if isinstance(value, list):
        return [_dates_rewritten(each) for each in value]
    if isinstance(value, dict):
        return {name: _dates_rewritten(each) for name, each in value.items()}
    return value


def _rewritten(text: str) -> str:
    """Returns a date as Json.NET writes it: with the machine's time zone if it has an offset, its fraction without
    zeros at the end.
    """
    found = _DATE.fullmatch(text) if len(text) <= 40 else None
    if found is None:
        return text
    try:
        at = datetime.fromisoformat(found["second"])
        if found["sign"]:
            east = timedelta(hours=int(found["hours"]), minutes=int(found["minutes"] or 0))
            utc = at - east if found["sign"] == "+" else at + east
            at = utc.replace(tzinfo=UTC).astimezone()
    except (ValueError, OverflowError):
        return text
    fraction = (found["fraction"] or "").rstrip("0")
    second = at.replace(tzinfo=None).isoformat()
    zone = "Z" if found["utc"] else f"{at:%z}"[:5]
    zone = f"{zone[:3]}:{zone[3:]}" if len(zone) == 5 else zone
    return f"{second}.{fraction}{zone}" if fraction else f"{second}{zone}"
