"""Quotas and their limits: a number, a rate, a hold, a throttle, a breaker (R48).

A quota belongs to a tenant: the tenant itself, one of its job types, or one of its sources. Its own rule wins over the
rule for every tenant (`*`), and that over a limit from the settings. A quota over all tenants is allocated among them
(R54), or limits a service or a lane when a step is dispatched; its tenant is `*`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum, StrEnum, auto
from functools import lru_cache
from typing import Self

from shared.core.canonical import canonical_json, digest
from shared.core.gates.breaker import Breaker, BreakerRule, End

#: stands for each tenant, or for each job type
EVERY = "*"
#: maximum number of a tenant's staged jobs without another rule
MAX_STAGED = 1_000
#: maximum number of one tenant's quotas that are set, since they are columns of one row
MAX_RULES = 100


class GateScope(Enum):
    """The jobs that a kind of quota limits, and when LUCIUS checks it."""

    #: jobs of one tenant, at their start
    TENANT = auto()
    #: jobs of all tenants, at their start; its numbers are allocated among the tenants (R54)
    PLATFORM = auto()
    #: steps of all tenants, when they are sent (R56)
    DISPATCH = auto()


_NUMBERS = frozenset({"max_active", "max_per_hour", "burst"})
_ALL_NUMBERS = _NUMBERS | {"max_staged", "emergency_max_active", "weight"}
_WITH_BREAKER = _NUMBERS | {"breaker"}


class GateKind(StrEnum):
    """What a quota counts."""

    scope: GateScope
    #: field of a job, a waiting queue or a step that holds the quota's name; empty: the quota counts each of them
    key: str
    #: an example of the quota's name; empty if it has none
    example: str
    #: members of a `Rule` that such a quota can have
    limits: frozenset[str]
    #: word for the key in texts and in query parameters
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


#: quotas of one tenant besides the tenant's own
PARTS = tuple(kind for kind in GateKind if kind.scope is GateScope.TENANT and kind.key)
#: limits over all tenants, from narrow to broad: a job takes its slots in this order
ALLOCATED = tuple(kind for kind in reversed(GateKind) if kind.scope is GateScope.PLATFORM)
GUARDS = tuple(kind for kind in GateKind if kind.scope is GateScope.DISPATCH)
OVER_ALL = (*ALLOCATED, *GUARDS)


@dataclass(frozen=True)
class Gate:
    """The identity of a quota; `name` is the job type, the source (normalised), the mode, the service or the lane's
    number, empty for a tenant's own and for the platform.
    """

    kind: GateKind
    tenant: str
    name: str = ""

    @property
    def id(self) -> str:
        """Returns 16 hex digits for keys and routes, which a source's name does not fit."""
        return _compute_id(self.kind, self.tenant, self.name)

    @property
    def display_name(self) -> str:
        """Returns the text for people: `tenant acme, type OCR`, `type:OCR`."""
        if self.kind in OVER_ALL:
            return f"{self.kind}:{self.name}" if self.name else self.kind.value
        return f"tenant {self.tenant}" + (f", {self.kind.label} {self.name}" if self.kind.key else "")

    def name_of(self, key: str) -> str | None:
        """Returns the quota's name if that is a value of the field `key`, for example `job_type`; else None."""
        return self.name if self.kind.key == key else None

    @classmethod
    def over_all(cls, kind: GateKind, name: str = "") -> Gate:
        """Returns one of `OVER_ALL`."""
        return cls(kind, EVERY, name)


#: an example of the name of each kind of quota over all tenants
OVER_ALL_EXAMPLES = [Gate.over_all(kind, kind.example).display_name for kind in (*reversed(ALLOCATED), *GUARDS)]


@lru_cache(maxsize=10_000)
def _compute_id(kind: GateKind, tenant: str, name: str) -> str:
    """Cached: evaluated for each quota of each queue at every turn."""
    return digest(canonical_json([kind, tenant, name]))[:16]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The limits of a quota; None: no such limit."""

    #: maximum number of active jobs, at least 1
    max_active: int | None = None
    #: maximum starts in an hour, at least 1
    max_per_hour: int | None = None
    #: maximum starts at once, at least 1; None: those of a minute
    burst: int | None = None
    #: of a tenant's quota: maximum number of staged jobs; more are refused
    max_staged: int | None = None
    #: of a tenant's quota: maximum number of emergencies that pass every limit; None: an emergency has high priority
    emergency_max_active: int | None = None
    #: of a tenant's quota: its weight in allocations among tenants, at least 1; None: 1
    weight: int | None = None
    #: of a type's quota: stops jobs while most of its jobs end badly
    breaker: BreakerRule | None = None
    #: a job that may not start is refused instead of staged
    rejects: bool = False
    #: the setting that it comes from; None: an operator made it
    setting: str | None = None

    @property
    def burst_tokens(self) -> int:
        if self.burst is not None:
            return self.burst
        return max(1, -(-(self.max_per_hour or 0) // 60))


@dataclass(frozen=True, kw_only=True)
class _Temporary:
    """A change that lasts until a resume."""

    reason: str
    actor: str
    at: datetime
    #: end by time; None: only a resume ends it
    until: datetime | None = None
    #: made by a tenant's own caller, which may end it; else by an operator
    own: bool = False

    def is_on(self, now: datetime) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, kw_only=True)
class Hold(_Temporary):
    """No job passes the quota."""


@dataclass(frozen=True, kw_only=True)
class Throttle(_Temporary):
    """A rate beside the rule's."""

    max_per_hour: int


@dataclass(frozen=True, kw_only=True)
class GateState:
    """The columns of an admission state for one quota."""

    gate: Gate
    #: None: the rule for every tenant applies
    rule: Rule | None = None
    #: number of changes of rule, hold and throttle, and of resets of the breaker: the ETag of a change
    rule_seq: int = 0
    hold: Hold | None = None
    throttle: Throttle | None = None
    #: credit of the rate, in units of `shared.core.gates.rate`; None: full
    credit: int | None = None
    credit_at: datetime | None = None
    #: None: no end was counted
    breaker: Breaker | None = None
    #: number and hash of the last entry of the quota's log
    log_seq: int = 0
    log_hash: str = ""

    @property
    def max_active(self) -> int | None:
        """Returns the number of its own rule; None: it has none."""
        return self.rule.max_active if self.rule is not None else None


@dataclass(frozen=True, kw_only=True)
class AdmissionBreaker:
    """The state of a breaker over all tenants at an admission state (R61); as new if the breaker never opened."""

    #: epoch of the breaker that this admission state received last
    epoch: int = 0
    #: jobs whose ACTIVE.`breaker_epoch` is at least this were admitted in that epoch; by `find_epoch`
    since: int = 0
    #: active jobs of that epoch
    active: int = 0
    #: the breaker is not closed
    limited: bool = False
    #: end of the cool-down if the breaker is open
    until: datetime | None = None
    #: ends of jobs of that epoch at this admission state, oldest first
    ring: tuple[End, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Share:
    """A tenant's share of a quota over all tenants (R54)."""

    gate: Gate
    #: maximum number of active jobs of the breaker's epoch: the tenant admits jobs below it
    slots: int = 0
    #: epoch of the last allocation that reclaimed slots from it
    epoch: int = 0
    #: granted starts that are not used, and all that were ever granted: a repeated grant counts once
    tokens: int = 0
    tokens_granted: int = 0
    #: milliseconds that its jobs were active, up to `at`
    slot_ms: int = 0
    at: datetime | None = None
    breaker: AdmissionBreaker = field(default_factory=AdmissionBreaker)


@dataclass(frozen=True)
class Directory:
    """The quotas as a process knows them: read once in some seconds, never for a job."""

    #: tenants with quotas of their own, and since when
    tenants: Mapping[str, datetime] = field(default_factory=dict)
    #: rules for every tenant, by `(kind, name)`; name `*` of a type: each type without a rule of its own
    defaults: Mapping[tuple[GateKind, str], Rule] = field(default_factory=dict)
    #: quotas over all tenants that are set, by id
    over_all: Mapping[str, GateState] = field(default_factory=dict)
    #: the time since which each of them is set
    over_all_since: Mapping[str, datetime] = field(default_factory=dict)
    #: the time since which a rule for every tenant, or an allocated quota, limits each tenant; None: none does
    since: datetime | None = None

    def concerns(self, tenant: str) -> bool:
        """Returns whether a quota may stop a job of the tenant; else nothing is read or counted for it."""
        return self.since is not None or bool(self.defaults) or tenant in self.tenants

    def counts_needed_since(self, tenant: str) -> datetime | None:
        """Returns the time since which the tenant's jobs must be counted; an earlier count is repeated."""
        since = [each for each in (self.tenants.get(tenant), self.since) if each is not None]
        return min(since, default=None)

    def list_platform_gates(self, job: object) -> Iterator[Gate]:
        """Returns the quotas over all tenants that a `Candidate` or `WaitingQueue` must pass, from narrow to broad."""
        if self.over_all:
            for kind in ALLOCATED:
                gate = Gate.over_all(kind, getattr(job, kind.key) if kind.key else "")
                if gate.id in self.over_all:
                    yield gate

    def find_rule(self, state: GateState) -> Rule | None:
        """Returns the most specific rule; None: only a hold or a throttle can stop a job."""
        if state.rule is not None:
            return state.rule
        gate = state.gate
        if gate.kind in OVER_ALL:
            return known.rule if (known := self.over_all.get(gate.id)) is not None else None
        found = self.defaults.get((gate.kind, gate.name))
        return found or (self.defaults.get((gate.kind, EVERY)) if gate.name else None)
