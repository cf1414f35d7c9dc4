"""The body of `POST /v1/bulk`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from shared.contracts.quotas import Why


class BulkRequest(BaseModel):
    """What is done to which jobs of a tenant, and why."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    action: Literal["cancel", "pause", "resume", "redrive"]
    """A control of each job, or its redrive."""
    filter: Annotated[dict[str, Any], Field(examples=[{"status": "FAILED_FINAL", "since": "2026-01-27T10:00:00Z"}])]
    """Words of the filter of `GET /v1/jobs` with their values; `tenant_id` names the tenant, of one's token else."""
    reason: Why
    """In words, on one line; it stands in each job's history."""
    dryRun: StrictBool = False
    """Only say which jobs these are now; nothing is written."""
