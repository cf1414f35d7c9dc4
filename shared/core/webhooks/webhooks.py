"""Webhooks: the endpoints that get a tenant's public events, and the result of each delivery (R84, R85)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from shared.core.chained_log import Entry

#: the hook that stands for the `callback_urls` of a tenant's jobs: it has a secret and deliveries, and no address
DEFAULT_HOOK = "default"
#: entries of a log that are shown, and kept
MAX_LOG = 1_000


class HookFormat(StrEnum):
    """What the body of a delivery is."""

    CLOUDEVENTS = "cloudevents"
    """The event as it stands in the feed."""
    SLACK = "slack"
    """A message for an incoming webhook of Slack."""
    TEAMS = "teams"
    """A message with an adaptive card, for a workflow of Teams."""


class HookState(StrEnum):
    """Whether a hook gets events."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"
    """By a caller, or because its receiver answered 410: events of this time are not for it."""
    SUSPENDED = "SUSPENDED"
    """Nothing was delivered for a day: its events wait until an operator resumes it."""


@dataclass(frozen=True, kw_only=True)
class HookFilter:
    """Which events a hook gets; an empty member lets all in."""

    types: frozenset[str] = frozenset()
    job_types: frozenset[str] = frozenset()
    #: each of them has to be the job's
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SecretVersion:
    """Which secret it is; the secret itself is derived from the key and stands nowhere."""

    version: int
    #: of `LUCIUS_WEBHOOK_KEYS`, so that another key may come first
    key_id: str
    #: 128 random bits in hex: ids may come back, a secret never does
    salt: str


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A HOOK row."""

    #: `hook_` and 32 hex digits, or `default`
    id: str
    tenant: str
    #: None: of `default`
    url: str | None
    format: HookFormat = HookFormat.CLOUDEVENTS
    filter: HookFilter = field(default_factory=HookFilter)
    description: str = ""
    state: HookState = HookState.ENABLED
    state_reason: str | None = None
    created_at: datetime
    created_by: str
    updated_at: datetime
    #: it gets events from this number of the feed on
    first: int
    #: of the events before, up to which one it has got those that match; None: it gets no more of them
    caught_up: int | None = None
    secret: SecretVersion
    #: signs beside it until then
    previous: SecretVersion | None = None
    previous_until: datetime | None = None
    #: tries that failed since the last that succeeded
    failures: int = 0
    failing_since: datetime | None = None
    #: the last of them
    failed_at: datetime | None = None
    succeeded_at: datetime | None = None
    #: one delivery probes then, and the others wait
    waits_until: datetime | None = None
    #: how often it began to wait since the last success
    waits: int = 0
    #: of the next probe: a message of an older one is void
    probe: int = 0
    #: deliveries that were given up since its log last had some, the numbers of their first and last event, and why
    unlogged: int = 0
    unlogged_first: int | None = None
    unlogged_last: int | None = None
    unlogged_reason: str | None = None
    dead_logged_at: datetime | None = None
    #: the head of its log
    log_seq: int = 0
    log_hash: str = ""


class DeliveryState(StrEnum):
    """What became of one event for one hook."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    """Its receiver answered 2xx."""
    DEAD = "DEAD"
    """It was given up; it can be sent again."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A PENDING row while it waits, a DELIVERY row afterwards."""

    tenant: str
    hook_id: str
    #: of the event in the feed
    number: int
    #: of `callback_urls`; "": of a hook
    name: str = ""
    event_id: str
    event_type: str
    #: None: the event is of no job
    job_id: str | None
    created_at: datetime
    state: DeliveryState = DeliveryState.PENDING
    #: that were made; a message of another number is void
    tries: int = 0
    #: of them, those that were answered with what another try does not mend
    refusals: int = 0
    #: of the next try; None: it waits for its hook, or has ended
    due_at: datetime | None = None
    ended_at: datetime | None = None
    #: of the last try
    tried_at: datetime | None = None
    status: int | None = None
    error: str | None = None
    took_ms: int | None = None


class HookAct(StrEnum):
    """The type of an entry of a hook's log."""

    CREATED = "CREATED"
    CHANGED = "CHANGED"
    ROTATED = "ROTATED"
    REMOVED = "REMOVED"
    DISABLED = "DISABLED"
    SUSPENDED = "SUSPENDED"
    RESUMED = "RESUMED"
    DEAD = "DEAD"
    """Deliveries were given up."""


@dataclass(frozen=True, kw_only=True)
class HookEntry(Entry):
    """A HOOKLOG row; its `data` is what was changed, without addresses and secrets."""

    hook_id: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What a receiver answered, or why there is no answer."""

    #: None: there is none
    status: int | None
    #: a class and nothing of the receiver's: `TIMEOUT`, `CONNECT`, `TLS`, `RESET`, `NOT_HTTP`,
    #: `ADDRESS_REFUSED`, `NO_ADDRESS`
    error: str | None = None
    #: `Retry-After`
    retry_after: timedelta | None = None
    took_ms: int = 0

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300
