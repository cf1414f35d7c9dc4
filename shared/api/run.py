"""Response bodies of the artifacts of a run."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.api.response import Instant, JobId, Response


class RunArtifact(Response):
    """File that the program of a run left in `artifacts/`."""

    name: Annotated[str, Field(examples=["report.json"])]
    size: Annotated[int, Field(ge=0)]
    """Size in bytes."""
    media_type: Annotated[str, Field(examples=["application/json"])]
    written_at: Instant


class RunArtifacts(Response):
    """Artifacts of one attempt of a run, by name."""

    jobId: JobId
    attempt: Annotated[int, Field(ge=1)]
    artifacts: list[RunArtifact]


class ArtifactLink(Response):
    """Link to an artifact. The link works without a token, so keep the link secret."""

    url: str
    expires_at: Instant
    """Time after which the link is invalid. To download later, request a new link."""
