"""A job's whole history as one document that proves itself."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from shared.contracts.responses.common import Instant, Response


class AuditBundle(Response):
    """The rows of a job and all its events, with a digest over them; to be checked offline, byte for byte as it came.

    Rows have the ledger's own columns, which may grow.
    """

    format: Literal["lucius-audit/1"]
    taken_at: Instant
    job: dict[str, Any]
    """The JOB row."""
    steps: list[dict[str, Any]]
    """The STEP rows."""
    events: list[dict[str, Any]]
    """The EVENT rows, from the first."""
    digest: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    """SHA-256 over the canonical JSON of all of the above."""
