"""Schedules of timer triggers: NCRONTAB (`second minute hour day month weekday`, or five fields) or a time span."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Protocol

from croniter import croniter

from functions_emulator.host.errors import BindingError, HostError
from functions_emulator.host.host_json import parse_timespan

_SPAN = re.compile(r"(?:\d+\.)?\d{1,2}:\d{1,2}:\d{1,2}(?:\.\d+)?")


class Schedule(Protocol):
    """The occurrences of a timer."""

    def next_after(self, instant: datetime) -> datetime:
        """Returns the first occurrence later than `instant`, in UTC."""


class _Span:
    def __init__(self, every: timedelta) -> None:
        self._every = every

    def next_after(self, instant: datetime) -> datetime:
        return instant + self._every


class _Cron:
    def __init__(self, expression: str, *, with_seconds: bool) -> None:
        self._expression = expression
        self._with_seconds = with_seconds

    def next_after(self, instant: datetime) -> datetime:
        occurrence = croniter(
            self._expression,
            instant.astimezone(UTC),
            second_at_beginning=self._with_seconds,
            # NCRONTAB requires the day of the month and the weekday, cron one of them.
            day_or=False,
        ).get_next(datetime)
        assert isinstance(occurrence, datetime)
        return occurrence


def parse_schedule(text: str) -> Schedule:
    """Reads a schedule in UTC, as Azure without WEBSITE_TIME_ZONE. Raises `BindingError` if the schedule is invalid."""
    text = text.strip()
    if _SPAN.fullmatch(text):
        try:
            every = timedelta(seconds=parse_timespan(text, "the schedule"))
        except HostError as error:
            raise BindingError(str(error)) from None
        if not every:
            raise BindingError(f"the schedule {text!r} must be longer than zero")
        return _Span(every)
    fields = text.split()
    with_seconds = len(fields) == 6
    if len(fields) not in (5, 6) or not croniter.is_valid(text, second_at_beginning=with_seconds):
        raise BindingError(f"the schedule {text!r} is neither NCRONTAB (0 */5 * * * *) nor a time span (00:05:00)")
    return _Cron(text, with_seconds=with_seconds)
