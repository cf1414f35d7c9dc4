"""What a sweep did."""

from __future__ import annotations

from shared.contracts.responses.common import JobId, Response


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
    more: bool
    """A bound was reached: ask again for the rest."""
