"""Webhooks, their deliveries and secrets: requests and responses.

A response shows only the scheme, host and port of a URL. A secret is shown at its creation, also if the creation is
repeated with its idempotency key, and at its rotation. Only the secret of `default` can be read later.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from shared.access.webhook_signature import shown
from shared.api.response import Cursor, Instant, JobId, RequestBody, Response, to_integer
from shared.contracts.envelope import MAX_LABELS, TextLine, Word
from shared.core.jobs.plan import find_origin
from shared.core.webhooks import webhooks as core

#: maximum values in one list of a filter
MAX_NAMES = 50

#: maximum length of a URL, as in `shared.access.webhook_addresses`
_MAX_URL = 2048

_Format = Literal["cloudevents", "slack", "teams"]

_Url = Annotated[str, Field(min_length=1, max_length=_MAX_URL, examples=["https://hooks.example.com/lucius"])]

_Description = Annotated[TextLine, Field(max_length=256, examples=["billing"])]

_Name = Annotated[Word, Field(min_length=1, max_length=128)]

_Names = Annotated[list[_Name], Field(min_length=1, max_length=MAX_NAMES)]


def _labelled(value: dict[str, str]) -> dict[str, str]:
    if not value:
        raise ValueError("must have at least one label; omit labels to match every job")
    return value


_Labels = Annotated[
    dict[Annotated[TextLine, Field(max_length=128)], Annotated[TextLine, Field(max_length=512)]],
    # pydantic's schema has a pattern for names, but allows every other name
    Field(max_length=MAX_LABELS, json_schema_extra={"minProperties": 1, "additionalProperties": False}),
    AfterValidator(_labelled),
]


class HookFilterBody(RequestBody):
    """Filter of a webhook's events. Every field that is set must match."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    # a default that the schema does not show: null would be no list of names
    types: _Names = Field(default_factory=list)
    """Event types. The event must have one of these types."""
    job_types: _Names = Field(default_factory=list)
    """Job types. The event's job, quota or incident must have one of these types."""
    labels: _Labels = Field(default_factory=dict)
    """Labels. The event's job must have each of these labels with exactly this value."""

    @model_validator(mode="after")
    def _not_empty(self) -> HookFilterBody:
        if not self.model_fields_set:
            raise ValueError("must not be empty; omit the filter to match every event")
        return self


class NewHook(RequestBody):
    """URL, format, filter and description of a new webhook."""

    url: _Url
    """HTTPS URL at port 443 of a named host, or a URL of a host in `LUCIUS_WEBHOOK_HOSTS`. No response shows the
    full URL."""
    format: _Format = "cloudevents"
    """Format of the requests. `cloudevents`: the event itself. `slack`: a message for an incoming webhook of Slack.
    `teams`: a message for a workflow of Teams."""
    filter: HookFilterBody | None = None
    """Filter of events. Null selects every event of the tenant, except events of webhooks."""
    description: _Description = ""
    """Description, one line."""
    after: Annotated[int, Field(ge=0, le=10**18), BeforeValidator(to_integer)] | None = None
    """`sequence` of an event, as a number. The webhook also receives the retained events after this event. Default:
    new events only."""


class HookChange(RequestBody):
    """Fields to change. Omitted fields keep their values."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    # a default that the schema does not show: a field that is left out does not change
    url: _Url = Field(default_factory=str)
    """New URL."""
    format: _Format = Field(default_factory=lambda: "cloudevents")
    """New format."""
    filter: HookFilterBody | None = None
    """New filter, which replaces the old filter. Null selects every event of the tenant, except events of webhooks."""
    description: _Description = Field(default_factory=str)
    """Description, one line."""
    enabled: StrictBool = Field(default_factory=lambda: True)
    """`true` if the webhook receives new events. Events that occur while the webhook is disabled are never
    sent."""

    @model_validator(mode="after")
    def _not_empty(self) -> HookChange:
        if not self.model_fields_set:
            raise ValueError("must have at least one field")
        return self

    def changes(self) -> dict[str, Any]:
        """Returns the fields that the caller sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}


HookId = Annotated[str, Field(examples=["hook_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]

HookFormatName = Literal["cloudevents", "slack", "teams"]

HookStateName = Literal["ENABLED", "DISABLED", "SUSPENDED"]

DeliveryStateName = Literal["PENDING", "DELIVERED", "DEAD"]

DeliveryError = Annotated[
    str | None,
    Field(
        description="Reason for the missing response of the last attempt: `TIMEOUT`, `CONNECT`, `TLS`, `RESET`, "
        "`NOT_HTTP`, `ADDRESS_REFUSED` or `NO_ADDRESS`. Null if the endpoint responded, or before the first attempt."
        "\n\nReasons for which LUCIUS sent no request:\n\n"
        "- `KEY_GONE`: the key of the secret no longer exists.\n"
        "- `JOB_GONE`: the job of the callback URL is archived or erased.\n"
        "- `EXPIRED`: the event is deleted.",
        examples=["TIMEOUT"],
    ),
]

#: secret in the form that libraries of endpoints use
Secret = Annotated[str, Field(pattern="^whsec_", examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"])]


class HookFilter(Response):
    """Filter of a webhook's events. Every field that is not empty must match."""

    types: list[str]
    job_types: list[str]
    labels: dict[str, str]


class HookLinks(Response):
    """Paths of the webhook. `test`, `rotate` and `resume` require POST."""

    self: str
    deliveries: str
    log: str
    test: str | None
    """Path for a POST request that sends a test event. Null if the webhook has no URL."""
    rotate: str
    resume: str | None
    """Path for a POST request that resumes the webhook. Null if the webhook is enabled and `waits_until` is null."""


class Hook(Response):
    """A webhook and its delivery state."""

    hookId: HookId
    """Id of the webhook. `default` for the callback URLs of the tenant's jobs."""
    tenant: str
    """Tenant, trimmed and lower-cased."""
    url: str | None
    """Scheme, host and port of the URL. The rest is hidden, because the rest can be a secret. Null for `default`, whose
    URLs are in the jobs."""
    format: HookFormatName
    filter: HookFilter
    description: str
    state: HookStateName
    """An ENABLED webhook receives events. A DISABLED webhook receives no events: a caller disabled the webhook, or its
    endpoint returned 410. A webhook is SUSPENDED if attempts failed for 24 hours without a success. Deliveries of a
    SUSPENDED webhook wait until a caller resumes the webhook."""
    state_reason: str | None
    created_at: Instant
    created_by: str
    updated_at: Instant
    first: int
    """Feed number of the first new event for the webhook. With `after`, the webhook also receives earlier events."""
    secret_version: int
    previous_until: Instant | None
    """Time until which the previous secret signs, too."""
    failures: int
    """Number of failed attempts, without 4xx responses other than 408, 425 and 429. For example, a success, a resume or
    a new URL sets the number to 0."""
    failing_since: Instant | None
    succeeded_at: Instant | None
    """Time of the last successful delivery, at most a minute too early."""
    waits_until: Instant | None
    """Time of the next probe after 5 consecutive failed attempts. The probe attempts one delivery, and the other
    deliveries wait for the result of the probe."""
    links: HookLinks


class HookDetail(Hook):
    """A webhook with the time of its oldest waiting delivery."""

    oldest_pending_at: Instant | None
    """Time of the oldest event that waits for delivery. Null if no event waits."""


class HookPage(Response):
    """A tenant's webhooks with a URL, oldest first."""

    webhooks: list[Hook]


class HookSecret(Hook):
    """A webhook with its new secret. Store the secret: reading the webhook does not show the secret."""

    secret: Secret
    """Secret to verify `webhook-signature`, with a library of Standard Webhooks."""


class DefaultSecret(Response):
    """Secrets that sign requests to the callback URLs of the tenant's jobs."""

    secret: Secret
    previous_secret: Secret | None
    """Previous secret, which also signs until `previous_until`."""
    previous_until: Instant | None


class Delivery(Response):
    """Delivery of one event to one webhook."""

    number: int
    """Number of the event in the tenant's feed."""
    name: str | None
    """Webhook `default` only. Name of the callback URL."""
    event_id: Annotated[str, Field(examples=["job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65:7:0"])]
    event_type: Annotated[str, Field(examples=["job.completed"])]
    jobId: JobId | None
    """Job of the event. Null if the event belongs to no job."""
    created_at: Instant
    state: DeliveryStateName
    """State of the delivery. PENDING deliveries wait for an attempt, or an attempt runs. The endpoint returned 2xx for
    DELIVERED deliveries. LUCIUS does not retry DEAD deliveries."""
    tries: int
    due_at: Instant | None
    """Earliest time of the next attempt. The attempt waits while the webhook is disabled, is suspended or waits for a
    probe. Null if the delivery has ended, or if an attempt failed and the delivery waits for its webhook."""
    ended_at: Instant | None
    tried_at: Instant | None
    status: int | None
    """HTTP status of the last attempt. Null if `error` is set, or before the first attempt."""
    error: DeliveryError
    took_ms: int | None


class DeliveryPage(Response):
    """Deliveries of a webhook: waiting deliveries, oldest event first, then ended deliveries, newest event first."""

    deliveries: list[Delivery]
    next: Cursor


class HookTest(Response):
    """Result of a test event: the status of the endpoint's response, or the error."""

    delivered: bool
    """`true` if the endpoint returned 2xx."""
    status: int | None
    error: DeliveryError
    took_ms: int


class HookLogEntry(Response):
    """Entry of a webhook's log. Entries are numbered without gaps, and each entry has the hash of the previous
    entry."""

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
    """Log of a webhook, oldest entry first: the last 1,000 entries or, for a deleted webhook, the first 1,000."""

    entries: list[HookLogEntry]


def hook(row: core.Hook) -> Hook:
    """Makes a webhook as an item of a list."""
    return Hook.of(row, **_members(row))


def hook_detail(row: core.Hook, oldest_pending_at: datetime | None) -> HookDetail:
    """Makes a webhook with the time of its oldest waiting delivery."""
    return HookDetail.of(row, **_members(row), oldest_pending_at=oldest_pending_at)


def hook_secret(row: core.Hook, secret: bytes) -> HookSecret:
    """Makes a webhook with its new secret."""
    return HookSecret.of(row, **_members(row), secret=shown(secret))


def default_secret(row: core.Hook, secrets: Sequence[bytes]) -> DefaultSecret:
    """Makes the secrets of the webhook `default`. `secrets` has the current secrets, newest first."""
    previous = shown(secrets[1]) if len(secrets) > 1 else None
    return DefaultSecret(
        secret=shown(secrets[0]),
        previous_secret=previous,
        previous_until=row.previous_until if previous is not None else None,
    )


def delivery(row: core.Delivery) -> Delivery:
    return Delivery.of(row, name=row.name or None, jobId=row.job_id, state=row.state.value)


def hook_test(answer: core.Answer) -> HookTest:
    return HookTest(delivered=answer.is_success, status=answer.status, error=answer.error, took_ms=answer.took_ms)


def _members(row: core.Hook) -> dict[str, Any]:
    path, has_address = f"/v1/webhooks/{quote(row.id, safe='')}", row.url is not None
    may_resume = row.state is not core.HookState.ENABLED or row.waits_until is not None
    # an operator for all tenants must name the tenant
    tenant = f"?tenant_id={quote(row.tenant, safe='')}"
    links = HookLinks(
        self=path + tenant,
        deliveries=f"{path}/deliveries{tenant}",
        log=f"{path}/log{tenant}",
        test=f"{path}:test{tenant}" if has_address else None,
        rotate=f"{path}:rotate{tenant}",
        resume=f"{path}:resume{tenant}" if may_resume else None,
    )
    return {
        "hookId": row.id,
        "url": find_origin(row.url) if row.url is not None else None,
        "format": row.format.value,
        "filter": HookFilter(
            types=sorted(row.filter.types), job_types=sorted(row.filter.job_types), labels=dict(row.filter.labels)
        ),
        "state": row.state.value,
        "secret_version": row.secret.version,
        "links": links,
    }
