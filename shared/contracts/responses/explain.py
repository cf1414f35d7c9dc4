"""Why a job is where it is."""

from __future__ import annotations

from typing import Literal

from shared.contracts.responses.common import Instant, JobId, Response
from shared.contracts.responses.job import JobStatusName


class TableRow(Response):
    """A row of a transition table: in `state`, `event` leads to `to`."""

    machine: Literal["job", "step"]
    state: str
    event: str
    to: str
    source: str
    """The rule that the row comes from."""


class Move(Response):
    """The last move of a job, by its EVENT row."""

    seq: int
    type: str
    at: Instant
    stepId: str | None
    actor: str
    source: str
    reason: str | None
    rows: list[TableRow]
    """What decided it; empty for the creation."""


class Explanation(Response):
    """What a job waits for, until when, and what each possible next occurrence would do."""

    jobId: JobId
    status: JobStatusName
    text: str
    """All of it in one paragraph."""
    waits_for: str | None
    gate: Literal["PAUSED", "LANE_BACKLOG"] | None
    """What holds the job back though nothing has failed."""
    since: Instant | None
    until: Instant | None
    """Null: there is no time limit, or the job has ended."""
    then: str
    """What happens if nothing comes by then."""
    brought_here: Move | None
    """Which move brought the job to where it is."""
    what_if: dict[str, str]
    """Possible next occurrences, by name, and what each would do now."""
    rows_if: dict[str, list[TableRow]]
    """Of those that would move the job, the rows of the transition tables that they would use."""
