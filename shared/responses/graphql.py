"""Answers of GraphQL, and the message of its one subscription."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from shared.responses.feed import PublicEvent
from shared.responses.response import Response


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
