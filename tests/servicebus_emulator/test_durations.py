"""ISO 8601 durations."""

from __future__ import annotations

import pytest

from servicebus_emulator.durations import format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "ms"),
    [("PT5M", 300_000), ("P1DT2H3M4.5S", 93_784_500), ("PT0.25S", 250), ("P10675199DT2H48M5.4775807S", None)],
)
def test_durations(text: str, ms: int | None) -> None:
    """Durations are read, and written so that they read the same."""
    assert parse_duration(text) == ms
    assert parse_duration(format_duration(ms)) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "5M", "P1DT", "PT-1S", "P1Y"])
def test_other_texts_are_no_durations(text: str) -> None:
    """Any other text is refused."""
    with pytest.raises(ValueError, match="not an ISO 8601"):
        parse_duration(text)
