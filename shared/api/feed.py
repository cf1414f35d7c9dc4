"""The feed of public events, its tickets, and queries by GraphQL."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from shared.api.response import Instant, RequestBody, Response


class TicketRequest(RequestBody):
    """Stream that the ticket opens."""

    path: Annotated[
        str,
        Field(
            pattern=r"^/v1/(events|dashboard/events|jobs/[A-Za-z0-9_-]{1,128}/events|runs/[A-Za-z0-9_-]{1,128}/logs)$",
            examples=["/v1/events"],
        ),
    ]
    """Path of the stream, from the root of the API, without a query."""
    tenant_id: str | None = None
    """Tenant of the feed. Default: the caller's tenant. For the stream of a job, LUCIUS uses the job's tenant."""

    @property
    def job_id(self) -> str | None:
        """Returns the id of the stream's job, or None for the stream of a feed."""
        parts = self.path.split("/")
        return parts[3] if parts[2] in ("jobs", "runs") else None


class QueryRequest(BaseModel):
    """A request of GraphQL over HTTP: one operation of a document."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    query: Annotated[str, Field(examples=["{ jobs { jobs { jobId status } next } }"])]
    """GraphQL document."""
    variables: dict[str, Any] | None = None
    """Values of the variables, by name without the dollar sign."""
    operationName: str | None = None
    """Operation to run. Required if the document has more than one operation."""
    extensions: dict[str, Any] | None = None
    """LUCIUS ignores this field."""


class PublicEvent(Response):
    """CloudEvent 1.0. `/v1/schemas/events/{type}` has the schema of each type."""

    specversion: Annotated[str, Field(examples=["1.0"])]
    id: Annotated[str, Field(examples=["job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65:7:0"])]
    """Id of the event, the same for every delivery."""
    source: Annotated[str, Field(examples=["/lucius/prod/acme"])]
    type: Annotated[str, Field(examples=["job.completed"])]
    subject: Annotated[str, Field(examples=["job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]
    """Id of the job, quota, incident or webhook."""
    time: Instant
    datacontenttype: str
    dataschema: str | None = None
    tenant: str
    sequence: Annotated[str, Field(examples=["00000000000000001042"])]
    """Number of the event in the tenant's feed, as 20 digits. The numbers have no gaps."""
    jobseq: Annotated[int, Field(ge=1)]
    """Number of the entry in the job's history, or in the log of the quota, incident or webhook."""
    traceparent: str | None = None
    data: dict[str, Any]


class Ticket(Response):
    """Ticket that opens one stream without a token."""

    ticket: Annotated[str, Field(examples=["lt1.k1.eyJhY3RvciI6InVzZXI6MSJ9.c2lnbmF0dXJl"])]
    """Value for `?ticket=` of the path."""
    expires_at: Instant
    """Time after which the stream returns 401. Then get a new ticket."""


class FeedPage(Response):
    """Events of a tenant, in feed order."""

    events: list[PublicEvent]
    next: str
    """Cursor of the next page. Set even at the end of the feed, because new events can follow."""


class QueryError(Response):
    """Error of a request, or of one field of the request (GraphQL 7.1.2)."""

    message: str
    locations: list[dict[str, int]] | None = None
    """`line` and `column` in the document, from 1."""
    path: list[str | int] | None = None
    """Path of the field that is null because of the error."""
    extensions: dict[str, Any]
    """`code` and other fields, as in `Problem`. `QUERY_INVALID`: the document or a variable is invalid."""


class QueryAnswer(Response):
    """GraphQL response. A refused field is null, with an entry in `errors`."""

    data: dict[str, Any] | None = None
    """Data of the selected fields. Absent if the document or the variables do not match the schema."""
    errors: list[QueryError] | None = None


class FollowedEvent(Response):
    """A message of a subscription: an event, or only a later cursor."""

    cursor: Annotated[str, Field(examples=["MGI3ZjJjNmQxZTRhNGYwYzoxMDQy"])]
    """Value for `after` of the next request, which then misses and repeats no event."""
    event: PublicEvent | None
    """The event. Null if no event up to `cursor` matches."""
    gap: bool
    """`true` if events after `after` are no longer retained. `cursor` is then the earliest valid cursor."""
