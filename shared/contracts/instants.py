"""The bounds of timestamps in requests."""

from __future__ import annotations

from datetime import UTC, datetime

#: bounds: row keys have 13 digits of milliseconds, which end in 2286; the Table service accepts no year before 1601
FIRST, LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def within_bounds(instant: datetime) -> datetime:
    """Returns the timestamp, which must have a zone. Raises ValueError if the timestamp is before `FIRST` or after
    `LAST`.
    """
    # not converted: a conversion to UTC overflows in the first and last hours of the calendar
    if not FIRST <= instant <= LAST:
        raise ValueError(f"must be between {FIRST:%Y-%m-%d} and {LAST:%Y-%m-%d}")
    return instant
