"""Webhooks: the endpoints that get a tenant's public events, and the result of each delivery (R84, R85)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from shared.core.records.chained_log import Entry

#: id of the webhook for the `callback_urls` of a tenant's jobs: it has a secret and deliveries, and no URL of its own
DEFAULT_HOOK = "default"
#: maximum number of entries that a log shows, and that the daily cleanup leaves
MAX_LOG = 1_000


class HookFormat(StrEnum):
    """The format of a delivery's body."""

    CLOUDEVENTS = "cloudevents"
    """The event as in the feed."""
    SLACK = "slack"
    """A message for an incoming webhook of Slack."""
    TEAMS = "teams"
    """A message with an adaptive card, for a workflow of Teams."""


class HookState(StrEnum):
    """The state of a webhook. A disabled webhook gets no events, and the events of a suspended webhook wait."""

    ENABLED = "ENABLED"
    DISABLED = "DISABLED"
    """A caller disabled the webhook, or its endpoint returned 410. Events that occur while the webhook is disabled are
    never sent."""
    SUSPENDED = "SUSPENDED"
    """Deliveries failed for 24 hours without a success. Events wait until a caller resumes the webhook."""


@dataclass(frozen=True, kw_only=True)
class HookFilter:
    """A filter of the events that a webhook gets. An empty field matches every event. No filter matches events of
    webhooks.
    """

    types: frozenset[str] = frozenset()
    job_types: frozenset[str] = frozenset()
    #: labels that the job must all have
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class SecretVersion:
    """The version of a secret. The secret itself is derived from the key and never stored."""

    version: int
    #: id of the key in `LUCIUS_WEBHOOK_KEYS`, which stays valid when another key comes first
    key_id: str
    #: 128 random bits in hex: a webhook id can be used again, its secret cannot
    salt: str


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A HOOK row."""

    #: `hook_` and 32 hex digits, or `default`
    id: str
    tenant: str
    #: URL; None for `default`
    url: str | None
    format: HookFormat = HookFormat.CLOUDEVENTS
    filter: HookFilter = field(default_factory=HookFilter)
    description: str = ""
    state: HookState = HookState.ENABLED
    state_reason: str | None = None
    created_at: datetime
    created_by: str
    updated_at: datetime
    #: number of the first new event that it gets
    first: int
    #: for requested past events, the number up to which it got the matching ones; None if it gets no more of them
    caught_up: int | None = None
    secret: SecretVersion
    #: secret that also signs until `previous_until`
    previous: SecretVersion | None = None
    previous_until: datetime | None = None
    #: number of failed tries since the last success, without refusals of single deliveries
    failures: int = 0
    failing_since: datetime | None = None
    #: time of the last failed try
    failed_at: datetime | None = None
    succeeded_at: datetime | None = None
    #: time of the next probe, a single delivery for which the others wait
    waits_until: datetime | None = None
    #: number of waits since the last success
    waits: int = 0
    #: number of the next probe; messages with an older number are ignored
    probe: int = 0
    #: given-up deliveries that are not in the log yet: their number, the numbers of their first and last event, and the
    #: reason
    unlogged: int = 0
    unlogged_first: int | None = None
    unlogged_last: int | None = None
    unlogged_reason: str | None = None
    dead_logged_at: datetime | None = None
    #: number and hash of the last log entry
    log_seq: int = 0
    log_hash: str = ""


class DeliveryState(StrEnum):
    """The state of the delivery of one event to one webhook."""

    PENDING = "PENDING"
    DELIVERED = "DELIVERED"
    """The endpoint returned 2xx."""
    DEAD = "DEAD"
    """LUCIUS abandoned the delivery. A caller can send the delivery again."""


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A delivery: a PENDING row while it waits, then a DELIVERY row."""

    tenant: str
    hook_id: str
    #: number of the event in the feed
    number: int
    #: name in `callback_urls`; "" for a webhook
    name: str = ""
    event_id: str
    event_type: str
    #: job id; None if the event is about no job
    job_id: str | None
    created_at: datetime
    state: DeliveryState = DeliveryState.PENDING
    #: number of tries; messages with another number are ignored
    tries: int = 0
    #: number of tries with a permanent refusal
    refusals: int = 0
    #: earliest time of the next try, which a webhook that waits or is not enabled delays; None after a failed try for
    #: which it waits for its webhook, or if it has ended
    due_at: datetime | None = None
    ended_at: datetime | None = None
    #: time of the last try
    tried_at: datetime | None = None
    status: int | None = None
    error: str | None = None
    took_ms: int | None = None


class HookAct(StrEnum):
    """The type of an entry of a webhook's log."""

    CREATED = "CREATED"
    CHANGED = "CHANGED"
    ROTATED = "ROTATED"
    REMOVED = "REMOVED"
    DISABLED = "DISABLED"
    SUSPENDED = "SUSPENDED"
    RESUMED = "RESUMED"
    DEAD = "DEAD"
    """LUCIUS abandoned deliveries."""


@dataclass(frozen=True, kw_only=True)
class HookEntry(Entry):
    """A HOOKLOG row. Its `data` has the changes, without URLs and secrets."""

    hook_id: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The response of an endpoint, or the reason for a missing response."""

    #: HTTP status; None means no response
    status: int | None
    #: error class, without text of the endpoint: `TIMEOUT`, `CONNECT`, `TLS`, `RESET`, `NOT_HTTP`, `ADDRESS_REFUSED`,
    #: `NO_ADDRESS`; without a request `KEY_GONE`, `EXPIRED` or `JOB_GONE`
    error: str | None = None
    #: wait that the `Retry-After` header requests
    retry_after: timedelta | None = None
    took_ms: int = 0

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300
