"""Rejected messages, and sweeps by request."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from shared.api.response import Cursor, Instant, JobId, Response


class ReconcileRequest(BaseModel):
    """Options of a sweep."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    dryRun: StrictBool = False
    """Preview: return the result without changing anything."""


class RejectedLine(Response):
    """A rejected message in a list, without its body."""

    id: Annotated[str, Field(examples=["rej_1769508120000_0123456789abcdef01234567"])]
    """Id of the rejected message, the same for every delivery of the message."""
    received_at: Instant
    tenant: str | None
    """Tenant that the message names. Null if the message names no tenant or is unreadable."""
    reason: Annotated[str, Field(examples=["UNKNOWN_JOB"])]
    detail: str
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    redriven_at: Instant | None
    """Time when a job accepted the message after a redrive."""
    redriven_outcome: str | None
    """Result of the redrive: APPLIED, or IGNORED with the reason."""


class RejectedPage(Response):
    """Rejected messages, newest first."""

    rejected: list[RejectedLine]
    next: Cursor


class WhatIf(Response):
    """Expected result of a redrive."""

    outcome: str
    """MOVED: the message changes its job. IGNORED: the message has no effect on its job. REJECTED: no job can accept
    the message."""
    why: str | None


class RejectedMessage(RejectedLine):
    """A rejected message with its body."""

    body: str
    """Text of the message. Invalid UTF-8 bytes are replaced by U+FFFD, or by escapes if
    the message was dead-lettered."""
    what_if: WhatIf | None = None
    """Expected result of a redrive. Set in the response of `GET` only."""


class SweepAction(Response):
    """Action of a sweep on one job."""

    jobId: JobId
    action: str


class Reconciled(Response):
    """Actions of the sweep. With `dryRun`, the actions that are due now."""

    dryRun: bool
    looked_at: int
    """Number of due jobs that were checked."""
    dead_replies: int
    """Number of replies received from the dead-letter queues or, with `dryRun`, found there, at most 32 in each
    queue."""
    actions: list[SweepAction]
    """First 1,000 actions of the sweep, without actions on jobs that the caller cannot read."""
    more: bool
    """`true` if checks or clearings of jobs, admissions, or expired rejected messages are left. Repeat the request to
    continue."""
