"""Breakers as JSON in columns of admission states and of allocation records, without defaults of a new breaker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.core.gates.breaker import Breaker, BreakerState, JobEnd
from shared.core.gates.rules import AdmissionBreaker

#: JSON name of the field `active`
_ACTIVE = "inside"
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


def breaker_json(breaker: Breaker | None) -> dict[str, Any] | None:
    return _find_changes(breaker, Breaker()) if breaker is not None else None


def breaker_of(values: dict[str, Any]) -> Breaker:
    numbers = ("epoch", "cooldown_s", "allow", "good")
    known: dict[str, Any] = {name: values[name] for name in numbers if name in values}
    known |= {name: _instant(values.get(name)) for name in ("opened_at", "until", "waits_since", "closed_at")}
    return Breaker(
        state=BreakerState(values.get("state", BreakerState.CLOSED)),
        ring=_ring_of(values),
        active=values.get(_ACTIVE, 0),
        opened_by=_pair(values.get("opened_by", (0, 0))),
        **known,
    )


def admission_breaker_json(breaker: AdmissionBreaker) -> dict[str, Any]:
    return _find_changes(breaker, AdmissionBreaker())


def admission_breaker_of(values: dict[str, Any]) -> AdmissionBreaker:
    """Decodes the breaker. Ignores fields of a later release."""
    known = {name: values[name] for name in ("epoch", "since", "limited") if name in values}
    until, active = _instant(values.get("until")), values.get(_ACTIVE, 0)
    return AdmissionBreaker(until=until, active=active, ring=_ring_of(values), **known)


def _find_changes(breaker: Breaker | AdmissionBreaker, new: Breaker | AdmissionBreaker) -> dict[str, Any]:
    values = {each.name: getattr(breaker, each.name) for each in fields(breaker)}
    changed = {
        _ACTIVE if name == "active" else name: value for name, value in values.items() if value != getattr(new, name)
    }
    return {**changed, "ring": _ring_json(breaker.ring)} if breaker.ring else changed


def _ring_json(ring: Iterable[JobEnd]) -> list[list[Any]]:
    """Returns `[microseconds since 1970, epoch, good as 1 or 0]` for each ended job, followed by the tenant if the item
    has a tenant.
    """
    return [
        [(end.at - _EPOCH) // _MICROSECOND, end.epoch, int(end.good), *([end.tenant] if end.tenant else [])]
        for end in ring
    ]


def _ring_of(values: dict[str, Any]) -> tuple[JobEnd, ...]:
    return tuple(
        JobEnd(_EPOCH + at * _MICROSECOND, epoch, bool(good), *more[:1])
        for at, epoch, good, *more in values.get("ring", ())
    )


def _pair(values: Sequence[int]) -> tuple[int, int]:
    return values[0], values[1]


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text is not None else None
