"""The retry policy of a function (`@app.retry`). Among the triggers of this emulator, Azure applies the policy only to
timer triggers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from functions_emulator.host.errors import BindingError, HostError
from functions_emulator.host.host_json import parse_timespan

_MIN_INTERVAL_S = 1.0
_MAX_INTERVAL_S = 3600.0


def delays(policy: Mapping[str, Any] | None) -> list[float]:
    """Returns the seconds before each retry. The result is empty without a policy. Raises `BindingError` for an invalid
    policy.
    """
    if policy is None:
        return []
    try:
        count = int(policy["max_retry_count"])
        return [delay for delay, _ in zip(_endless(policy), range(count), strict=False)]
    except (HostError, KeyError, ValueError, TypeError) as error:
        raise BindingError(f"the retry policy is not valid: {error}") from None


def _endless(policy: Mapping[str, Any]) -> Iterator[float]:
    if policy["strategy"] == "fixed_delay":
        interval = parse_timespan(policy["delay_interval"], "delay_interval")
        while True:
            yield interval
    if policy["strategy"] != "exponential_backoff":
        raise ValueError(f"unknown strategy {policy['strategy']!r}; use fixed_delay or exponential_backoff")
    shortest = _seconds(policy.get("minimum_interval"), "minimum_interval", _MIN_INTERVAL_S)
    longest = _seconds(policy.get("maximum_interval"), "maximum_interval", _MAX_INTERVAL_S)
    delay = shortest
    while True:
        yield min(delay, longest)
        delay *= 2


def _seconds(text: Any, name: str, default: float) -> float:
    return default if text is None else parse_timespan(text, name)
