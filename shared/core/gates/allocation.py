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
from datetime import datetime, timedelta

from shared.core.gates import breaker as breakers
from shared.core.gates import rate, type_breaker
from shared.core.gates.admission import evaluate_queue
from shared.core.gates.admission_state import AdmissionState, Candidate, GateVerdict, WaitingQueue, enter, is_emergency
from shared.core.gates.breaker import Breaker, BreakerState
from shared.core.gates.queue_position import lines_of
from shared.core.gates.rules import DIVIDED, Directory, Gate, GateKind, GateState, Share

#: tenants that stand in one allocation record
MAX_TENANTS = 1_000
#: of a row of 1 MiB, whose texts are UTF-16; and of an account beside its tenant's name
_MAX_CHARACTERS, _OF_AN_ACCOUNT = 450_000, 70
#: jobs of one tenant that a division counts as wanting a place; the next one counts anew
MAX_REQUESTED = 100
#: the place time that a place counts for while places are given out one by one
_STEP_MS = 10_000
_MILLISECOND = timedelta(milliseconds=1)
#: more than any limit
_ENDLESS = 1 << 40


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


@dataclass(frozen=True, kw_only=True)
class Demand:
    """A tenant as a division reads it."""

    tenant: str
    #: those that count against what it keeps; of a breaker that ever opened those of its epoch
    inside: int
    #: how many more of its jobs would go in, up to `MAX_REQUESTED`
    requested: int
    share: Share
    #: as of the division
    place_ms: int
    weight: int
    #: jobs inside of an older epoch, which nothing stops
    before: int = 0
    #: whether any job is in line
    has_line: bool = False
    #: its admission state knows an older epoch
    is_behind: bool = False

    @property
    def needed(self) -> int:
        return self.inside + self.requested


def with_reserve(record: AllocationRecord, limit: int) -> AllocationRecord:
    """Lends the rest of the limit to each tenant that is not counted: the maximum that it may have of it."""
    counted = sum(account.lent for tenant, account in record.accounts.items() if tenant not in record.uncounted)
    rest = max(0, limit - counted)
    reserved = {
        tenant: replace(account, lent=max(account.lent, rest), used=max(account.lent, rest))
        for tenant in record.uncounted
        if (account := record.accounts.get(tenant)) is not None
    }
    return replace(record, accounts={**record.accounts, **reserved})


def lent_to_unread(record: AllocationRecord, unread: Collection[str]) -> int:
    """Slots that a division leaves to tenants that it could not read; the reserve of several is the same slots."""
    reserves = [record.accounts[tenant].lent for tenant in unread if tenant in record.uncounted]
    counted = sum(record.accounts[tenant].lent for tenant in unread if tenant not in record.uncounted)
    return counted + max(reserves, default=0)


def room_for(record: AllocationRecord, joining: Sequence[str]) -> int:
    """How many of those who come the allocation record has room for, the first of them: it is one row."""
    characters = sum(len(tenant) + _OF_AN_ACCOUNT for tenant in record.accounts)
    found = 0
    for tenant in joining[: max(0, MAX_TENANTS - len(record.accounts))]:
        characters += len(tenant) + _OF_AN_ACCOUNT
        if characters > _MAX_CHARACTERS:
            break
        found += 1
    return found


def demand_of(
    admission: AdmissionState, directory: Directory, gate: Gate, now: datetime, coming: Candidate | None = None
) -> Demand:
    """`coming`: a new job that asks."""
    rule = directory.rule_of(admission.state(Gate(GateKind.TENANT, admission.tenant)))
    share, inside, counted = admission.share(gate), admission.inside_of(gate), admission.counted_of(gate)
    return Demand(
        tenant=admission.tenant,
        inside=counted,
        requested=requested(admission, directory, gate, now, coming),
        share=share,
        place_ms=_place_ms(share, inside, now),
        weight=(rule.weight if rule is not None else None) or 1,
        before=inside - counted,
        has_line=_is_in_line(admission, gate),
    )


def in_epoch(claim: Demand, breaker: Breaker) -> Demand:
    """The claim as it is once its admission state was told where the breaker stands."""
    if claim.share.breaker.epoch >= breaker.epoch:
        return claim
    share = type_breaker.start_epoch(claim.share, breaker, claim.inside)
    return replace(claim, share=share, inside=0, before=claim.before + claim.inside, is_behind=True)


def places(max_active: int | None, breaker: Breaker | None, claims: Iterable[Demand], now: datetime) -> int | None:
    """How many there are to lend; None: the gate has neither a number nor a breaker that is not closed.

    What is inside of an older epoch takes none of the breaker's, and all the same one of the number's.
    """
    free = max(0, max_active - sum(claim.before for claim in claims)) if max_active is not None else None
    allowed = breakers.limit(breaker, now) if breaker is not None else None
    return min((each for each in (free, allowed) if each is not None), default=None)


def used_by(claim: Demand, lent: int) -> int:
    """Returns the places that the tenant's jobs have once those that wait were let in by what it is lent."""
    return max(claim.inside, min(claim.needed, lent)) + claim.before


def has_room(record: AllocationRecord, max_active: int | None, tenant: str, inside: int, now: datetime) -> bool:
    """Whether a division now could lend another place to the tenant, of which `inside` jobs are inside.

    An estimate by the allocation record alone: of other tenants it knows the jobs that were inside at the last
    division.
    """
    limit = places(max_active, record.breaker, (), now)
    others = sum(account.used for each, account in record.accounts.items() if each != tenant)
    return limit is None or others + inside < limit


def in_record(claims: Sequence[Demand], lent: Mapping[str, int], now: datetime, *, has_breaker: bool) -> set[str]:
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


def requested(
    admission: AdmissionState, directory: Directory, gate: Gate, now: datetime, coming: Candidate | None = None
) -> int:
    """How many jobs in line would go in if this gate, and those over all tenants that are broader, had room.

    So a place of a broad gate is lent only to a job that the narrow ones let through, and none lies idle for another.
    """
    broader = DIVIDED[DIVIDED.index(gate.kind) :]
    for state in directory.over_all.values():
        if state.gate.kind in broader:
            share = admission.share(state.gate)
            known = replace(share.breaker, limited=False)
            admission = admission.with_share(replace(share, keep=_ENDLESS, tokens=_ENDLESS, breaker=known))
    lines = sorted(lines_of(admission, gate).values(), key=lambda line: line.head)
    if coming is not None and not is_emergency(admission, directory, coming.priority):
        line = WaitingQueue(job_type=coming.job_type, mode=coming.mode, source=coming.source, emergency=False, count=1)
        lines.append(line)
    found = 0
    for line in lines:
        for _ in range(line.count):
            if found == MAX_REQUESTED or any(
                verdict.blocked_by is not None for verdict in evaluate_queue(admission, directory, line, now)
            ):
                break
            admission = enter(admission, directory, _one_of(line), now)
            found += 1
    return found


def _one_of(line: WaitingQueue) -> Candidate:
    return Candidate(
        job_id="", job_type=line.job_type, mode=line.mode, source=line.source, priority="normal", rank=line.head
    )


def accounts_of(record: AllocationRecord, claims: Sequence[Demand]) -> dict[str, Account]:
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


def fair_targets(limit: int, claims: Sequence[Demand], accounts: Mapping[str, Account]) -> dict[str, int]:
    """How many places each shall keep: place by place, to the one with the least place time by its weight.

    In a full allocation record those who need none keep none.
    """
    if len(claims) >= MAX_TENANTS and (idle := {claim.tenant: 0 for claim in claims if not claim.needed}):
        return fair_targets(limit, [claim for claim in claims if claim.needed], accounts) | idle
    if sum(claim.needed for claim in claims) > limit:
        # who does not wait for more keeps none: what of it is inside comes back as it ends
        held = sum(claim.inside for claim in claims if not claim.requested)
        return _in_turns(
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


def _in_turns(
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


def lent_after(
    limit: int,
    goals: Mapping[str, int],
    lent: Mapping[str, int],
    claims: Sequence[Demand],
    accounts: Mapping[str, Account],
) -> dict[str, int]:
    """What is lent once what is free was given to those below their goals; `lent`: after all that was taken."""
    short = {tenant: goals[tenant] - lent[tenant] for tenant in goals if goals[tenant] > lent[tenant]}
    given = _in_turns(max(0, limit - sum(lent.values())), short, claims, accounts)
    return {tenant: count + given[tenant] for tenant, count in lent.items()}


def with_tokens(
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
    if rate.rate_of(state, state.rule, now) is None:
        return replace(record, credit=None, credit_at=None), dict(accounts), False
    at = rate.settled(replace(state, credit=record.credit, credit_at=record.credit_at), state.rule, now)
    credit = at.credit or 0
    wishes = {}
    for claim in claims:
        account = accounts[claim.tenant]
        unused = claim.share.tokens + account.tokens_lent - claim.share.tokens_lent
        may_start = min(claim.requested, max(0, account.lent - claim.inside)) if limited else claim.requested
        wishes[claim.tenant] = max(0, may_start - unused)
    given = _in_turns(max(0, credit // rate.START), wishes, claims, accounts)
    after = {
        tenant: replace(account, tokens_lent=account.tokens_lent + given.get(tenant, 0))
        for tenant, account in accounts.items()
    }
    left = replace(record, credit=credit - rate.START * sum(given.values()), credit_at=at.credit_at)
    return left, after, sum(wishes.values()) > sum(given.values())


def next_token(record: AllocationRecord, state: GateState, now: datetime) -> datetime | None:
    """When the gate's rate allows another start; None: now, or it has no rate."""
    return rate.next_start(replace(state, credit=record.credit, credit_at=record.credit_at), state.rule, now)


def taken(share: Share, goal: int, epoch: int) -> Share | None:
    """The share with no more than its goal; None: a later division has taken from it."""
    return replace(share, keep=min(share.keep, goal), epoch=epoch) if share.epoch <= epoch else None


def given(share: Share, account: Account, keep: int, epoch: int) -> Share:
    """The share with what the allocation record lends; the same where a later division has taken from it (else both
    were lent).
    """
    if share.epoch > epoch:
        return share
    tokens = share.tokens + max(0, account.tokens_lent - share.tokens_lent)
    lent = max(share.tokens_lent, account.tokens_lent)
    return replace(share, keep=max(share.keep, keep), tokens=tokens, tokens_lent=lent)


def accrue_slot_time(before: AdmissionState, after: AdmissionState, now: datetime) -> AdmissionState:
    """The admission state after a change, with the place time of what was inside until now."""
    shares = {
        # the clock of another may have been ahead
        id_: replace(share, place_ms=_place_ms(share, before.inside_of(share.gate), now), at=max(now, share.at or now))
        for id_, share in after.shares.items()
    }
    return replace(after, shares=shares) if shares else after


def owed(before: AdmissionState, after: AdmissionState, directory: Directory, now: datetime) -> list[tuple[Gate, bool]]:
    """The gates that have to be divided after a change of the admission state; True: since the tenant wants more.

    A tenant that goes on wanting is in the allocation record as such. One that has a place too many says so at each
    end. One that stops wanting says so once: the division takes what it keeps, so that each of its next ends is such an
    end.
    """
    found = []
    for state in directory.over_all.values():
        gate = state.gate
        if gate.kind not in DIVIDED:
            continue
        share, inside, held = after.share(gate), after.counted_of(gate), before.counted_of(gate)
        is_open = share.breaker.until is not None and share.breaker.until > now
        is_lent = share.breaker.limited or state.max_active is not None
        waited, waits = is_stopped(before, directory, gate, now), is_stopped(after, directory, gate, now)
        if waits and not waited:
            found.append((gate, True))
        elif not is_lent or is_open:
            continue
        elif max(share.keep, held) < inside:
            # an emergency, or one that somebody admitted: others get less
            found.append((gate, True))
        elif (
            share.keep <= inside < held
            or _before(after, gate) < _before(before, gate)
            or (share.keep > inside and _is_in_line(before, gate) and not _is_in_line(after, gate))
            or (waited and not waits)
        ):
            found.append((gate, False))
    return found


def _before(admission: AdmissionState, gate: Gate) -> int:
    return admission.inside_of(gate) - admission.counted_of(gate)


def is_stopped(admission: AdmissionState, directory: Directory, gate: Gate, now: datetime) -> bool:
    """Whether a division of the gate may let somebody in line go on."""
    return any(
        stopping_division(evaluate_queue(admission, directory, line, now)) == gate for line in admission.lines.values()
    )


def _is_in_line(admission: AdmissionState, gate: Gate) -> bool:
    return bool(lines_of(admission, gate))


def _place_ms(share: Share, inside: int, now: datetime) -> int:
    since = share.at or now
    return share.place_ms + inside * max(0, (now - since) // _MILLISECOND)


def stopping_division(found: Sequence[GateVerdict]) -> Gate | None:
    """The narrowest gate over all tenants that stops a job which nothing else does; None: no division helps it."""
    shut = [verdict for verdict in found if verdict.blocked_by is not None]
    return shut[0].gate if shut and all(verdict.needs_division for verdict in shut) else None
