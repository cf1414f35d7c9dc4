"""Allocates a quota over all tenants among the tenants (R54).

A tenant admits jobs while fewer of its jobs are active than its share has slots. So an admission needs no more storage
operations than with only the tenant's own quotas. The allocation record has each tenant's grant. An allocation reclaims
slots that are due to other tenants, writes the record, and grants the free slots.

The sum of the grants exceeds the limit only by jobs that were active before, and by slots of unreadable tenants.
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
from shared.core.gates.rules import GateState, QuotaShare

#: maximum number of tenants in one allocation record
MAX_TENANTS = 1_000
#: maximum size of the accounts in UTF-16 characters, since a row has at most 1 MiB, and the size of one account
#: without its tenant's name
_MAX_CHARACTERS, _ACCOUNT_CHARACTERS = 450_000, 70
#: slot time that one granted slot adds, in milliseconds
_STEP_MS = 10_000


@dataclass(frozen=True, kw_only=True)
class Account:
    """The granted slots and starts of one tenant in the allocation record, and its slot time."""

    #: granted slots: those of the tenant's share, plus active jobs above them
    granted: int = 0
    #: slot time divided by weight, in milliseconds; the tenant with the least gets the next slot
    slot_time: int = 0
    #: part of the tenant's `slot_ms` that `slot_time` already includes
    counted_ms: int = 0
    #: `True` if the tenant requested starts at the last allocation, which left a request of a tenant unmet
    is_waiting: bool = False
    #: total number of starts that were ever granted
    tokens_granted: int = 0
    #: slots in use at the last allocation; until the next one, up to `granted` can be in use
    used: int = 0


@dataclass(frozen=True, kw_only=True)
class AllocationRecord:
    """The grants of a quota over all tenants, stored as one row."""

    gate_id: str
    #: number that each written allocation raises by one
    epoch: int = 0
    accounts: Mapping[str, Account] = field(default_factory=dict)
    #: start of the last allocation, or of a later count of all tenants
    allocated_at: datetime | None = None
    #: `True` if a tenant requested more than it was granted, or could not be included
    unmet: bool = False
    #: time from which the record includes the jobs of every tenant
    opened_at: datetime | None = None
    #: breaker of a job type's quota; None before the first allocation with a breaker in the rule
    breaker: Breaker | None = None
    #: last tenant that a running count has read
    opening: str | None = None
    #: tenants whose jobs could not be read; they share one reserve, which each of them has as `Account.granted`
    uncounted: frozenset[str] = frozenset()
    #: credit of the quota's rate, in units of `shared.core.gates.rate`
    credit: int | None = None
    credit_at: datetime | None = None

    @property
    def granted(self) -> int:
        return sum(account.granted for account in self.accounts.values())

    @property
    def is_limited(self) -> bool:
        """Returns `True` if the quota's breaker is open or half-open."""
        return self.breaker is not None and self.breaker.state is not BreakerState.CLOSED


def reserve_rest(record: AllocationRecord, limit: int) -> AllocationRecord:
    """Grants the rest of the limit to each uncounted tenant, since one such tenant can use the whole rest."""
    counted = sum(account.granted for tenant, account in record.accounts.items() if tenant not in record.uncounted)
    rest = max(0, limit - counted)
    reserved = {
        tenant: replace(account, granted=max(account.granted, rest), used=max(account.granted, rest))
        for tenant in record.uncounted
        if (account := record.accounts.get(tenant)) is not None
    }
    return replace(record, accounts={**record.accounts, **reserved})


def count_unread_grants(record: AllocationRecord, unread: Collection[str]) -> int:
    """Returns the slots reserved for tenants that could not be read. The uncounted tenants among them share one
    reserve.
    """
    reserves = [record.accounts[tenant].granted for tenant in unread if tenant in record.uncounted]
    counted = sum(record.accounts[tenant].granted for tenant in unread if tenant not in record.uncounted)
    return counted + max(reserves, default=0)


def count_room(record: AllocationRecord, joining: Sequence[str]) -> int:
    """Returns the number of joining tenants that fit into the row of the record."""
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
    """Returns the slots to grant, or None if the quota has neither `max_active` nor a limiting breaker.

    Active jobs of an earlier epoch count against `max_active`, and not against the breaker.
    """
    free = max(0, max_active - sum(demand.earlier for demand in demands)) if max_active is not None else None
    allowed = breakers.find_limit(breaker, now) if breaker is not None else None
    return min((each for each in (free, allowed) if each is not None), default=None)


def count_used(demand: Demand, granted: int) -> int:
    """Returns the slots that the tenant uses after its grant has admitted waiting jobs."""
    return max(demand.active, min(demand.needed, granted)) + demand.earlier


def has_room(record: AllocationRecord, max_active: int | None, tenant: str, active: int, now: datetime) -> bool:
    """Returns `True` if an allocation now can grant another slot to the tenant, which has `active` active jobs.

    The result is an estimate, since the record has other tenants' jobs as of the last allocation.
    """
    limit = count_slots(max_active, record.breaker, (), now)
    others = sum(account.used for each, account in record.accounts.items() if each != tenant)
    return limit is None or others + active < limit


def select_kept(demands: Sequence[Demand], granted: Mapping[str, int], now: datetime, *, has_breaker: bool) -> set[str]:
    """Returns the tenants to keep: all with slots or demand, and with `has_breaker` also those with jobs that ended in
    the last six hours.

    Tenants of the second kind are added only while the record is less than half full.
    """
    found = {demand.tenant for demand in demands if demand.needed or demand.earlier or granted[demand.tenant]}
    if has_breaker:
        ended = [
            each.tenant for each in demands if any(type_breaker.is_recent(end, now) for end in each.share.breaker.ring)
        ]
        found.update([tenant for tenant in ended if tenant not in found][: max(0, MAX_TENANTS // 2 - len(found))])
    return found


def accrue_accounts(record: AllocationRecord, demands: Sequence[Demand]) -> dict[str, Account]:
    """Returns the accounts with the slot time until now. The slot time of a tenant that did not wait is raised to the
    least slot time of the waiting tenants.
    """
    before = {demand.tenant: record.accounts.get(demand.tenant, Account()) for demand in demands}
    after = {}
    for demand in demands:
        account = before[demand.tenant]
        if demand.tenant not in record.accounts:
            account = replace(account, counted_ms=demand.slot_ms, tokens_granted=demand.share.tokens_granted)
        # a remainder below one millisecond, or time by which another clock is ahead, counts the next time
        spent = max(0, demand.slot_ms - account.counted_ms) // demand.weight
        seen_ms = account.counted_ms + spent * demand.weight
        after[demand.tenant] = replace(account, slot_time=account.slot_time + spent, counted_ms=seen_ms)
    times = [
        after[demand.tenant].slot_time for demand in demands if demand.requested and before[demand.tenant].is_waiting
    ]
    # if no tenant waited, all start level
    level = min(times, default=max((account.slot_time for account in after.values()), default=0))
    for demand in demands:
        account = after[demand.tenant]
        if not (demand.requested and before[demand.tenant].is_waiting):
            account = replace(account, slot_time=max(account.slot_time, level))
        after[demand.tenant] = replace(account, is_waiting=demand.requested > 0)
    return after


def compute_targets(limit: int, demands: Sequence[Demand], accounts: Mapping[str, Account]) -> dict[str, int]:
    """Returns the slots of each tenant. If the tenants need more slots than the limit, each free slot goes to the
    tenant with the least slot time. A higher weight makes the slot time grow more slowly.

    Otherwise each tenant gets at least the slots that the tenant needs. In a full record, tenants without demand get no
    slots.
    """
    if len(demands) >= MAX_TENANTS and (idle := {demand.tenant: 0 for demand in demands if not demand.needed}):
        return compute_targets(limit, [demand for demand in demands if demand.needed], accounts) | idle
    if sum(demand.needed for demand in demands) > limit:
        # a tenant without waiting jobs gets no new slots; its active jobs return theirs as they end
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
        # tenants that ran short get spare slots, so that they need not request an allocation for each job
        spare = free // max(1, len(short))
        return granted | {demand.tenant: demand.needed + spare for demand in short}
    spare = (limit - sum(demand.needed for demand in demands)) // max(1, len(demands))
    return {demand.tenant: demand.needed + spare for demand in demands}


def _share_out(
    slots: int, needs: Mapping[str, int], demands: Sequence[Demand], accounts: Mapping[str, Account]
) -> dict[str, int]:
    """Returns the slots granted to each tenant: one at a time to the tenant with the least slot time, up to its
    need.
    """
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
    """Returns the grants after the free slots are added to tenants below their targets.

    `granted` has the slots of each tenant after all reclaims.
    """
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
    """Grants starts of the quota's rate to jobs, first to the tenant with the least slot time. Returns the record, the
    accounts, and `True` if jobs request more starts.

    `limited` is True if the quota also grants slots. Only jobs with a slot then get a start.
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
    """Returns the time when the quota's rate allows another start, or None if a start is allowed now or the quota has
    no rate.
    """
    return rate.find_next_start(replace(state, credit=record.credit, credit_at=record.credit_at), state.rule, now)


def reclaim(share: QuotaShare, target: int, epoch: int) -> QuotaShare | None:
    """Returns the share with at most its target slots, or None if a later allocation has reclaimed slots from the
    share.
    """
    return replace(share, slots=min(share.slots, target), epoch=epoch) if share.epoch <= epoch else None


def grant(share: QuotaShare, account: Account, slots: int, epoch: int) -> QuotaShare:
    """Returns the share with its granted slots from the record. If a later allocation has reclaimed slots, returns the
    share unchanged, so that no slot is granted twice.
    """
    if share.epoch > epoch:
        return share
    tokens = share.tokens + max(0, account.tokens_granted - share.tokens_granted)
    granted = max(share.tokens_granted, account.tokens_granted)
    return replace(share, slots=max(share.slots, slots), tokens=tokens, tokens_granted=granted)
