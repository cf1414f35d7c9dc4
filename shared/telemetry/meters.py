"""The instruments of the metric table. Attributes are checked. Each attribute has at most 100 text values in a
process. Further values count as `_other`.

The instruments use the OpenTelemetry API alone. Without an exporter, the instruments do nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry import metrics

from shared.errors import (
    BusUnavailable,
    ConfigurationUnavailable,
    Contended,
    KeysUnavailable,
    LedgerUnavailable,
    LuciusError,
    OrchestrationUnavailable,
    PublishUnavailable,
)
from shared.telemetry.lines import warn
from shared.telemetry.metric_table import METRICS, Metric, MetricKind

#: maximum values of one attribute in one process; further ones are counted under `_other`
MAX_VALUES = 100
OTHER = "_other"

#: bucket bounds, from the milliseconds of a lookup to the hours of a long job
_BOUNDARIES_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600, 14400)

#: form of codes in source or configuration; services choose their error codes, so other text among these is not shown
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_CODES = frozenset({"reason", "cause"})

_TABLE = {metric.name: metric for metric in METRICS}
_meter = metrics.get_meter("lucius")
_seen: dict[str, set[str]] = {}


def _make(metric: Metric) -> Any:
    match metric.kind:
        case MetricKind.COUNTER:
            return _meter.create_counter(metric.name, metric.unit, metric.meaning)
        case MetricKind.HISTOGRAM:
            return _meter.create_histogram(
                metric.name, metric.unit, metric.meaning, explicit_bucket_boundaries_advisory=_BOUNDARIES_S
            )
        case MetricKind.GAUGE:
            return _meter.create_gauge(metric.name, metric.unit, metric.meaning)


_instruments = {name: _make(metric) for name, metric in _TABLE.items()}


def increment(name: str, by: int = 1, /, **attributes: object) -> None:
    """Adds `by` to the counter `name`. Raises ValueError as `check_attributes` does."""
    _instruments[name].add(by, check_attributes(name, attributes))


def observe(name: str, seconds: float, /, **attributes: object) -> None:
    """Records `seconds` in the histogram `name`. A negative value counts as 0, since the clocks of two machines may
    differ. Raises ValueError as `check_attributes` does.
    """
    _instruments[name].record(max(seconds, 0.0), check_attributes(name, attributes))


def set_gauge(name: str, value: float, /, **attributes: object) -> None:
    """Sets the gauge `name` to `value`. Raises ValueError as `check_attributes` does."""
    _instruments[name].set(value, check_attributes(name, attributes))


def check_attributes(name: str, attributes: dict[str, object]) -> dict[str, str | int]:
    """Returns the attributes to record. Raises ValueError for an attribute that the table does not name."""
    recorded: dict[str, str | int] = {}
    for key, value in attributes.items():
        # a keyword cannot have the dots of a semantic convention
        key = key.replace("__", ".")
        if key not in _TABLE[name].attributes:
            raise ValueError(f"the metric {name} has no attribute {key}")
        recorded[key] = value if isinstance(value, int) else _known(key, str(value))
    return recorded


def code(value: str) -> str:
    """Returns the value if the value has the form of a code, else OTHER, since other text may contain anything."""
    return value if _CODE.fullmatch(value) else OTHER


def _known(key: str, value: str) -> str:
    if key in _CODES:
        value = code(value)
    seen = _seen.setdefault(key, set())
    if value not in seen:
        if len(seen) >= MAX_VALUES:
            return OTHER
        seen.add(value)
    return value


_DEPENDENCIES: tuple[tuple[type[LuciusError], str], ...] = (
    (LedgerUnavailable, "ledger"),
    (PublishUnavailable, "bus"),
    (BusUnavailable, "bus"),
    (OrchestrationUnavailable, "orchestration"),
    (ConfigurationUnavailable, "configuration"),
    (KeysUnavailable, "issuer"),
)


def record_fault(error: Exception, event: str | None = None, /, **fields: Any) -> None:
    """Counts a failed call of the ledger, the bus, the durable engine, the configuration store or the token issuer.
    Also counts a write that met a conflict at every try. Counts no other error.

    With `event`, logs a WARNING for every error, with `fields` and the error as `reason`.
    """
    if event is not None:
        warn(event, **fields, reason=error)
    if isinstance(error, Contended):
        increment("contention_total")
    for kind, dependency in _DEPENDENCIES:
        if isinstance(error, kind):
            increment("dependency_faults_total", dependency=dependency)
            return


@contextmanager
def tolerate(
    errors: type[Exception] | tuple[type[Exception], ...], event: str | None = None, /, **fields: Any
) -> Iterator[None]:
    """Ends the block at one of these errors, and continues after the block. Records the error as `record_fault`
    does.
    """
    try:
        yield
    except errors as fault:
        record_fault(fault, event, **fields)


def record_limit(tenant: str, limit: str) -> None:
    """Counts the creation of a job that a limit refused, and logs a WARNING."""
    increment("quota_exceeded_total", tenant=tenant, limit=limit)
    warn("LIMIT_REACHED", tenant_id=tenant, limit=limit)
