"""Times in options of commands."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from lucius_client.cli.exits import UsageError
from lucius_client.cli.instants import instant_ago, instant_ahead


def test_a_time_is_an_instant_or_a_time_from_now() -> None:
    """With a zone as it is; a number with a unit counts from now."""
    assert instant_ago("--since", None) is None
    assert instant_ago("--since", "2026-01-27T10:00:00Z") == datetime(2026, 1, 27, 10, tzinfo=UTC)
    ahead = instant_ahead("--until", "2h")
    assert ahead is not None
    assert timedelta(hours=1, minutes=59) < ahead - datetime.now(UTC) <= timedelta(hours=2)


@pytest.mark.parametrize("text", ["yesterday", "999999d", "2h30m", "9999-12-31T25:00:00Z"])
def test_any_other_text_is_refused_in_one_line(text: str) -> None:
    """Also a time that no calendar has: 999,999 days ago is before the year 1."""
    with pytest.raises(UsageError, match=r"--since .*: must be a timestamp like"):
        instant_ago("--since", text)


@pytest.mark.parametrize(
    ("zone", "text"), [("Asia/Tokyo", "0001-01-01T00:00:00"), ("America/New_York", "9999-12-31T23:59:59")]
)
def test_a_local_time_at_the_ends_of_the_calendar_is_refused_too(
    zone: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its conversion overflows in these zones."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        with pytest.raises(UsageError):
            instant_ago("--since", text)
    finally:
        monkeypatch.undo()
        time.tzset()
