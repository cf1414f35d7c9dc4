"""A limit over all tenants, divided among them (R54). Pure.

A tenant lets in through such a gate while fewer of its jobs are inside than it keeps: so a job costs no more than with
own gates. The allocation record of a gate says what is lent to whom; a division takes where others are due, writes the
allocation record, and gives what is free. The sum of what is lent never exceeds the limit but by what was inside
before.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from shared.core.gates import breaker as breakers
from shared.core.gates import rate, type_breaker
from shared.core.gates.breaker import Breaker, BreakerState
from shared.core.gates.demand import Demand
from shared.core.gates.rules import GateState, Share

#: tenants that stand in one allocation record
MAX_TENANTS = 1_000
#: of a row of 1 MiB, whose texts are UTF-16; and of an account beside its tenant's name
_MAX_CHARACTERS, _ACCOUNT_CHARACTERS = 450_000, 70
#: the place time that a place counts for while places are given out one by one
_STEP_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class Account:
    """What the allocation record says of one tenant."""

    #: places: at least what the tenant keeps, and what of it is inside
    granted: int = 0
    #: place milliseconds by weight, as they count against others
    slot_time: int = 0
    #: of the tenant's own count, what is in `time`
    counted_ms: int = 0
    #: whether it waited for more at the last division
    is_waiting: bool = False
    #: starts that were ever lent to it
    tokens_granted: int = 0
    #: places that its jobs had or got at the last division; until the next one they may become up to `lent`
    used: int = 0


@dataclass(frozen=True, kw_only=True)
class AllocationRecord:
    """To whom a gate over all tenants is lent: one row."""

    gate_id: str
    #: counts the divisions that were written
    epoch: int = 0
    accounts: Mapping[str, Account] = field(default_factory=dict)
    #: when the last division began
    allocated_at: datetime | None = None
    #: whether anybody requested more than it got
    unmet: bool = False
    #: since when the jobs of every tenant are in it
    opened_at: datetime | None = None
    #: of a job type: None: no division counted an end
    breaker: Breaker | None = None
    #: while they are being counted: the last tenant that was
    opening: str | None = None
    #: tenants whose jobs could not be read; each has the same reserve as `Account.lent`, which counts once
    uncounted: frozenset[str] = frozenset()
    #: of the gate's rate, in units of `shared.core.gates.rate`
    credit: int | None = None
    credit_at: datetime | None = None

    @property
    def granted(self) -> int:
        return sum(account.granted for account in self.accounts.values())

    @property
    def is_limited(self) -> bool:
        """Whether its breaker is not closed."""
        return self.breaker is not None and self.breaker.state is not BreakerState.CLOSED


def reserve_rest(record: AllocationRecord, limit: int) -> AllocationRecord:
    """Lends the rest of the limit to each tenant that is not counted: the maximum that it may have of it."""
    counted = sum(account.granted for tenant, account in record.accounts.items() if tenant not in record.uncounted)
    rest = max(0, limit - counted)
    reserved = {
        tenant: replace(account, granted=max(account.granted, rest), used=max(account.granted, rest))
        for tenant in record.uncounted
        if (account := record.accounts.get(tenant)) is not None
    }
    return replace(record, accounts={**record.accounts, **reserved})


def count_unread_grants(record: AllocationRecord, unread: Collection[str]) -> int:
    """Slots that a division leaves to tenants that it could not read; the reserve of several is the same slots."""
    reserves = [record.accounts[tenant].granted for tenant in unread if tenant in record.uncounted]
    counted = sum(record.accounts[tenant].granted for tenant in unread if tenant not in record.uncounted)
    return counted + max(reserves, default=0)


def count_room(record: AllocationRecord, joining: Sequence[str]) -> int:
    """How many of those who come the allocation record has room for, the first of them: it is one row."""
    characters = sum(len(tenant) + _ACCOUNT_CHARACTERS for tenant in record.accounts)
    found = 0
    for tenant in joining[: max(0, MAX_TENANTS - len(record.accounts))]:
        characters += len(tenant) + _ACCOUNT_CHARACTERS
        if characters > _MAX_CHARACTERS:
            break
        found += 1
    return found


def count_slots(
    max_active: int | None, breaker: Breaker | None, demands: Iterable[Demand], now: datetime
) -> int | None:
    """How many there are to lend; None: the gate has neither a number nor a breaker that is not closed.

    What is inside of an older epoch takes none of the breaker's, and all the same one of the number's.
    """
    free = max(0, max_active - sum(demand.earlier for demand in demands)) if max_active is not None else None
    allowed = breakers.find_limit(breaker, now) if breaker is not None else None
    return min((each for each in (free, allowed) if each is not None), default=None)


def count_used(demand: Demand, granted: int) -> int:
    """Returns the places that the tenant's jobs have once those that wait were let in by what it is lent."""
    return max(demand.active, min(demand.needed, granted)) + demand.earlier


def has_room(record: AllocationRecord, max_active: int | None, tenant: str, active: int, now: datetime) -> bool:
    """Whether a division now could lend another place to the tenant, of which `inside` jobs are inside.

    An estimate by the allocation record alone: of other tenants it knows the jobs that were inside at the last
    division.
    """
    limit = count_slots(max_active, record.breaker, (), now)
    others = sum(account.used for each, account in record.accounts.items() if each != tenant)
    return limit is None or others + active < limit


def select_kept(demands: Sequence[Demand], granted: Mapping[str, int], now: datetime, *, has_breaker: bool) -> set[str]:
    """Tenants that stay in the allocation record: that have or want something, and, as room allows, whose ends still
    count.
    """
    found = {demand.tenant for demand in demands if demand.needed or demand.earlier or granted[demand.tenant]}
    if has_breaker:
        ended = [
            each.tenant for each in demands if any(type_breaker.is_recent(end, now) for end in each.share.breaker.ring)
        ]
        found.update([tenant for tenant in ended if tenant not in found][: max(0, MAX_TENANTS // 2 - len(found))])
    return found


def accrue_accounts(record: AllocationRecord, demands: Sequence[Demand]) -> dict[str, Account]:
    """The accounts with the place time of now; who did not wait starts level with those who do."""
    before = {demand.tenant: record.accounts.get(demand.tenant, Account()) for demand in demands}
    after = {}
    for demand in demands:
        account = before[demand.tenant]
        if demand.tenant not in record.accounts:
            account = replace(account, counted_ms=demand.slot_ms, tokens_granted=demand.share.tokens_granted)
        # what is less than a millisecond by the weight counts the next time, as what another's clock was ahead
        spent = max(0, demand.slot_ms - account.counted_ms) // demand.weight
        seen_ms = account.counted_ms + spent * demand.weight
        after[demand.tenant] = replace(account, slot_time=account.slot_time + spent, counted_ms=seen_ms)
    times = [
        after[demand.tenant].slot_time for demand in demands if demand.requested and before[demand.tenant].is_waiting
    ]
    # while there was room for all nobody had less than it requested: all begin level
    level = min(times, default=max((account.slot_time for account in after.values()), default=0))
    for demand in demands:
        account = after[demand.tenant]
        if not (demand.requested and before[demand.tenant].is_waiting):
            account = replace(account, slot_time=max(account.slot_time, level))
        after[demand.tenant] = replace(account, is_waiting=demand.requested > 0)
    return after


def compute_targets(limit: int, demands: Sequence[Demand], accounts: Mapping[str, Account]) -> dict[str, int]:
    """How many places each shall keep: place by place, to the one with the least place time by its weight.

    In a full allocation record those who need none keep none.
    """
    if len(demands) >= MAX_TENANTS and (idle := {demand.tenant: 0 for demand in demands if not demand.needed}):
        return compute_targets(limit, [demand for demand in demands if demand.needed], accounts) | idle
    if sum(demand.needed for demand in demands) > limit:
        # who does not wait for more keeps none: what of it is inside comes back as it ends
        held = sum(demand.active for demand in demands if not demand.requested)
        return _share_out(
            max(0, limit - held),
            {demand.tenant: demand.needed for demand in demands if demand.requested},
            demands,
            accounts,
        )
    granted = {demand.tenant: accounts[demand.tenant].granted for demand in demands}
    short = [demand for demand in demands if demand.needed > granted[demand.tenant]]
    free = limit - sum(granted.values()) - sum(demand.needed - granted[demand.tenant] for demand in short)
    if free >= 0:
        # what nobody needs is lent to those who ran short, so that they do not come back for each job
        spare = free // max(1, len(short))
        return granted | {demand.tenant: demand.needed + spare for demand in short}
    spare = (limit - sum(demand.needed for demand in demands)) // max(1, len(demands))
    return {demand.tenant: demand.needed + spare for demand in demands}


def _share_out(
    slots: int, needs: Mapping[str, int], demands: Sequence[Demand], accounts: Mapping[str, Account]
) -> dict[str, int]:
    """So many places, one by one, to whom has the least place time; nobody gets more than its wish."""
    weights = {demand.tenant: demand.weight for demand in demands}
    granted = dict.fromkeys((demand.tenant for demand in demands), 0)

    def turn(tenant: str) -> tuple[int, str]:
        return accounts[tenant].slot_time + _STEP_MS * (granted[tenant] + 1) // weights[tenant], tenant

    turns = [turn(tenant) for tenant, need in needs.items() if need > 0]
    heapq.heapify(turns)
    while slots > 0 and turns:
        _, tenant = heapq.heappop(turns)
        granted[tenant], slots = granted[tenant] + 1, slots - 1
        if granted[tenant] < needs[tenant]:
            heapq.heappush(turns, turn(tenant))
    return granted


def compute_grants(
    limit: int,
    targets: Mapping[str, int],
    granted: Mapping[str, int],
    demands: Sequence[Demand],
    accounts: Mapping[str, Account],
) -> dict[str, int]:
    """What is lent once what is free was given to those below their goals; `lent`: after all that was taken."""
    short = {tenant: targets[tenant] - granted[tenant] for tenant in targets if targets[tenant] > granted[tenant]}
    given = _share_out(max(0, limit - sum(granted.values())), short, demands, accounts)
    return {tenant: count + given[tenant] for tenant, count in granted.items()}


def grant_tokens(
    record: AllocationRecord,
    state: GateState,
    demands: Sequence[Demand],
    accounts: Mapping[str, Account],
    now: datetime,
    *,
    limited: bool,
) -> tuple[AllocationRecord, dict[str, Account], bool]:
    """Starts of the gate's rate, lent in the same order to jobs that have a place; True: more are requested.

    `limited`: places are lent too.
    """
    if rate.find_rate(state, state.rule, now) is None:
        return replace(record, credit=None, credit_at=None), dict(accounts), False
    at = rate.accrue(replace(state, credit=record.credit, credit_at=record.credit_at), state.rule, now)
    credit = at.credit or 0
    needs = {}
    for demand in demands:
        account = accounts[demand.tenant]
        unused = demand.share.tokens + account.tokens_granted - demand.share.tokens_granted
        may_start = min(demand.requested, max(0, account.granted - demand.active)) if limited else demand.requested
        needs[demand.tenant] = max(0, may_start - unused)
    given = _share_out(max(0, credit // rate.START), needs, demands, accounts)
    after = {
        tenant: replace(account, tokens_granted=account.tokens_granted + given.get(tenant, 0))
        for tenant, account in accounts.items()
    }
    left = replace(record, credit=credit - rate.START * sum(given.values()), credit_at=at.credit_at)
    return left, after, sum(needs.values()) > sum(given.values())


def find_next_token(record: AllocationRecord, state: GateState, now: datetime) -> datetime | None:
    """When the gate's rate allows another start; None: now, or it has no rate."""
    return rate.find_next_start(replace(state, credit=record.credit, credit_at=record.credit_at), state.rule, now)


def reclaim(share: Share, target: int, epoch: int) -> Share | None:
    """The share with no more than its goal; None: a later division has taken from it."""
    return replace(share, slots=min(share.slots, target), epoch=epoch) if share.epoch <= epoch else None


def grant(share: Share, account: Account, slots: int, epoch: int) -> Share:
    """The share with what the allocation record lends; the same where a later division has taken from it (else both
    were lent).
    """
    if share.epoch > epoch:
        return share
    tokens = share.tokens + max(0, account.tokens_granted - share.tokens_granted)
    granted = max(share.tokens_granted, account.tokens_granted)
    return replace(share, slots=max(share.slots, slots), tokens=tokens, tokens_granted=granted)
