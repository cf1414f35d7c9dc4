"""Retry policies of timer triggers."""

from __future__ import annotations

import pytest

from functions_emulator.host.errors import BindingError
from functions_emulator.host.retry_policy import delays


def test_retry_delays() -> None:
    """A fixed delay repeats; an exponential one doubles up to its maximum."""
    fixed = {"strategy": "fixed_delay", "max_retry_count": "3", "delay_interval": "00:00:02"}
    assert delays(fixed) == [2, 2, 2]
    growing = {
        "strategy": "exponential_backoff",
        "max_retry_count": "4",
        "minimum_interval": "00:00:01",
        "maximum_interval": "00:00:05",
    }
    assert delays(growing) == [1, 2, 4, 5]
    assert delays(None) == []
    with pytest.raises(BindingError, match="retry policy"):
        delays({"strategy": "other", "max_retry_count": "1"})
