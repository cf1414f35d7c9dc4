"""The feed of public events, its tickets, and queries by GraphQL."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from shared.api.response import Instant, Response


class TicketRequest(BaseModel):
    """Which stream a ticket is for."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    path: Annotated[
        str,
        Field(pattern=r"^/v1/(events|dashboard/events|jobs/[A-Za-z0-9_-]{1,128}/events)$", examples=["/v1/events"]),
    ]
    """Of the stream, from the root of the API, without a query."""
    tenant_id: str | None = None
    """Whose feed; without it that of the token's tenant. A job's stream is its tenant's."""

    @property
    def job_id(self) -> str | None:
        """Of the job whose stream it is; None: it is a feed's."""
        parts = self.path.split("/")
        return parts[3] if parts[2] == "jobs" else None


class QueryRequest(BaseModel):
    """A request of GraphQL over HTTP: one operation of a document."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    query: Annotated[str, Field(examples=["{ jobs { jobs { jobId status } next } }"])]
    """The document."""
    variables: dict[str, Any] | None = None
    """By name, without the dollar."""
    operationName: str | None = None
    """Of a document with more than one operation."""
    extensions: dict[str, Any] | None = None
    """Nothing of it is read."""


class PublicEvent(Response):
    """A CloudEvent 1.0; `/v1/schemas/events/{type}` has the schema of each type."""

    specversion: Annotated[str, Field(examples=["1.0"])]
    id: Annotated[str, Field(examples=["job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65:7:0"])]
    """The same however often the event comes."""
    source: Annotated[str, Field(examples=["/lucius/prod/acme"])]
    type: Annotated[str, Field(examples=["job.completed"])]
    subject: Annotated[str, Field(examples=["job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]
    """The id of the job, the gate, the incident or the webhook."""
    time: Instant
    datacontenttype: str
    dataschema: str | None = None
    tenant: str
    sequence: Annotated[str, Field(examples=["00000000000000001042"])]
    """Its number in the tenant's feed: 20 digits, without gaps."""
    jobseq: Annotated[int, Field(ge=1)]
    """The row of its subject that it comes from: of the job's own events, or of the log of what else it is of."""
    traceparent: str | None = None
    data: dict[str, Any]


class Ticket(Response):
    """What opens one stream without a token."""

    ticket: Annotated[str, Field(examples=["lt1.k1.eyJhY3RvciI6InVzZXI6MSJ9.c2lnbmF0dXJl"])]
    """For `?ticket=` of the path."""
    expires_at: Instant
    """After it the stream answers 401; get another one."""


class FeedPage(Response):
    """Events of a tenant, in the order of their feed."""

    events: list[PublicEvent]
    next: str
    """The cursor to go on from: also at the feed's end, where more will come."""


class QueryError(Response):
    """What is wrong with a request, or with one field of it (GraphQL 7.1.2)."""

    message: str
    locations: list[dict[str, int]] | None = None
    """`line` and `column` in the document, from 1."""
    path: list[str | int] | None = None
    """Of the field that is null because of it."""
    extensions: dict[str, Any]
    """`code` and other members, as a problem has them; `QUERY_INVALID`: the document or its variables do not fit."""


class QueryAnswer(Response):
    """An answer of GraphQL. A field that was refused is null, and `errors` says why."""

    data: dict[str, Any] | None = None
    """Not there where nothing was read, since the document or its variables do not fit the schema."""
    errors: list[QueryError] | None = None


class FollowedEvent(Response):
    """A message of a subscription."""

    cursor: Annotated[str, Field(examples=["MGI3ZjJjNmQxZTRhNGYwYzoxMDQy"])]
    """For `after` of the next request: nothing is missed then, and nothing comes twice."""
    event: PublicEvent | None
    """Null: nothing that fits up to `cursor`."""
    gap: bool
    """True: what followed on `after` is not kept; `cursor` is the earliest that is."""
