"""Texts after Json.NET, as in a batch without `data_type` (azure-functions-python-worker issue 1401)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from functions_emulator.host import json_net


@pytest.fixture
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is two and a half hours west of UTC."""
    monkeypatch.setenv("TZ", "XYZ02:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # the issue's own
        ("2024-01-19T12:50:41.250940Z", "2024-01-19T12:50:41.25094Z"),
        ("2024-01-19T12:50:41.000Z", "2024-01-19T12:50:41Z"),
        # an offset becomes the machine's
        ("2024-01-19T12:50:41+02:00", "2024-01-19T08:20:41-02:30"),
        ("2024-01-19T12:50:41.1-0200", "2024-01-19T12:20:41.1-02:30"),
        ("2024-01-19T12:50:41+02", "2024-01-19T08:20:41-02:30"),
        # without a zone it stays so
        ("2024-01-19T12:50:41", "2024-01-19T12:50:41"),
        ("2024-01-19T12:50:41.10", "2024-01-19T12:50:41.1"),
        # these are no dates to DateTimeParser.cs
        ("2024-01-19", "2024-01-19"),
        ("2024-01-19 12:50:41.10", "2024-01-19 12:50:41.10"),
        ("2024-01-19T12:50:41.12345670Z", "2024-01-19T12:50:41.12345670Z"),
        ("2024-02-30T12:50:41.10", "2024-02-30T12:50:41.10"),
        (" 2024-01-19T12:50:41.10", " 2024-01-19T12:50:41.10"),
        ("2024-01-19T12:50:41.", "2024-01-19T12:50:41."),
        ("0001-01-01T00:00:00+14:00", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_a_text_that_looks_like_a_date_is_written_as_one(zone: None, text: str, expected: str) -> None:
    assert json_net.read(json.dumps({"a": [text], text: 1})) == {"a": [expected], text: 1}


def test_other_values_stay() -> None:
    assert json_net.read('{"n": 1.10, "big": 12345678901234567890123, "t": [true, null, "x"]}') == {
        "n": 1.1,
        "big": 12345678901234567890123,
        "t": [True, None, "x"],
    }
    assert json_net.read("") is None


def test_a_text_that_is_not_json_is_refused() -> None:
    for text in ("no json", "{", '{"a": 1} x', "b-0"):
        with pytest.raises(ValueError, match=r"."):
            json_net.read(text)
