"""Rejected messages, and the sweep by request."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StrictBool

from shared.api.response import Cursor, Instant, JobId, Response


class ReconcileRequest(BaseModel):
    """What the sweeper is to do."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    dryRun: StrictBool = False
    """Only say what would be done."""


class RejectedLine(Response):
    """A rejected message in a list, without its body."""

    id: Annotated[str, Field(examples=["rej_1769508120000_0123456789abcdef01234567"])]
    """The same for every delivery of the message."""
    received_at: Instant
    reason: Annotated[str, Field(examples=["UNKNOWN_JOB"])]
    detail: str
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    redriven_at: Instant | None
    """When a job took it after all."""
    redriven_outcome: str | None
    """What came of that: APPLIED, or IGNORED and why."""


class RejectedPage(Response):
    """Rejected messages, newest first."""

    rejected: list[RejectedLine]
    next: Cursor


class WhatIf(Response):
    """What a redrive would do now."""

    outcome: str
    """MOVED, IGNORED, REFUSED or REJECTED."""
    why: str | None


class RejectedMessage(RejectedLine):
    """A rejected message, whole."""

    body: str
    """The message's text; for bytes that are no UTF-8 it has U+FFFD, or escapes if it was dead-lettered."""
    what_if: WhatIf | None = None
    """Only where the message is read."""


class SweepAction(Response):
    """One repair."""

    jobId: JobId
    action: str


class Reconciled(Response):
    """What the sweeper did, or with `dryRun` would do."""

    dryRun: bool
    looked_at: int
    """Jobs whose time to be looked at had come."""
    dead_replies: int
    """Replies taken from the dead-letter queues."""
    actions: list[SweepAction]
    """The first 1,000 of the pass."""
    more: bool
    """The pass ran out of time before all that was due was done: ask again for the rest."""
