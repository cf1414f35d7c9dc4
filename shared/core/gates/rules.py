"""Quotas and their limits: a number, a rate, a hold, a throttle, a breaker (R48).

A quota applies to a tenant, one of its job types, or one of its sources. The quota's own rule has precedence over the
rule for every tenant (`*`), which has precedence over a limit from the settings.

A quota over all tenants has the tenant `*`. Such a quota is allocated among the tenants (R54), or limits a service or a
lane when a step is dispatched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import Self

from shared.core.gates.breaker import Breaker, BreakerRule, JobEnd
from shared.core.records.canonical import canonical_json, digest

#: name that stands for every tenant, or for every job type
EVERY = "*"
#: default maximum number of a tenant's staged jobs
MAX_STAGED = 1_000
#: maximum number of a tenant's quotas with a setting; they are columns of one row
MAX_RULES = 100


class GateScope(Enum):
    """The jobs or steps that a kind of quota limits, and the time of the check."""

    #: jobs of one tenant, at their start
    TENANT = auto()
    #: jobs of all tenants, at their start; an allocation divides the numbers among the tenants (R54)
    PLATFORM = auto()
    #: steps of all tenants, at dispatch (R56)
    DISPATCH = auto()


_NUMBERS = frozenset({"max_active", "max_per_hour", "burst"})
_ALL_NUMBERS = _NUMBERS | {"max_staged", "emergency_max_active", "weight"}
_WITH_BREAKER = _NUMBERS | {"breaker"}


class GateKind(StrEnum):
    """The kind of a quota: its scope, its limits, and the field of a job or step that names the quota."""

    scope: GateScope
    #: field of a job, a waiting queue or a step that has the quota's name; empty: the quota has no name
    key: str
    #: example of the quota's name; empty if it has none
    example: str
    #: members of a `Rule` that such a quota can have
    limits: frozenset[str]
    #: name of the key in messages and query parameters
    label: str

    def __new__(
        cls,
        value: str,
        scope: GateScope = GateScope.TENANT,
        key: str = "",
        example: str = "",
        limits: frozenset[str] = _NUMBERS,
    ) -> Self:
        member = str.__new__(cls, value)
        member._value_ = value
        member.scope, member.key, member.example, member.limits = scope, key, example, limits
        member.label = value.rpartition("/")[2]
        return member

    # from broad to narrow within each scope
    TENANT = ("tenant", GateScope.TENANT, "", "", _ALL_NUMBERS)
    TYPE = ("tenant/type", GateScope.TENANT, "job_type", "OCR", _WITH_BREAKER)
    SOURCE = ("tenant/source", GateScope.TENANT, "source", "scanner-7")
    PLATFORM = ("platform", GateScope.PLATFORM)
    MODE = ("mode", GateScope.PLATFORM, "mode", "BURST")
    PLATFORM_TYPE = ("type", GateScope.PLATFORM, "job_type", "OCR", _WITH_BREAKER)
    SERVICE = ("service", GateScope.DISPATCH, "service", "ocr", frozenset({"max_active"}))
    LANE = ("lane", GateScope.DISPATCH, "lane", "3", frozenset({"max_active"}))


#: kinds of a tenant's quotas, without the one for the whole tenant
PARTS = tuple(kind for kind in GateKind if kind.scope is GateScope.TENANT and kind.key)
#: kinds of quotas that are allocated among tenants, from narrow to broad: the order in which a job takes its slots
ALLOCATED = tuple(kind for kind in reversed(GateKind) if kind.scope is GateScope.PLATFORM)
GUARDS = tuple(kind for kind in GateKind if kind.scope is GateScope.DISPATCH)
OVER_ALL = (*ALLOCATED, *GUARDS)


@dataclass(frozen=True)
class Gate:
    """The identity of a quota.

    `name` is the job type, normalised source, mode, service or lane number. `name` is empty for a tenant's own quota
    and for the platform.
    """

    kind: GateKind
    tenant: str
    name: str = ""

    @property
    def id(self) -> str:
        """Returns 16 hex digits for keys and routes, since a source's name can be too long for them."""
        return _compute_id(self.kind, self.tenant, self.name)

    @property
    def display_name(self) -> str:
        """Returns the name for people, such as `tenant acme, type OCR` or `type:OCR`."""
        if self.kind in OVER_ALL:
            return f"{self.kind}:{self.name}" if self.name else self.kind.value
        return f"tenant {self.tenant}" + (f", {self.kind.label} {self.name}" if self.kind.key else "")

    def name_of(self, key: str) -> str | None:
        """Returns the quota's name if it is a value of the field `key`, for example `job_type`, else None."""
        return self.name if self.kind.key == key else None

    @classmethod
    def over_all(cls, kind: GateKind, name: str = "") -> Gate:
        """Returns the quota over all tenants of this kind and name."""
        return cls(kind, EVERY, name)


#: example of the display name of each kind of quota over all tenants
OVER_ALL_EXAMPLES = [Gate.over_all(kind, kind.example).display_name for kind in (*reversed(ALLOCATED), *GUARDS)]


@lru_cache(maxsize=10_000)
def _compute_id(kind: GateKind, tenant: str, name: str) -> str:
    """Returns the id. Cached, since each admission round needs it for each quota of each queue."""
    return digest(canonical_json([kind, tenant, name]))[:16]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The limits of a quota. A field that is None means no such limit, unless its comment names a default."""

    #: maximum number of active jobs, at least 1
    max_active: int | None = None
    #: rate in starts per hour, at least 1; in any hour, `burst` further starts are possible
    max_per_hour: int | None = None
    #: maximum starts at the same time, at least 1; None means the starts of one minute
    burst: int | None = None
    #: maximum number of staged jobs, for a tenant's quota; further jobs are refused; None means `MAX_STAGED`
    max_staged: int | None = None
    #: tenant's quota only: maximum active emergencies. They bypass limits and rates, but no hold and no open breaker.
    #: None if an emergency counts as high priority
    emergency_max_active: int | None = None
    #: weight of the tenant in allocations, at least 1; None means 1
    weight: int | None = None
    #: breaker of a job type's quota
    breaker: BreakerRule | None = None
    #: `True` if a job that cannot start is refused instead of staged
    rejects: bool = False
    #: name of the setting with this rule; None if an operator made it
    setting: str | None = None

    @property
    def burst_tokens(self) -> int:
        if self.burst is not None:
            return self.burst
        return max(1, -(-(self.max_per_hour or 0) // 60))


@dataclass(frozen=True, kw_only=True)
class _Temporary:
    """A temporary change, in effect until its end time or until a resume."""

    reason: str
    actor: str
    at: datetime
    #: end of the change; None if only a resume ends it
    until: datetime | None = None
    #: `True` if the tenant's own caller made it and can end it; else an operator made it
    own: bool = False

    def is_on(self, now: datetime) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, kw_only=True)
class Hold(_Temporary):
    """A hold: the quota admits no job. A held dispatch limit delays every step."""


@dataclass(frozen=True, kw_only=True)
class Throttle(_Temporary):
    """A throttle: a second rate. The lower of this rate and the rule's rate applies."""

    max_per_hour: int


@dataclass(frozen=True, kw_only=True)
class GateState:
    """The columns of an admission state for one quota."""

    gate: Gate
    #: the quota's own rule; None if the rule for every tenant applies
    rule: Rule | None = None
    #: number of changes of rule, hold and throttle, and of breaker resets: the ETag of a change
    rule_seq: int = 0
    hold: Hold | None = None
    throttle: Throttle | None = None
    #: credit of the rate, in units of `shared.core.gates.rate`; None means full
    credit: int | None = None
    credit_at: datetime | None = None
    #: breaker of a job type's quota; None if no end was counted
    breaker: Breaker | None = None
    #: number and hash of the last entry of the quota's log
    log_seq: int = 0
    log_hash: str = ""

    @property
    def max_active(self) -> int | None:
        """Returns `max_active` of the quota's own rule, or None without a rule."""
        return self.rule.max_active if self.rule is not None else None


@dataclass(frozen=True, kw_only=True)
class AdmissionBreaker:
    """The state of a breaker over all tenants, in an admission state (R61). Before the first opening or reset, `epoch`
    is 0.
    """

    #: epoch of the breaker, as last received by this admission state
    epoch: int = 0
    #: `find_epoch` plus 1 when this epoch began; a job whose ACTIVE.`breaker_epoch` is at least this was admitted in it
    since: int = 0
    #: active jobs admitted in that epoch
    active: int = 0
    #: `True` if the breaker is not closed
    limited: bool = False
    #: end of the cool-down of an open breaker
    until: datetime | None = None
    #: ends of this tenant's jobs that were admitted in that epoch, oldest first
    ring: tuple[JobEnd, ...] = ()


@dataclass(frozen=True, kw_only=True)
class QuotaShare:
    """A tenant's share of a quota over all tenants (R54)."""

    gate: Gate
    #: maximum number of active jobs of the breaker's epoch; the tenant admits jobs below it
    slots: int = 0
    #: epoch of the last allocation that reclaimed slots from it
    epoch: int = 0
    #: granted starts that are not used, and the total ever granted, so that a repeated grant counts once
    tokens: int = 0
    tokens_granted: int = 0
    #: slot time of its jobs up to `at`, in milliseconds
    slot_ms: int = 0
    at: datetime | None = None
    breaker: AdmissionBreaker = field(default_factory=AdmissionBreaker)


@dataclass(frozen=True)
class Directory:
    """The quotas that a process knows. The process reads them periodically, never for a single job."""

    #: tenants with quotas of their own, and the time since which they have them
    tenants: Mapping[str, datetime] = field(default_factory=dict)
    #: rules for every tenant, by `(kind, name)`; name `*` of a job type: each type without its own rule
    defaults: Mapping[tuple[GateKind, str], Rule] = field(default_factory=dict)
    #: quotas over all tenants that are set, by id
    over_all: Mapping[str, GateState] = field(default_factory=dict)
    #: time since which each of them is set
    over_all_since: Mapping[str, datetime] = field(default_factory=dict)
    #: time since which a rule for every tenant, or an allocated quota, limits each tenant; None if none does
    since: datetime | None = None

    def concerns(self, tenant: str) -> bool:
        """Returns `True` if a quota can stop a job of the tenant. If not, nothing is read or counted for the job."""
        return self.since is not None or bool(self.defaults) or tenant in self.tenants

    def counts_needed_since(self, tenant: str) -> datetime | None:
        """Returns the time since which the tenant's jobs must be counted, or None if no quota can concern the tenant.

        An earlier count must be repeated.
        """
        since = [each for each in (self.tenants.get(tenant), self.since) if each is not None]
        return min(since, default=None)

    def list_platform_gates(self, job: object) -> Iterator[Gate]:
        """Yields the quotas over all tenants that a `Candidate` or `WaitingQueue` must pass, from narrow to broad."""
        if self.over_all:
            for kind in ALLOCATED:
                gate = Gate.over_all(kind, getattr(job, kind.key) if kind.key else "")
                if gate.id in self.over_all:
                    yield gate

    def find_rule(self, state: GateState) -> Rule | None:
        """Returns the most specific rule, or None if only a hold or a throttle can stop a job."""
        if state.rule is not None:
            return state.rule
        gate = state.gate
        if gate.kind in OVER_ALL:
            return known.rule if (known := self.over_all.get(gate.id)) is not None else None
        found = self.defaults.get((gate.kind, gate.name))
        return found or (self.defaults.get((gate.kind, EVERY)) if gate.name else None)
