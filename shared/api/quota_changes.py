"""Requests that change a quota."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field

from shared.api.response import Why, whole
from shared.contracts.envelope import Word
from shared.contracts.instants import within_bounds
from shared.core.gates.breaker import MAX_COOLDOWN_S, RING

#: far above every number that means something, and below those that JSON readers round
_MOST = 10_000_000


def _not_nobody(value: int) -> int:
    if value == 0:
        raise ValueError("must be at least 1; to let nobody in, hold the gate")
    return value


def _instant(value: Any) -> Any:
    """The routes are strict, and JSON has no instants."""
    try:
        instant = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return within_bounds(instant).astimezone(UTC) if instant is not None and instant.tzinfo is not None else instant


_Number = Annotated[
    int,
    Field(ge=0, le=_MOST, json_schema_extra={"minimum": 1}, examples=[2]),
    BeforeValidator(whole),
    AfterValidator(_not_nobody),
]


_Until = Annotated[AwareDatetime, BeforeValidator(_instant), Field(examples=["2126-01-27T10:00:00Z"])]


_Name = Annotated[Word, Field(min_length=1, max_length=256)]


class BreakerChange(BaseModel):
    """A JSON merge patch of a breaker; a member that was never set, or is set to null, is that of a new one."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    failure_rate: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] | None = None
    """It opens where as many of the ends that count were bad; without it 0.5."""
    min_calls: Annotated[int, Field(ge=1, le=RING), BeforeValidator(whole)] | None = None
    """Ends that have to count before it opens; without it 10."""
    cooldown_s: Annotated[int, Field(ge=1, le=MAX_COOLDOWN_S), BeforeValidator(whole)] | None = None
    """Seconds that it is open the first time; without it 60."""
    min_tenants: Annotated[int, Field(ge=1, le=1000), BeforeValidator(whole)] | None = None
    """Of a gate over all tenants: tenants that the bad ends have to be of; without it 2."""


class RuleChange(BaseModel):
    """A JSON merge patch (RFC 7396) of a gate's rule: a number sets, null takes out, what is left out stays."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    reason: Why
    """In words, on one line; it stands in the gate's log."""
    max_active: _Number | None = None
    """Jobs that are inside at once."""
    max_per_hour: _Number | None = None
    """Starts in an hour."""
    burst: _Number | None = None
    """Starts that may come at once; without it those of a minute. With `max_per_hour` only."""
    max_staged: Annotated[int, Field(ge=0, le=_MOST), BeforeValidator(whole)] | None = None
    """Of a tenant's gate: jobs that may wait; past it a request is refused. Without it 1,000."""
    emergency_max_active: _Number | None = None
    """Of a tenant's gate: jobs of priority `emergency` that pass every number and rate."""
    weight: Annotated[int, Field(ge=1, le=1000), BeforeValidator(whole)] | None = None
    """Of a tenant's gate: its share of what is divided among tenants, beside the weights of others; without it 1."""
    breaker: BreakerChange | None = None
    """Of a job type's gate: while too many of its jobs end badly nobody goes in, then few; `{}`: one as it comes."""

    def patch(self) -> dict[str, Any]:
        """The members of the rule that were sent."""
        found = {name: getattr(self, name) for name in self.model_fields_set - {"reason"}}
        if self.breaker is not None:
            found["breaker"] = {name: getattr(self.breaker, name) for name in self.breaker.model_fields_set}
        return found


class BreakerReset(BaseModel):
    """Why a breaker is closed."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    reason: Why
    """In words, on one line; it stands in the gate's log."""


class Resume(BaseModel):
    """Which gate, and why: its hold and its throttle end."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    tenant: _Name | None = None
    """Whose gate; without it that of the token's tenant."""
    job_type: _Name | None = None
    """One job type of the tenant."""
    source: _Name | None = None
    """One source of the tenant, as its jobs name it."""
    service: _Name | None = None
    """A platform service; not together with others."""
    name: _Name | None = None
    """A gate over all tenants: `platform`, `mode:BURST`, `type:OCR`, `service:ocr` or `lane:3`; not with others."""
    reason: Why
    """In words, on one line; it stands in the gate's log."""


class Pause(Resume):
    """Which gate is held, and why."""

    until: _Until | None = None
    """When the hold ends by itself, at most 2200-01-01; without it at a resume."""


class Slowdown(Resume):
    """Which gate is throttled, and why."""

    max_per_hour: _Number
    """Starts in an hour, beside the rule's: the smaller counts."""
    until: _Until | None = None
    """When the throttle ends by itself, at most 2200-01-01; without it at a resume."""
