"""Counts of a minute: they add up, and no number of jobs, tenants or services makes them large."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from shared.core.overview.minutes import (
    ACK,
    LATENCIES_MS,
    MAX_GROUPS,
    OTHERS,
    MinuteCounts,
    find_latency_bucket,
    percentile_ms,
)


@pytest.mark.parametrize(
    ("milliseconds", "end"), [(0, 10), (10, 10), (11, 25), (2_501, 5_000), (86_400_001, LATENCIES_MS[-1])]
)
def test_a_latency_counts_in_its_bucket(milliseconds: int, end: int) -> None:
    assert LATENCIES_MS[find_latency_bucket(timedelta(milliseconds=milliseconds))] == end


def test_percentiles_are_ends_of_buckets() -> None:
    buckets = Counter({0: 94, 5: 5, 9: 1})
    assert [percentile_ms(buckets, share) for share in (0.5, 0.95, 0.99, 1.0)] == [10, 500, 500, LATENCIES_MS[9]]
    assert percentile_ms(Counter(), 0.5) is None


def test_groups_are_bounded_and_none_is_lost() -> None:
    """Entries past the limit are counted together; known names continue to count."""
    total = MinuteCounts()
    for number in range(3 * MAX_GROUPS):
        one = MinuteCounts(
            ends=Counter({(f"tenant {number}", "FAILED_FINAL", "BAD"): 1, ("tenant 0", "SUCCEEDED", ""): 1}),
            latencies={(f"service {number}", ACK): Counter({number % 3: 1})},
        )
        total += one
    assert total.ends.total() == 6 * MAX_GROUPS
    assert total.ends["tenant 0", "SUCCEEDED", ""] == 3 * MAX_GROUPS
    assert total.ends[OTHERS, "FAILED_FINAL", ""] > MAX_GROUPS
    assert total.latency(ACK) == dict.fromkeys(range(3), MAX_GROUPS)
    assert max(len(total.ends), len(total.latencies)) <= MAX_GROUPS + 2


def test_what_the_sweeper_counted_stays() -> None:
    counted = MinuteCounts(active={"QUEUED": 1})
    assert (counted + MinuteCounts()).active == (MinuteCounts() + counted).active == {"QUEUED": 1}
