"""A gate, who waits at it, and what was changed there."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from shared.responses.response import Cursor, Instant, JobId, Response

GateId = Annotated[str, Field(pattern="^[0-9a-f]{16}$", examples=["0f3a5b7c9d1e2f40"])]
GateKindName = Literal["tenant", "tenant/type", "tenant/source", "platform", "mode", "type", "service", "lane"]
ShutName = Literal["HELD", "FULL", "RATE", "BREAKER", "LINE"]


class QuotaBreakerRule(Response):
    """When a breaker opens."""

    failure_rate: float
    """Bad ends in all that count."""
    min_calls: int
    """Ends that have to count."""
    cooldown_s: int
    """Seconds that it is open the first time."""
    min_tenants: int | None = None
    """Of a gate over all tenants: tenants that the bad ends have to be of."""


class QuotaRule(Response):
    """Numbers of a gate; one that is not there limits nothing."""

    max_active: int | None = None
    """Jobs that are inside at once."""
    max_per_hour: int | None = None
    """Starts in an hour."""
    burst: int | None = None
    """Starts that may come at once."""
    max_staged: int | None = None
    """Jobs of the tenant that may wait."""
    emergency_max_active: int | None = None
    """Emergencies that pass every number and rate."""
    weight: int | None = None
    """The tenant's share of what is divided among tenants, beside others'; 1 where none is set."""
    breaker: QuotaBreakerRule | None = None
    """While too many of its jobs end badly nobody goes in, then few."""


class QuotaHold(Response):
    """Nobody passes the gate."""

    reason: str | None
    """First 200 characters; the log of the quota has the whole reason. Null: the quota is over all tenants, and the
    caller does not see all tenants."""
    actor: str | None
    """Null in the same case."""
    at: Instant
    until: Instant | None
    """Null: until somebody resumes."""


class QuotaThrottle(QuotaHold):
    """A rate for a time, beside the rule's."""

    max_per_hour: int


class QuotaShare(Response):
    """What a tenant has of a limit over all tenants."""

    tenant: str
    keep: int
    """It lets in while fewer of its jobs are inside; what others do not need is lent to it too."""
    active: int
    waiting: int


class QuotaBreaker(Response):
    """Where the breaker of a job type stands."""

    state: Literal["CLOSED", "OPEN", "HALF_OPEN"]
    """CLOSED: it limits nothing; OPEN: nobody goes in; HALF_OPEN: few do."""
    until: Instant | None
    """Of an open one: half-open from then on."""
    allow: int | None
    """Of a half-open one: so many jobs at once."""
    bad: int
    """Bad ends that count; of an open one those by which it opened."""
    calls: int
    """All ends that count, likewise."""


class QuotaLinks(Response):
    """Paths of this API about the gate."""

    self: str
    waiting: str
    log: str


class Quota(Response):
    """A gate: what is set for it, and its own numbers now."""

    id: GateId
    kind: GateKindName
    tenant: str
    """As it is compared: trimmed and lower-cased; `*`: every tenant."""
    name: str | None
    """Of a gate over all tenants: `platform`, `mode:BURST`, `type:OCR`, `service:ocr`, `lane:3`."""
    type: str | None
    """Of a gate of a job type; of tenant `*` also `*`: each type."""
    source: str | None
    """Of a gate of a source, trimmed and lower-cased."""
    etag: str
    """For `If-Match`: of rule, hold and throttle, not of the counts."""
    rule: QuotaRule | None
    """What somebody set for this very gate."""
    in_force: QuotaRule | None
    """The rule that counts; null: none does."""
    ruled_by: str | None
    """Where that comes from: `own`, `*` (the rule for every tenant) or the name of a setting."""
    hold: QuotaHold | None
    throttle: QuotaThrottle | None
    breaker: QuotaBreaker | None
    """Null: the rule in force has none."""
    active: int | None
    """Jobs inside; null for tenant `*`."""
    staged: int | None
    """Jobs that wait: of a tenant's gate all that were accepted and have not begun, else those in its lines."""
    tokens: int | None
    """Starts that its rate allows at once now; null: no rate is on."""
    next_start_at: Instant | None
    """When its rate allows the next one; null: now, or no rate is on."""
    shares: list[QuotaShare] | None
    """Of a limit over all tenants, what each of them has of it; a caller of one tenant sees that one."""
    oldest_wait_at: Instant | None
    """Since when the first in line has been there."""
    links: QuotaLinks


class QuotaPage(Response):
    """Gates, a tenant's own first."""

    quotas: list[Quota]
    next: Cursor


class QuotaChange(Response):
    """A gate before and after a change; the numbers are those of now."""

    changed: bool
    """False: it was so already, and nothing was written."""
    before: dict[str, Any]
    """`rule`, `hold` and `throttle`; null where there was none."""
    after: dict[str, Any]
    """The same now."""
    quota: Quota
    dryRun: bool = False
    released: int | None = None
    """Dry run: jobs in line that would go in at once, counted to 1,000."""
    held_back: int | None = None
    """Dry run: jobs in line for this gate that would go on waiting, counted to 1,000."""


class WaitingJob(Response):
    """A job in line."""

    jobId: JobId
    position: Annotated[int, Field(ge=1)]
    """Among those that wait for the gate."""
    request_type: str
    source: str | None
    priority: str
    created_at: Instant
    stopped_by: GateId
    """The gate that keeps it."""
    gate: str
    """The same in words."""
    why: ShutName
    """HELD: held; FULL: as many inside as may be; RATE: its rate; BREAKER: too many of its jobs ended badly; LINE:
    others are before it."""
    nextEligibleAt: Instant | None
    """An estimate, by time alone; null: only an end or a person lets it in."""


class WaitingPage(Response):
    """Who waits for a gate, in order: the first thousand."""

    waiting: list[WaitingJob]
    total: int
    """How many wait, by the counts of the lines."""
    next: Cursor


class QuotaLogEntry(Response):
    """One change of a gate: numbered without gaps, chained to the one before by its hash."""

    gate_id: GateId
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["RULE_SET"])]
    actor: str
    reason: str
    at: Instant
    data: dict[str, Any]
    """`before` and `after`; with `breaker` where that moved."""
    prev_hash: str
    hash: str


class QuotaLogPage(Response):
    """The changes of a gate, in order."""

    entries: list[QuotaLogEntry]
    next: Cursor
