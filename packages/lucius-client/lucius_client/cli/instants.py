"""Parses times in options: a timestamp, or seconds, minutes, hours or days before or after now."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from lucius_client.cli.exits import UsageError

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def instant_ago(option: str, text: str | None) -> datetime | None:
    """Parses a timestamp, or an age such as `2h`. Returns None if the option was not given. Raises UsageError."""
    return _instant(option, text, -1, "an age") if text is not None else None


def instant_ahead(option: str, text: str | None) -> datetime | None:
    """Parses a timestamp, or a duration from now such as `2h`. Returns None for None. Raises UsageError."""
    return _instant(option, text, 1, "a duration") if text is not None else None


def _instant(option: str, text: str, sign: int, words: str) -> datetime:
    try:
        if span := re.fullmatch(r"(\d{1,6})([smhd])", text):
            return datetime.now(UTC) + sign * timedelta(**{_UNITS[span[2]]: int(span[1])})
        instant = datetime.fromisoformat(text)
        return instant if instant.tzinfo else instant.astimezone()
    except (ValueError, OverflowError):
        example = f"a timestamp like 2026-01-27T10:00:00Z, or {words} like 90m, 2h or 3d"
        raise UsageError(f"{option} {text}: must be {example}") from None
