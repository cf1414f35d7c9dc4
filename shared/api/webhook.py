"""Webhooks, their deliveries and secrets: requests and responses.

A response shows a URL by its host, and a secret only when it was made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StrictBool, model_validator

from shared.access.webhook_signature import shown
from shared.api.response import Cursor, Instant, JobId, Response, whole
from shared.contracts.envelope import MAX_LABELS, Line, Word
from shared.core.jobs.plan import origin
from shared.core.webhooks import webhooks as core

#: of one list of a filter
MAX_NAMES = 50


#: characters of an address, as `shared.access.webhook_addresses` has it
_MAX_URL = 2048


_Format = Literal["cloudevents", "slack", "teams"]


_Url = Annotated[str, Field(min_length=1, max_length=_MAX_URL, examples=["https://hooks.example.com/lucius"])]


_Description = Annotated[Line, Field(max_length=256, examples=["billing"])]


_Name = Annotated[Word, Field(min_length=1, max_length=128)]


_Names = Annotated[list[_Name], Field(min_length=1, max_length=MAX_NAMES)]


def _labelled(value: dict[str, str]) -> dict[str, str]:
    if not value:
        raise ValueError("must name a label; leave it out to let every job in")
    return value


_Labels = Annotated[
    dict[Annotated[Line, Field(max_length=128)], Annotated[Line, Field(max_length=512)]],
    # pydantic's schema has a pattern of names, and lets every other name in
    Field(max_length=MAX_LABELS, json_schema_extra={"minProperties": 1, "additionalProperties": False}),
    AfterValidator(_labelled),
]


class HookFilterBody(BaseModel):
    """Which events a webhook gets: those that fit every member which is there."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, json_schema_extra={"minProperties": 1}
    )

    # a default that the schema does not show: null would name nothing
    types: _Names = Field(default_factory=list)
    """Types of events: one of these."""
    job_types: _Names = Field(default_factory=list)
    """Request types: the event's job is of one of these."""
    labels: _Labels = Field(default_factory=dict)
    """The event's job has each of them, with this very value."""

    @model_validator(mode="after")
    def _not_empty(self) -> HookFilterBody:
        if not self.model_fields_set:
            raise ValueError("must name something; leave the filter out to let every event in")
        return self


class NewHook(BaseModel):
    """Where a tenant's events are posted to, which of them, and how they look."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    url: _Url
    """An https address at port 443 of a host with a name, or a listed one. It is never shown again."""
    format: _Format = "cloudevents"
    """The event itself; or a message for an incoming webhook of Slack, or for a workflow of Teams."""
    filter: HookFilterBody | None = None
    """Null: every event of the tenant but those of webhooks."""
    description: _Description = ""
    """In words, on one line."""
    after: Annotated[int, Field(ge=0, le=10**18), BeforeValidator(whole)] | None = None
    """The `sequence` of an event, as a number: those after it are delivered too, as far as they are kept; null: those
    from now on."""


class HookChange(BaseModel):
    """What is to be another; what is left out stays as it is."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, json_schema_extra={"minProperties": 1}
    )

    # a default that the schema does not show: what is left out has none
    url: _Url = Field(default_factory=str)
    """The new address."""
    format: _Format = Field(default_factory=lambda: "cloudevents")
    """The new format."""
    filter: HookFilterBody | None = None
    """The new filter, in the place of the whole old one; null: every event."""
    description: _Description = Field(default_factory=str)
    """In words, on one line."""
    enabled: StrictBool = Field(default_factory=lambda: True)
    """False: it gets no events, and those of this time never; true ends that."""

    @model_validator(mode="after")
    def _not_empty(self) -> HookChange:
        if not self.model_fields_set:
            raise ValueError("must change something")
        return self

    def changes(self) -> dict[str, Any]:
        """The members that were sent."""
        return {name: getattr(self, name) for name in self.model_fields_set}


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


def hook(row: core.Hook) -> Hook:
    """A line of a list."""
    return Hook.of(row, **_members(row))


def hook_detail(row: core.Hook, oldest_pending_at: datetime | None) -> HookDetail:
    """One webhook."""
    return HookDetail.of(row, **_members(row), oldest_pending_at=oldest_pending_at)


def hook_secret(row: core.Hook, secret: bytes) -> HookSecret:
    """One whose secret was made just now."""
    return HookSecret.of(row, **_members(row), secret=shown(secret))


def default_secret(row: core.Hook, secrets: Sequence[bytes]) -> DefaultSecret:
    """Of the hook `default`; `secrets`: those that sign now, newest first."""
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


def log_entry(entry: core.HookEntry) -> HookLogEntry:
    return HookLogEntry.of(entry)


def _members(row: core.Hook) -> dict[str, Any]:
    path, has_address = f"/v1/webhooks/{quote(row.id, safe='')}", row.url is not None
    may_resume = row.state is not core.HookState.ENABLED or row.waits_until is not None
    # an operator of all tenants has to name it
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
        "url": origin(row.url) if row.url is not None else None,
        "format": row.format.value,
        "filter": HookFilter(
            types=sorted(row.filter.types), job_types=sorted(row.filter.job_types), labels=dict(row.filter.labels)
        ),
        "state": row.state.value,
        "secret_version": row.secret.version,
        "links": links,
    }
