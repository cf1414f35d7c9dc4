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
    lent: int = 0
    #: place milliseconds by weight, as they count against others
    time: int = 0
    #: of the tenant's own count, what is in `time`
    seen_ms: int = 0
    #: whether it waited for more at the last division
    requested: bool = False
    #: starts that were ever lent to it
    tokens_lent: int = 0
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
    divided_at: datetime | None = None
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
    def lent(self) -> int:
        return sum(account.lent for account in self.accounts.values())

    @property
    def is_limited(self) -> bool:
        """Whether its breaker is not closed."""
        return self.breaker is not None and self.breaker.state is not BreakerState.CLOSED


def reserve_rest(record: AllocationRecord, limit: int) -> AllocationRecord:
    """Lends the rest of the limit to each tenant that is not counted: the maximum that it may have of it."""
    counted = sum(account.lent for tenant, account in record.accounts.items() if tenant not in record.uncounted)
    rest = max(0, limit - counted)
    reserved = {
        tenant: replace(account, lent=max(account.lent, rest), used=max(account.lent, rest))
        for tenant in record.uncounted
        if (account := record.accounts.get(tenant)) is not None
    }
    return replace(record, accounts={**record.accounts, **reserved})


def count_unread_grants(record: AllocationRecord, unread: Collection[str]) -> int:
    """Slots that a division leaves to tenants that it could not read; the reserve of several is the same slots."""
    reserves = [record.accounts[tenant].lent for tenant in unread if tenant in record.uncounted]
    counted = sum(record.accounts[tenant].lent for tenant in unread if tenant not in record.uncounted)
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


def count_slots(max_active: int | None, breaker: Breaker | None, claims: Iterable[Demand], now: datetime) -> int | None:
    """How many there are to lend; None: the gate has neither a number nor a breaker that is not closed.

    What is inside of an older epoch takes none of the breaker's, and all the same one of the number's.
    """
    free = max(0, max_active - sum(claim.before for claim in claims)) if max_active is not None else None
    allowed = breakers.find_limit(breaker, now) if breaker is not None else None
    return min((each for each in (free, allowed) if each is not None), default=None)


def count_used(claim: Demand, lent: int) -> int:
    """Returns the places that the tenant's jobs have once those that wait were let in by what it is lent."""
    return max(claim.inside, min(claim.needed, lent)) + claim.before


def has_room(record: AllocationRecord, max_active: int | None, tenant: str, inside: int, now: datetime) -> bool:
    """Whether a division now could lend another place to the tenant, of which `inside` jobs are inside.

    An estimate by the allocation record alone: of other tenants it knows the jobs that were inside at the last
    division.
    """
    limit = count_slots(max_active, record.breaker, (), now)
    others = sum(account.used for each, account in record.accounts.items() if each != tenant)
    return limit is None or others + inside < limit


def select_kept(claims: Sequence[Demand], lent: Mapping[str, int], now: datetime, *, has_breaker: bool) -> set[str]:
    """Tenants that stay in the allocation record: that have or want something, and, as room allows, whose ends still
    count.
    """
    found = {claim.tenant for claim in claims if claim.needed or claim.before or lent[claim.tenant]}
    if has_breaker:
        ended = [
            each.tenant for each in claims if any(type_breaker.is_recent(end, now) for end in each.share.breaker.ring)
        ]
        found.update([tenant for tenant in ended if tenant not in found][: max(0, MAX_TENANTS // 2 - len(found))])
    return found


def accrue_accounts(record: AllocationRecord, claims: Sequence[Demand]) -> dict[str, Account]:
    """The accounts with the place time of now; who did not wait starts level with those who do."""
    before = {claim.tenant: record.accounts.get(claim.tenant, Account()) for claim in claims}
    after = {}
    for claim in claims:
        account = before[claim.tenant]
        if claim.tenant not in record.accounts:
            account = replace(account, seen_ms=claim.place_ms, tokens_lent=claim.share.tokens_lent)
        # what is less than a millisecond by the weight counts the next time, as what another's clock was ahead
        spent = max(0, claim.place_ms - account.seen_ms) // claim.weight
        seen_ms = account.seen_ms + spent * claim.weight
        after[claim.tenant] = replace(account, time=account.time + spent, seen_ms=seen_ms)
    waited = [after[claim.tenant].time for claim in claims if claim.requested and before[claim.tenant].requested]
    # while there was room for all nobody had less than it requested: all begin level
    level = min(waited, default=max((account.time for account in after.values()), default=0))
    for claim in claims:
        account = after[claim.tenant]
        if not (claim.requested and before[claim.tenant].requested):
            account = replace(account, time=max(account.time, level))
        after[claim.tenant] = replace(account, requested=claim.requested > 0)
    return after


def compute_targets(limit: int, claims: Sequence[Demand], accounts: Mapping[str, Account]) -> dict[str, int]:
    """How many places each shall keep: place by place, to the one with the least place time by its weight.

    In a full allocation record those who need none keep none.
    """
    if len(claims) >= MAX_TENANTS and (idle := {claim.tenant: 0 for claim in claims if not claim.needed}):
        return compute_targets(limit, [claim for claim in claims if claim.needed], accounts) | idle
    if sum(claim.needed for claim in claims) > limit:
        # who does not wait for more keeps none: what of it is inside comes back as it ends
        held = sum(claim.inside for claim in claims if not claim.requested)
        return _share_out(
            max(0, limit - held), {claim.tenant: claim.needed for claim in claims if claim.requested}, claims, accounts
        )
    lent = {claim.tenant: accounts[claim.tenant].lent for claim in claims}
    short = [claim for claim in claims if claim.needed > lent[claim.tenant]]
    free = limit - sum(lent.values()) - sum(claim.needed - lent[claim.tenant] for claim in short)
    if free >= 0:
        # what nobody needs is lent to those who ran short, so that they do not come back for each job
        spare = free // max(1, len(short))
        return lent | {claim.tenant: claim.needed + spare for claim in short}
    spare = (limit - sum(claim.needed for claim in claims)) // max(1, len(claims))
    return {claim.tenant: claim.needed + spare for claim in claims}


def _share_out(
    places: int, wishes: Mapping[str, int], claims: Sequence[Demand], accounts: Mapping[str, Account]
) -> dict[str, int]:
    """So many places, one by one, to whom has the least place time; nobody gets more than its wish."""
    weights = {claim.tenant: claim.weight for claim in claims}
    got = dict.fromkeys((claim.tenant for claim in claims), 0)

    def turn(tenant: str) -> tuple[int, str]:
        return accounts[tenant].time + _STEP_MS * (got[tenant] + 1) // weights[tenant], tenant

    turns = [turn(tenant) for tenant, wish in wishes.items() if wish > 0]
    heapq.heapify(turns)
    while places > 0 and turns:
        _, tenant = heapq.heappop(turns)
        got[tenant], places = got[tenant] + 1, places - 1
        if got[tenant] < wishes[tenant]:
            heapq.heappush(turns, turn(tenant))
    return got


def compute_grants(
    limit: int,
    goals: Mapping[str, int],
    lent: Mapping[str, int],
    claims: Sequence[Demand],
    accounts: Mapping[str, Account],
) -> dict[str, int]:
    """What is lent once what is free was given to those below their goals; `lent`: after all that was taken."""
    short = {tenant: goals[tenant] - lent[tenant] for tenant in goals if goals[tenant] > lent[tenant]}
    given = _share_out(max(0, limit - sum(lent.values())), short, claims, accounts)
    return {tenant: count + given[tenant] for tenant, count in lent.items()}


def grant_tokens(
    record: AllocationRecord,
    state: GateState,
    claims: Sequence[Demand],
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
    wishes = {}
    for claim in claims:
        account = accounts[claim.tenant]
        unused = claim.share.tokens + account.tokens_lent - claim.share.tokens_lent
        may_start = min(claim.requested, max(0, account.lent - claim.inside)) if limited else claim.requested
        wishes[claim.tenant] = max(0, may_start - unused)
    given = _share_out(max(0, credit // rate.START), wishes, claims, accounts)
    after = {
        tenant: replace(account, tokens_lent=account.tokens_lent + given.get(tenant, 0))
        for tenant, account in accounts.items()
    }
    left = replace(record, credit=credit - rate.START * sum(given.values()), credit_at=at.credit_at)
    return left, after, sum(wishes.values()) > sum(given.values())


def find_next_token(record: AllocationRecord, state: GateState, now: datetime) -> datetime | None:
    """When the gate's rate allows another start; None: now, or it has no rate."""
    return rate.find_next_start(replace(state, credit=record.credit, credit_at=record.credit_at), state.rule, now)


def reclaim(share: Share, goal: int, epoch: int) -> Share | None:
    """The share with no more than its goal; None: a later division has taken from it."""
    return replace(share, keep=min(share.keep, goal), epoch=epoch) if share.epoch <= epoch else None


def grant(share: Share, account: Account, keep: int, epoch: int) -> Share:
    """The share with what the allocation record lends; the same where a later division has taken from it (else both
    were lent).
    """
    if share.epoch > epoch:
        return share
    tokens = share.tokens + max(0, account.tokens_lent - share.tokens_lent)
    lent = max(share.tokens_lent, account.tokens_lent)
    return replace(share, keep=max(share.keep, keep), tokens=tokens, tokens_lent=lent)
