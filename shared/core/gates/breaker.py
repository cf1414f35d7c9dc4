"""The states of a job type's circuit breaker (R61): closed, open (no job starts) and half-open (a limited number of
jobs starts).

```
CLOSED --(too many bad ends)--> OPEN --(its cool-down is over)--> HALF_OPEN --(good ends, or enough time)--> CLOSED
                                 ^----------(one bad end)-------------'
```

An end (`JobEnd`) is the result of an ended job, good or bad. Each opening and each reset begins an epoch. The breaker
counts only jobs that were admitted in the epoch. Earlier jobs may have waited for a service that was down, and do not
show the present state of the service.

Half-open is a limit on active jobs. The limit doubles after an equal number of good ends. The limit grows by one in
each cool-down in which no job ends, so that no lost, paused or slow job keeps it low. A limit above 32 closes the
breaker, and so does a good end while no job waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

#: maximum number of ends in a breaker; the newest ones stay
MAX_ENDS = 50
#: maximum time for which a breaker is open, in seconds
MAX_COOLDOWN_S = 900
#: maximum age of an end that counts
MAX_AGE = timedelta(hours=6)
#: each re-opening doubles the cool-down; after this time closed, the cool-down of the rule applies again
_CALM_PERIOD = timedelta(hours=1)
#: maximum limit of a half-open breaker; a higher limit closes it
_MAX_LIMIT = 32


class BreakerState(StrEnum):
    """The state of a breaker, which decides on the number of jobs that can start."""

    #: every job may start
    CLOSED = "CLOSED"
    #: no job may start until `until`
    OPEN = "OPEN"
    #: at most `allow` jobs may be active
    HALF_OPEN = "HALF_OPEN"


@dataclass(frozen=True, kw_only=True)
class BreakerRule:
    """The conditions under which a breaker opens, and the first cool-down."""

    #: share of bad ends at which it opens: above 0, at most 1
    failure_rate: float = 0.5
    #: minimum number of ends, at most `MAX_ENDS`
    min_calls: int = 10
    #: cool-down after its first opening, in seconds, at most `MAX_COOLDOWN_S`
    cooldown_s: int = 60
    #: minimum number of tenants with bad ends, for a quota over all tenants; None means 2
    min_tenants: int | None = None


@dataclass(frozen=True)
class JobEnd:
    """The result and time of an admitted job that ended, as a breaker counts it."""

    at: datetime
    #: epoch of the breaker when the job was admitted
    epoch: int
    good: bool
    #: tenant of the job, at a quota over all tenants
    tenant: str = ""


@dataclass(frozen=True, kw_only=True)
class Breaker:
    """The stored values of a breaker. Before the first counted job or reset, the values are those of a new breaker."""

    state: BreakerState = BreakerState.CLOSED
    #: number that each opening and each reset raises; the end of a job counts only in the epoch of its admission
    epoch: int = 0
    #: ends in this epoch, oldest first
    ring: tuple[JobEnd, ...] = ()
    #: active jobs that were admitted in this epoch; counted from the first opening or reset on
    active: int = 0
    #: cool-down of its last opening, in seconds; 0 before the first opening and after a reset
    cooldown_s: int = 0
    opened_at: datetime | None = None
    #: bad ends and all ends at its last opening
    opened_by: tuple[int, int] = (0, 0)
    #: end of the cool-down of an open breaker
    until: datetime | None = None
    #: for a half-open breaker: maximum number of active jobs, good ends since the last doubling, and start of the wait
    #: for the next end
    allow: int = 0
    good: int = 0
    waits_since: datetime | None = None
    #: time of closing; None if it was never open, was reset, or is not closed
    closed_at: datetime | None = None

    @property
    def bad(self) -> int:
        """Returns the number of counted bad ends. For an open breaker, returns the number at its opening."""
        return self.opened_by[0] if self.state is BreakerState.OPEN else sum(not end.good for end in self.ring)

    @property
    def calls(self) -> int:
        """Returns the number of counted ends, good and bad. For an open breaker, returns the number at its opening."""
        return self.opened_by[1] if self.state is BreakerState.OPEN else len(self.ring)


def advance(breaker: Breaker, now: datetime) -> Breaker:
    """Returns the breaker at `now`. Returns the same object if no change is due."""
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
    """Returns the maximum number of active jobs of this epoch. 0 stops all starts, and None means no limit."""
    match (advanced := advance(breaker, now)).state:
        case BreakerState.CLOSED:
            return None
        case BreakerState.OPEN:
            return 0
        case BreakerState.HALF_OPEN:
            return advanced.allow


def find_next_change(breaker: Breaker, now: datetime) -> datetime | None:
    """Returns the time of the breaker's next change if no job ends, or None if the breaker has no limit."""
    advanced = advance(breaker, now)
    if advanced.state is BreakerState.OPEN:
        return advanced.until
    if advanced.state is BreakerState.HALF_OPEN and advanced.waits_since is not None:
        return advanced.waits_since + timedelta(seconds=advanced.cooldown_s)
    return None


def count_end(
    breaker: Breaker, rule: BreakerRule, end: JobEnd, now: datetime, *, has_waiting: bool, over_all: bool = False
) -> Breaker:
    """Returns the breaker after a job ended. If the breaker does not count the job, returns the breaker after the
    elapsed time.

    `has_waiting` is True if other jobs wait for the breaker's quota. `over_all` is True if the quota is over all
    tenants, so that one tenant alone cannot open a closed breaker.
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
            # the end of a job that an operator admitted past its quotas
            return breaker
        case BreakerState.HALF_OPEN:
            if not end.good:
                return _open(breaker, rule, now)
            if not has_waiting:
                return _close(breaker, now)
            good = breaker.good + 1
            is_doubled = good >= breaker.allow
            return _set_limit(breaker, breaker.allow * (1 + is_doubled), 0 if is_doubled else good, now)


def merge_ends(rings: Mapping[str, Iterable[JobEnd]], now: datetime) -> tuple[JobEnd, ...]:
    """Returns the newest ended jobs of all tenants, at most `MAX_ENDS`, oldest first, each with its tenant."""
    ends = [replace(end, tenant=tenant) for tenant, ring in rings.items() for end in ring if end.at > now - MAX_AGE]
    return tuple(sorted(ends, key=lambda each: (each.at, each.tenant))[-MAX_ENDS:])


def count_ends(
    breaker: Breaker, rule: BreakerRule, rings: Mapping[str, Iterable[JobEnd]], now: datetime, *, has_waiting: bool
) -> Breaker:
    """Returns the breaker of a quota over all tenants after the uncounted ends in `rings`.

    An end that arrives after 50 later ends is not counted.
    """
    new = merge_ends(rings, now)
    if len(breaker.ring) == MAX_ENDS:
        new = tuple(end for end in new if end.at >= breaker.ring[0].at)
    for end in (Counter(new) - Counter(breaker.ring)).elements():
        breaker = count_end(breaker, rule, end, now, has_waiting=has_waiting, over_all=True)
    return breaker


def pick_later(one: Breaker, other: Breaker) -> Breaker:
    """Returns the later of two stored states of the same breaker, or the first if both are equal."""
    return other if _get_stage(other) > _get_stage(one) else one


def _get_stage(breaker: Breaker) -> tuple[int, int]:
    order = (BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED)
    return breaker.epoch, order.index(breaker.state)


def reset(breaker: Breaker) -> Breaker:
    """Returns a closed breaker in a new epoch, or the same object if the breaker is already closed and new."""
    is_new = breaker.state is BreakerState.CLOSED and not breaker.ring and breaker.closed_at is None
    return breaker if is_new else Breaker(epoch=breaker.epoch + 1)


def encode_breaker(breaker: Breaker) -> dict[str, Any]:
    """Returns the breaker as JSON for the log."""
    advanced: dict[str, Any] = {"state": breaker.state.value, "epoch": breaker.epoch}
    advanced |= {"bad": breaker.bad, "calls": breaker.calls}
    if breaker.state is BreakerState.HALF_OPEN:
        advanced["allow"] = breaker.allow
    return advanced | ({"until": breaker.until.isoformat()} if breaker.until is not None else {})


def _must_open(ring: tuple[JobEnd, ...], rule: BreakerRule, *, over_all: bool) -> bool:
    """Returns `True` if the ends open the breaker.

    At a quota over all tenants, each tenant counts for at most half of the ends and half of the bad ends. The bad ends
    must be of `min_tenants` tenants or more (default 2). So failures of one tenant alone do not stop the other tenants.
    """
    bad = [end for end in ring if not end.good]
    if len(ring) < rule.min_calls or len(bad) / len(ring) < rule.failure_rate:
        return False
    if not over_all:
        return True
    capped_calls, capped_bad = _count_capped(ring), _count_capped(bad)
    enough = len({end.tenant for end in bad}) >= (2 if rule.min_tenants is None else rule.min_tenants)
    return enough and capped_calls >= rule.min_calls and capped_bad / capped_calls >= rule.failure_rate


def _count_capped(ends: Iterable[JobEnd]) -> int:
    """Returns the number of ends if each tenant counts for at most half of the ends."""
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
