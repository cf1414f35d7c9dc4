"""A page of a tenant's feed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shared.responses.response import Instant, Response


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
