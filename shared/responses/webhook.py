"""Webhooks, what became of what they were to deliver, and their secrets."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from shared.responses.response import Cursor, Instant, JobId, Response

HookId = Annotated[str, Field(examples=["hook_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]
HookFormatName = Literal["cloudevents", "slack", "teams"]
HookStateName = Literal["ENABLED", "DISABLED", "SUSPENDED"]
DeliveryStateName = Literal["PENDING", "DELIVERED", "DEAD"]
DeliveryError = Annotated[
    str | None,
    Field(
        description="Why there was no answer: `TIMEOUT`, `CONNECT`, `TLS`, `RESET`, `NOT_HTTP`, `ADDRESS_REFUSED`, "
        "`NO_ADDRESS`, `KEY_GONE`: the secret has no key any more, `JOB_GONE`: the job of the callback URL is archived "
        "or erased, or `EXPIRED`: the event is kept no more; null: there was one.",
        examples=["TIMEOUT"],
    ),
]
#: as receivers' libraries take it
Secret = Annotated[str, Field(pattern="^whsec_", examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])]


class HookFilter(Response):
    """Which events a webhook gets: those that fit every member which is not empty."""

    types: list[str]
    job_types: list[str]
    labels: dict[str, str]


class HookLinks(Response):
    """Paths of this API about the webhook; `test`, `rotate` and `resume` are for POST."""

    self: str
    deliveries: str
    log: str
    test: str | None
    """Null: it has no address of its own."""
    rotate: str
    resume: str | None
    """Null: it is on, and waits for no probe."""


class Hook(Response):
    """Where a tenant's events are posted to, and how that goes."""

    hookId: HookId
    """`default`: the callback URLs of the tenant's jobs."""
    tenant: str
    """Whose it is, trimmed and lower-cased."""
    url: str | None
    """Scheme and host: the rest may be a secret. Null: of `default`, whose addresses the jobs name."""
    format: HookFormatName
    filter: HookFilter
    description: str
    state: HookStateName
    """ENABLED: it gets events; DISABLED: none; SUSPENDED: nothing was delivered for a day, its deliveries wait."""
    state_reason: str | None
    created_at: Instant
    created_by: str
    updated_at: Instant
    first: int
    """It gets events from this number of the feed on."""
    secret_version: int
    previous_until: Instant | None
    """The secret before the last rotation signs too, until then."""
    failures: int
    """Tries that failed since the last that succeeded."""
    failing_since: Instant | None
    succeeded_at: Instant | None
    """The last delivery that its receiver took."""
    waits_until: Instant | None
    """It failed too often: one delivery is tried then, and the others wait for that."""
    links: HookLinks


class HookDetail(Hook):
    """A webhook with the oldest of what waits."""

    oldest_pending_at: Instant | None
    """When the event came that has waited longest; null: nothing waits."""


class HookPage(Response):
    """All webhooks of a tenant that have an address, the oldest first."""

    webhooks: list[Hook]


class HookSecret(Hook):
    """A webhook with its new secret, which is not shown again."""

    secret: Secret
    """Verify `webhook-signature` by it, with a library of Standard Webhooks."""


class DefaultSecret(Response):
    """What signs the callback URLs of the tenant's jobs."""

    secret: Secret
    previous_secret: Secret | None
    """It signs too, until `previous_until`."""
    previous_until: Instant | None


class Delivery(Response):
    """One event for one webhook."""

    number: int
    """Of the event in the tenant's feed."""
    name: str | None
    """Of the callback URL; null: of a webhook."""
    event_id: Annotated[str, Field(examples=["job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65:7:0"])]
    event_type: Annotated[str, Field(examples=["job.completed"])]
    jobId: JobId | None
    """Null: the event is of no job."""
    created_at: Instant
    state: DeliveryStateName
    """PENDING: it is tried or waits; DELIVERED: its receiver answered 2xx; DEAD: it was given up."""
    tries: int
    due_at: Instant | None
    """The next try; null: it waits for its webhook, or has ended."""
    ended_at: Instant | None
    tried_at: Instant | None
    status: int | None
    """What the last try was answered with; null: nothing."""
    error: DeliveryError
    took_ms: int | None


class DeliveryPage(Response):
    """Deliveries of a webhook: what waits, the oldest event first; then what has ended, the newest event first."""

    deliveries: list[Delivery]
    next: Cursor


class HookTest(Response):
    """What the receiver answered to a test event."""

    delivered: bool
    """It answered 2xx."""
    status: int | None
    error: DeliveryError
    took_ms: int


class HookLogEntry(Response):
    """What happened to a webhook: numbered without gaps, chained to the one before by its hash."""

    hook_id: HookId
    seq: Annotated[int, Field(ge=1)]
    type: Annotated[str, Field(examples=["CREATED"])]
    actor: str
    reason: str
    at: Instant
    data: dict[str, Any]
    prev_hash: str
    hash: str


class HookLog(Response):
    """The log of a webhook, in order: the last thousand entries."""

    entries: list[HookLogEntry]
