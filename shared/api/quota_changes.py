"""Requests that change a quota."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from shared.api.response import RequestBody, Why, to_integer
from shared.contracts.envelope import Word
from shared.contracts.instants import within_bounds
from shared.core.gates.breaker import MAX_COOLDOWN_S, MAX_ENDS

#: maximum of numbers in a rule, below those that JSON readers round
_MOST = 10_000_000


def _not_nobody(value: int) -> int:
    if value == 0:
        raise ValueError("must be at least 1; to start no job, hold the quota")
    return value


def _instant(value: Any) -> Any:
    """Parses a time from text, since the routes are strict and JSON has no times."""
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return within_bounds(instant).astimezone(UTC) if instant is not None and instant.tzinfo is not None else instant


_Number = Annotated[
    int,
    Field(ge=0, le=_MOST, json_schema_extra={"minimum": 1}, examples=[2]),
    BeforeValidator(to_integer),
    AfterValidator(_not_nobody),
]

_Until = Annotated[AwareDatetime, BeforeValidator(_instant), Field(examples=["2126-01-27T10:00:00Z"])]

_Name = Annotated[Word, Field(min_length=1, max_length=256)]


class BreakerChange(RequestBody):
    """JSON merge patch of a breaker. A field that was never set, or is null, has its default."""

    failure_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """Share of failed jobs among the counted jobs at which the breaker opens. Default 0.5."""
    min_calls: Annotated[int, Field(ge=1, le=MAX_ENDS), BeforeValidator(to_integer)] | None = None
    """Minimum number of jobs that the breaker must count before it can open. Default 10."""
    cooldown_s: Annotated[int, Field(ge=1, le=MAX_COOLDOWN_S), BeforeValidator(to_integer)] | None = None
    """Seconds for which the breaker stays open. Default 60. Each further opening doubles the time, up to 900 seconds,
    until the breaker stays closed for one hour."""
    min_tenants: Annotated[int, Field(ge=1, le=1000), BeforeValidator(to_integer)] | None = None
    """Quotas over all tenants only. Minimum number of tenants with failed jobs. Default 2."""


class RuleChange(RequestBody):
    """JSON merge patch (RFC 7396) of a quota's limits. A number sets a limit, null removes the limit, and omitted
    fields keep their values. A tenant's quota with own limits ignores the limits for every tenant."""

    reason: Why
    """Reason, one line. Recorded in the quota's log."""
    max_active: _Number | None = None
    """Maximum active jobs. For a service, maximum directives in flight on each lane. For a lane, maximum directives in
    flight."""
    max_per_hour: _Number | None = None
    """Rate in starts per hour. In any hour, at most `max_per_hour` plus `burst` jobs start, in addition to jobs that
    bypass the rate."""
    burst: _Number | None = None
    """Maximum starts at the same time. Default: the starts of one minute. Only with `max_per_hour`."""
    max_staged: Annotated[int, Field(ge=0, le=_MOST), BeforeValidator(to_integer)] | None = None
    """Tenant quotas only. Maximum waiting jobs, above which LUCIUS refuses requests. Default 1,000."""
    emergency_max_active: _Number | None = None
    """Tenant quotas only. Maximum active jobs of priority `emergency`. If set, these jobs bypass `max_active` and
    rates, but not holds and open circuit breakers."""
    weight: Annotated[int, Field(ge=1, le=1000), BeforeValidator(to_integer)] | None = None
    """Tenant quotas only. Weight of the tenant in allocations among tenants. Default 1."""
    breaker: BreakerChange | None = None
    """Job type quotas only. Circuit breaker, which stops admission when `failure_rate` is reached. After `cooldown_s`,
    LUCIUS admits one job, then more, at most 32 at a time, until the breaker closes. `{}` sets a breaker with the
    default values, unless the quota has a breaker."""

    def patch(self) -> dict[str, Any]:
        """Returns the fields of the limits that the caller sent."""
        found = {name: getattr(self, name) for name in self.model_fields_set - {"reason"}}
        if self.breaker is not None:
            found["breaker"] = {name: getattr(self.breaker, name) for name in self.breaker.model_fields_set}
        return found


class BreakerReset(RequestBody):
    """Reason for resetting a circuit breaker."""

    reason: Why
    """Reason, one line. Recorded in the quota's log."""


class Resume(RequestBody):
    """Quota to resume, and the reason."""

    tenant: _Name | None = None
    """Tenant of the quota. Default: the caller's tenant."""
    job_type: _Name | None = None
    """Job type of the quota."""
    source: _Name | None = None
    """Source of the quota, as the tenant's jobs name the source."""
    service: _Name | None = None
    """Platform service. Cannot be combined with the other fields that name a quota."""
    name: _Name | None = None
    """Quota over all tenants: `platform`, `mode:BURST`, `type:OCR`, `service:ocr` or `lane:3`. Cannot be combined with
    the other fields that name a quota."""
    reason: Why
    """Reason, one line. Recorded in the quota's log."""


class Pause(Resume):
    """Quota to hold, and the reason."""

    until: _Until | None = None
    """End of the hold, in the future and at most 2200-01-01. Default: until a resume."""


class Slowdown(Resume):
    """Quota to throttle, and the reason."""

    max_per_hour: _Number
    """Rate in starts per hour. The lower of this rate and the rate of the quota's limits is in effect."""
    until: _Until | None = None
    """End of the throttle, in the future and at most 2200-01-01. Default: until a resume."""
