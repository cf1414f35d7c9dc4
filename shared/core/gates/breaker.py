"""The life of a circuit breaker (R61): while most jobs of a type end badly it lets nobody in, then few, then all. Pure.

```
CLOSED --(too many bad ends)--> OPEN --(its cool-down is over)--> HALF_OPEN --(good ends, or nobody waits)--> CLOSED
                                 ^----------(one bad end)-------------'
```

Each opening begins an epoch, and only ends of jobs that were let in since then count: what was inside when it opened,
or waited with the service away, says nothing about the service now. Half-open is a limit that doubles after as many
good ends; while no end comes it grows by one in each cool-down, so that no lost, paused or slow job holds it shut.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

#: ends of jobs that a breaker keeps, the newest ones
MAX_ENDS = 50
#: the longest time for which a breaker is open, in seconds
MAX_COOLDOWN_S = 900
#: how old an end may be that counts
MAX_AGE = timedelta(hours=6)
#: each re-opening doubles the cool-down; after so long closed it is the rule's again
_CALM_PERIOD = timedelta(hours=1)
#: past so many jobs at once nothing is limited any more
_MAX_LIMIT = 32


class BreakerState(StrEnum):
    """What it does with those who want to go in."""

    #: all may
    CLOSED = "CLOSED"
    #: nobody may, until `until`
    OPEN = "OPEN"
    #: `allow` jobs at once
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True, kw_only=True)
class BreakerRule:
    """When it opens."""

    #: bad ends in all that count, above 0, at most 1
    failure_rate: float = 0.5
    #: ends that have to count, at most `RING`
    min_calls: int = 10
    #: of its first opening, in seconds, at most `MAX_COOLDOWN_S`
    cooldown_s: int = 60
    #: of a gate over all tenants: tenants that bad ends must be of; None: 2
    min_tenants: int | None = None


@dataclass(frozen=True)
class End:
    """The end of a job that had been let in."""

    at: datetime
    #: of the breaker, when the job was let in
    epoch: int
    good: bool
    #: whose job it was, at a gate over all tenants
    tenant: str = ""


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """Where it stands; one that never counted an end is as new."""

    state: BreakerState = BreakerState.CLOSED
    #: counts openings and resets; a job's end counts in that of its admission only
    epoch: int = 0
    #: ends of this epoch, oldest first
    ring: tuple[End, ...] = ()
    #: jobs inside that were let in in this epoch; kept from the first opening on
    active: int = 0
    #: of its last opening; 0: it never opened
    cooldown_s: int = 0
    opened_at: datetime | None = None
    #: bad ends and all ends by which it opened
    opened_by: tuple[int, int] = (0, 0)
    #: of an open one: its cool-down is over then
    until: datetime | None = None
    #: of a half-open one: jobs at once, good ends since that last doubled, and since when it waits for the next end
    allow: int = 0
    good: int = 0
    waits_since: datetime | None = None
    #: of a closed one: since when; None: it was never open, or somebody reset it
    closed_at: datetime | None = None

    @property
    def bad(self) -> int:
        """Bad ends that count; of an open one those by which it opened."""
        return self.opened_by[0] if self.state is BreakerState.OPEN else sum(not end.good for end in self.ring)

    @property
    def calls(self) -> int:
        """All ends that count, likewise."""
        return self.opened_by[1] if self.state is BreakerState.OPEN else len(self.ring)


def advance(breaker: Breaker, now: datetime) -> Breaker:
    """What time alone made of it; the very same where that is nothing. A clock behind another's changes nothing."""
    if breaker.state is BreakerState.OPEN and breaker.until is not None and breaker.until <= now:
        breaker = replace(breaker, state=BreakerState.HALF_OPEN, until=None, allow=1, good=0, waits_since=breaker.until)
    if breaker.state is BreakerState.HALF_OPEN and breaker.waits_since is not None:
        cooldown = timedelta(seconds=breaker.cooldown_s)
        grown = min(max(0, (now - breaker.waits_since) // cooldown), _MAX_LIMIT + 1 - breaker.allow)
        if grown:
            since = breaker.waits_since + grown * cooldown
            breaker = _set_limit(breaker, breaker.allow + grown, breaker.good, since)
    return breaker


def find_limit(breaker: Breaker, now: datetime) -> int | None:
    """How many jobs of this epoch may be inside; 0: nobody goes in; None: it limits nothing."""
    match (advanced := advance(breaker, now)).state:
        case BreakerState.CLOSED:
            return None
        case BreakerState.OPEN:
            return 0
        case BreakerState.HALF_OPEN:
            return advanced.allow


def find_next_change(breaker: Breaker, now: datetime) -> datetime | None:
    """When time alone changes its limit next; None: it limits nothing."""
    advanced = advance(breaker, now)
    if advanced.state is BreakerState.OPEN:
        return advanced.until
    if advanced.state is BreakerState.HALF_OPEN and advanced.waits_since is not None:
        return advanced.waits_since + timedelta(seconds=advanced.cooldown_s)
    return None


def count_end(
    breaker: Breaker, rule: BreakerRule, end: End, now: datetime, *, has_waiting: bool, over_all: bool = False
) -> Breaker:
    """The breaker after the end of a job; `has_waiting`: others wait for its gate. The very same where it does not count.

    `over_all`: of a gate over all tenants, where no tenant decides alone.
    """
    breaker = advance(breaker, now)
    if end.epoch != breaker.epoch:
        return breaker
    recent = (each for each in (*breaker.ring, end) if each.at > now - MAX_AGE)
    breaker = replace(breaker, ring=tuple(sorted(recent, key=lambda each: each.at))[-MAX_ENDS:])
    match breaker.state:
        case BreakerState.CLOSED:
            return _open(breaker, rule, now) if _must_open(breaker.ring, rule, over_all=over_all) else breaker
        case BreakerState.OPEN:
            # of a job that somebody let in past its gates
            return breaker
        case BreakerState.HALF_OPEN:
            if not end.good:
                return _open(breaker, rule, now)
            if not has_waiting:
                return _close(breaker, now)
            good = breaker.good + 1
            is_doubled = good >= breaker.allow
            return _set_limit(breaker, breaker.allow * (1 + is_doubled), 0 if is_doubled else good, now)


def merge_ends(rings: Mapping[str, Iterable[End]], now: datetime) -> tuple[End, ...]:
    """The newest ends of all tenants, oldest first, each with its tenant."""
    ends = [replace(end, tenant=tenant) for tenant, ring in rings.items() for end in ring if end.at > now - MAX_AGE]
    return tuple(sorted(ends, key=lambda each: (each.at, each.tenant))[-MAX_ENDS:])


def count_ends(
    breaker: Breaker, rule: BreakerRule, rings: Mapping[str, Iterable[End]], now: datetime, *, has_waiting: bool
) -> Breaker:
    """The breaker of a gate over all tenants after the ends that are in their rings and not yet in its own.

    An end that comes after fifty later ones is not counted any more.
    """
    new = merge_ends(rings, now)
    if len(breaker.ring) == MAX_ENDS:
        new = tuple(end for end in new if end.at >= breaker.ring[0].at)
    for end in (Counter(new) - Counter(breaker.ring)).elements():
        breaker = count_end(breaker, rule, end, now, has_waiting=has_waiting, over_all=True)
    return breaker


def pick_later(one: Breaker, other: Breaker) -> Breaker:
    """Of two readings of the same breaker the later one; the first where both say the same."""
    return other if _get_stage(other) > _get_stage(one) else one


def _get_stage(breaker: Breaker) -> tuple[int, int]:
    order = (BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED)
    return breaker.epoch, order.index(breaker.state)


def reset(breaker: Breaker) -> Breaker:
    """Closed, as new, in an epoch of its own; the very same where it is so already."""
    is_new = breaker.state is BreakerState.CLOSED and not breaker.ring and breaker.closed_at is None
    return breaker if is_new else Breaker(epoch=breaker.epoch + 1)


def to_json(breaker: Breaker) -> dict[str, Any]:
    """As JSON, for the log."""
    advanced: dict[str, Any] = {"state": breaker.state.value, "epoch": breaker.epoch}
    advanced |= {"bad": breaker.bad, "calls": breaker.calls}
    if breaker.state is BreakerState.HALF_OPEN:
        advanced["allow"] = breaker.allow
    return advanced | ({"until": breaker.until.isoformat()} if breaker.until is not None else {})


def _must_open(ring: tuple[End, ...], rule: BreakerRule, *, over_all: bool) -> bool:
    """Of a gate over all tenants no tenant counts for more than half, neither of the ends nor of the bad ones: what it
    has more does not count, so that one that sends broken documents shuts the gate for nobody else.
    """
    bad = [end for end in ring if not end.good]
    if len(ring) < rule.min_calls or len(bad) / len(ring) < rule.failure_rate:
        return False
    if not over_all:
        return True
    capped_calls, capped_bad = _count_capped(ring), _count_capped(bad)
    enough = len({end.tenant for end in bad}) >= (2 if rule.min_tenants is None else rule.min_tenants)
    return enough and capped_calls >= rule.min_calls and capped_bad / capped_calls >= rule.failure_rate


def _count_capped(ends: Iterable[End]) -> int:
    """How many count where no tenant counts for more than half."""
    by_tenant = Counter(end.tenant for end in ends)
    most, total = max(by_tenant.values(), default=0), by_tenant.total()
    return min(total, 2 * (total - most))


def _open(breaker: Breaker, rule: BreakerRule, now: datetime) -> Breaker:
    is_reopened = breaker.state is BreakerState.HALF_OPEN or (
        breaker.closed_at is not None and now < breaker.closed_at + _CALM_PERIOD
    )
    cooldown_s = min(2 * breaker.cooldown_s, max(MAX_COOLDOWN_S, rule.cooldown_s)) if is_reopened else rule.cooldown_s
    return Breaker(
        state=BreakerState.OPEN,
        epoch=breaker.epoch + 1,
        cooldown_s=cooldown_s,
        opened_at=now,
        opened_by=(breaker.bad, breaker.calls),
        until=now + timedelta(seconds=cooldown_s),
    )


def _set_limit(breaker: Breaker, allow: int, good: int, since: datetime) -> Breaker:
    if allow > _MAX_LIMIT:
        return _close(breaker, since)
    return replace(breaker, allow=allow, good=good, waits_since=since)


def _close(breaker: Breaker, now: datetime) -> Breaker:
    return replace(breaker, state=BreakerState.CLOSED, allow=0, good=0, waits_since=None, closed_at=now)
