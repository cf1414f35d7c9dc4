"""What all answers share."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field


class Response(BaseModel):
    """A body of ours. Members may be added to it within a major version, so readers ignore those they do not know."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)


#: RFC 3339, in UTC
Instant = Annotated[AwareDatetime, Field(examples=["2026-01-27T10:02:00Z"])]

JobId = Annotated[str, Field(examples=["job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]

#: `next` of every page
Cursor = Annotated[
    str | None,
    Field(description="Pass it as `cursor` to read on; null: this is the last page."),
]
