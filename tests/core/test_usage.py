"""Sums of tenants' usage: they add up, and stay bounded (R68)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from shared.core.usage import (
    MAX_GROUPS,
    OTHERS,
    WAITS_S,
    Axis,
    Counted,
    HourUsage,
    find_wait_bucket,
    group_in,
    highest,
    hour_of,
    inside_by,
    sum_hours,
)
from tests.jobs import START


def waited(*seconds: float) -> Counted:
    counted = Counted()
    for each in seconds:
        counted.add(START, START + timedelta(seconds=each), None)
    return counted


@pytest.mark.parametrize(
    ("seconds", "end"),
    [(0, 0), (0.001, 1), (1, 1), (1.5, 2), (3600, 3600), (3601, 7200), (604_800, 604_800), (9e6, 604_800)],
)
def test_a_wait_is_the_end_of_its_bucket(seconds: float, end: int) -> None:
    """An upper bound; waits past the last bucket count in it."""
    assert WAITS_S[find_wait_bucket(timedelta(seconds=seconds))] == end
    assert waited(seconds).wait_s(1) == end


def test_waits_add_up_over_hours() -> None:
    """The percentiles of a sum are those of all its jobs; of no jobs there is none."""
    one, other = waited(*[0] * 90), waited(*[50] * 9, 5000)
    assert [(one + other).wait_s(share) for share in (0.5, 0.9, 0.95, 0.99, 1)] == [0, 0, 60, 60, 7200]
    assert Counted().wait_s(0.5) is None


def test_a_row_of_release_0_2_0_was_let_in_at_once() -> None:
    """It has no staging time; one that still waits, and one that ended while it waited, were not admitted."""
    counted = Counted()
    counted.add(None, None, None)
    counted.add(START, None, None)
    counted.add(START, None, START)
    assert (counted.created, counted.admitted, counted.staged, counted.ended) == (3, 1, 2, 1)


def test_sources_without_room_are_counted_together() -> None:
    """With their type; known sources continue to count."""
    groups = {("OCR", f"s{number}"): 1 for number in range(MAX_GROUPS)}
    assert group_in(groups, ("OCR", "s0")) == ("OCR", "s0")
    assert group_in(groups, ("OCR", "another")) == ("OCR", OTHERS)
    many = inside_by(("OCR", f"s{number}") for number in range(3 * MAX_GROUPS))
    kept = highest({}, many)
    assert (len(kept), kept["", ""], kept["type", "OCR"]) == (2 * MAX_GROUPS, 3 * MAX_GROUPS, 3 * MAX_GROUPS)


def test_sums_by_each_axis() -> None:
    """The total is the same by each; a peak is the highest of its own kind, and never a sum."""
    hours = [
        HourUsage(
            hour_of(START) + number * timedelta(hours=1),
            {("OCR", "s"): waited(0, 0), ("SIS", ""): waited(9)},
            {("", ""): 5 + number, ("type", "OCR"): 4, ("source", "s"): 3, ("source", ""): 1},
            {("OCR", "s"): 2},
        )
        for number in range(2)
    ]
    for axis in Axis:
        total, groups = sum_hours(hours, axis)
        assert (total.counted.created, total.rejected, total.active_peak) == (6, 4, 6)
        assert sum(each.counted.created for each in groups.values()) == 6
        assert sum(each.rejected for each in groups.values()) == 4
    peaks = {axis: [each.active_peak for each in sum_hours(hours, axis)[1].values()] for axis in Axis}
    assert peaks == {Axis.TYPE: [4, 0], Axis.SOURCE: [1, 3], Axis.HOUR: [5, 6]}
