"""Gates and what can shut them: a number, a rate, a hold, a throttle, a breaker (R48).

A gate belongs to a tenant: the tenant itself, one of its job types, or one of its sources. What an operator set for it
wins over the rule for every tenant (`*`), and that over a limit from the settings. A gate over all tenants is divided
among them (R54), or guards a service or a lane where a step is dispatched; its tenant is `*`.
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

#: in the place of a tenant, or of a job type: each of them
EVERY = "*"
#: the end of a tenant's lines where no rule names another: staged jobs
MAX_STAGED = 1_000
#: gates of one tenant for which something is set, since they are columns of one row
MAX_RULES = 100


class GateScope(Enum):
    """Which jobs a kind of gate concerns, and when LUCIUS asks it."""

    #: jobs of one tenant, at their start
    TENANT = auto()
    #: jobs of all tenants, at their start; its numbers are divided among the tenants (R54)
    PLATFORM = auto()
    #: steps of all tenants, when they are sent (R56)
    DISPATCH = auto()


_NUMBERS = frozenset({"max_active", "max_per_hour", "burst"})
_ALL_NUMBERS = _NUMBERS | {"max_staged", "emergency_max_active", "weight"}
_WITH_BREAKER = _NUMBERS | {"breaker"}


class GateKind(StrEnum):
    """What a gate counts."""

    scope: GateScope
    #: field of a job, a waiting queue or a step that holds the gate's name; empty: the gate counts each of them
    key: str
    #: an example of the gate's name; empty where it has none
    example: str
    #: members of a `Rule` that such a gate can have
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

    # of each scope from broad to narrow
    TENANT = ("tenant", GateScope.TENANT, "", "", _ALL_NUMBERS)
    TYPE = ("tenant/type", GateScope.TENANT, "job_type", "OCR", _WITH_BREAKER)
    SOURCE = ("tenant/source", GateScope.TENANT, "source", "scanner-7")
    PLATFORM = ("platform", GateScope.PLATFORM)
    MODE = ("mode", GateScope.PLATFORM, "mode", "BURST")
    PLATFORM_TYPE = ("type", GateScope.PLATFORM, "job_type", "OCR", _WITH_BREAKER)
    SERVICE = ("service", GateScope.DISPATCH, "service", "ocr", frozenset({"max_active"}))
    LANE = ("lane", GateScope.DISPATCH, "lane", "3", frozenset({"max_active"}))


#: gates of one tenant besides the tenant's own
PARTS = tuple(kind for kind in GateKind if kind.scope is GateScope.TENANT and kind.key)
#: limits over all tenants, from narrow to broad: a job takes its places in this order
ALLOCATED = tuple(kind for kind in reversed(GateKind) if kind.scope is GateScope.PLATFORM)
GUARDS = tuple(kind for kind in GateKind if kind.scope is GateScope.DISPATCH)
OVER_ALL = (*ALLOCATED, *GUARDS)


@dataclass(frozen=True)
class Gate:
    """Which gate; `name` is the job type, the source (normalised), the mode, the service or the lane's number, empty
    for a tenant's own and for the platform.
    """

    kind: GateKind
    tenant: str
    name: str = ""

    @property
    def id(self) -> str:
        """16 hex digits: for keys and routes, which a source could not stand in."""
        return _compute_id(self.kind, self.tenant, self.name)

    @property
    def words(self) -> str:
        """For people: `tenant acme, type OCR`, `type:OCR`."""
        if self.kind in OVER_ALL:
            return f"{self.kind}:{self.name}" if self.name else self.kind.value
        return f"tenant {self.tenant}" + (f", {self.kind.label} {self.name}" if self.kind.key else "")

    def name_of(self, key: str) -> str | None:
        """Returns the gate's name if that is a value of the field `key`, for example `job_type`; else None."""
        return self.name if self.kind.key == key else None

    @classmethod
    def over_all(cls, kind: GateKind, name: str = "") -> Gate:
        """One of `OVER_ALL`."""
        return cls(kind, EVERY, name)


#: an example of the name of each kind of gate over all tenants
OVER_ALL_EXAMPLES = [Gate.over_all(kind, kind.example).words for kind in (*reversed(ALLOCATED), *GUARDS)]


@lru_cache(maxsize=10_000)
def _compute_id(kind: GateKind, tenant: str, name: str) -> str:
    """Asked for each gate of each line at every look."""
    return digest(canonical_json([kind, tenant, name]))[:16]


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Numbers of a gate; None: no such limit."""

    #: jobs that are inside at once, at least 1
    max_active: int | None = None
    #: starts in an hour, at least 1
    max_per_hour: int | None = None
    #: starts that may come at once, at least 1; None: those of a minute
    burst: int | None = None
    #: of a tenant's gate: staged jobs, past which a request is refused
    max_staged: int | None = None
    #: of a tenant's gate: emergencies that pass every number and rate; None: an emergency is of high priority
    emergency_max_active: int | None = None
    #: of a tenant's gate: its share of what is divided among tenants, beside others' shares, at least 1; None: 1
    weight: int | None = None
    #: of a type's gate: while most of its jobs end badly nobody goes in
    breaker: BreakerRule | None = None
    #: a job that may not start is refused instead of staged
    rejects: bool = False
    #: the setting that it comes from; None: somebody made it
    setting: str | None = None

    @property
    def burst_tokens(self) -> int:
        if self.burst is not None:
            return self.burst
        return max(1, -(-(self.max_per_hour or 0) // 60))


@dataclass(frozen=True, kw_only=True)
class _Temporary:
    """What somebody does to a gate until it is resumed."""

    reason: str
    actor: str
    at: datetime
    #: ends by itself then; None: by somebody's resume
    until: datetime | None = None
    #: made by a caller of the tenant's own, who may end it; else by an operator
    own: bool = False

    def is_on(self, now: datetime) -> bool:
        return self.until is None or now < self.until


@dataclass(frozen=True, kw_only=True)
class Hold(_Temporary):
    """Nothing passes the gate."""


@dataclass(frozen=True, kw_only=True)
class Throttle(_Temporary):
    """A rate for a time, beside the rule's."""

    max_per_hour: int


@dataclass(frozen=True, kw_only=True)
class GateState:
    """What stands in the admission state for one gate."""

    gate: Gate
    #: None: the rule for every tenant counts
    rule: Rule | None = None
    #: counts the changes of rule, hold and throttle, and the resets of the breaker: the ETag of a change
    rule_seq: int = 0
    hold: Hold | None = None
    throttle: Throttle | None = None
    #: of the rate, in units of `shared.core.gates.rate`; None: full
    credit: int | None = None
    credit_at: datetime | None = None
    #: None: it has counted no end
    breaker: Breaker | None = None
    #: the head of the gate's log
    log_seq: int = 0
    log_hash: str = ""

    @property
    def max_active(self) -> int | None:
        """The number of its own rule; None: it has none."""
        return self.rule.max_active if self.rule is not None else None


@dataclass(frozen=True, kw_only=True)
class AdmissionBreaker:
    """What an admission state knows of the breaker of a gate over all tenants (R61); as new: the breaker never
    opened.
    """

    #: of the breaker, as this admission state learned it
    epoch: int = 0
    #: jobs whose ACTIVE.`breaker_epoch` is at least this were let in in that epoch; by `epoch_of`
    since: int = 0
    #: those that are inside
    active: int = 0
    #: it is not closed
    limited: bool = False
    #: of a limited one: it is open until then
    until: datetime | None = None
    #: ends of jobs of that epoch here, oldest first
    ring: tuple[End, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Share:
    """What a tenant has of a gate over all tenants (R54)."""

    gate: Gate
    #: it lets in while fewer of its jobs are inside, of those that its breaker's epoch counts
    slots: int = 0
    #: of the division that took from it last
    epoch: int = 0
    #: starts that were lent to it and not used, and all that ever were: a gift that comes twice counts once
    tokens: int = 0
    tokens_granted: int = 0
    #: milliseconds that its jobs were inside, up to `at`
    slot_ms: int = 0
    at: datetime | None = None
    breaker: AdmissionBreaker = field(default_factory=AdmissionBreaker)


@dataclass(frozen=True)
class Directory:
    """Which tenants have gates, as a process knows it: read once in some seconds, never for a job."""

    #: tenants whose own gates somebody set, and since when
    tenants: Mapping[str, datetime] = field(default_factory=dict)
    #: rules for every tenant, by `(kind, name)`; name `*` of a type: each that has none of its own
    defaults: Mapping[tuple[GateKind, str], Rule] = field(default_factory=dict)
    #: gates over all tenants for which something is set, by id
    over_all: Mapping[str, GateState] = field(default_factory=dict)
    #: since when each of them is
    over_all_since: Mapping[str, datetime] = field(default_factory=dict)
    #: since when a rule for every tenant, or a gate that is divided among them, concerns each; None: none does
    since: datetime | None = None

    def concerns(self, tenant: str) -> bool:
        """Whether any gate can keep a job of the tenant from starting: else nothing is read or counted for it."""
        return self.since is not None or bool(self.defaults) or tenant in self.tenants

    def counts_needed_since(self, tenant: str) -> datetime | None:
        """Since when the tenant's jobs are counted without a break: an admission state that was counted before is
        counted anew.
        """
        since = [each for each in (self.tenants.get(tenant), self.since) if each is not None]
        return min(since, default=None)

    def list_platform_gates(self, job: object) -> Iterator[Gate]:
        """Gates over all tenants that the job, a `Candidate` or a `Line`, has to pass, from narrow to broad."""
        if self.over_all:
            for kind in ALLOCATED:
                gate = Gate.over_all(kind, getattr(job, kind.key) if kind.key else "")
                if gate.id in self.over_all:
                    yield gate

    def find_rule(self, state: GateState) -> Rule | None:
        """The most specific one; None: nothing but a hold or a throttle shuts this gate."""
        if state.rule is not None:
            return state.rule
        gate = state.gate
        if gate.kind in OVER_ALL:
            return known.rule if (known := self.over_all.get(gate.id)) is not None else None
        found = self.defaults.get((gate.kind, gate.name))
        return found or (self.defaults.get((gate.kind, EVERY)) if gate.name else None)
