"""Dead letters: a row in the index for each failed job that is neither redriven nor dismissed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from shared.core.incidents import Settlement
from shared.core.jobs.job import Job
from shared.core.jobs.states import JobStatus


class LetterState(StrEnum):
    """The state of a failed job's dead letter, in its LIST row."""

    LISTED = "LISTED"
    """The job has a DEAD row."""
    REDRIVEN = "REDRIVEN"
    """Another job redrives the job."""
    DISMISSED = "DISMISSED"
    """A caller dismissed the dead letter."""


def letter_at_end(job: Job) -> LetterState | None:
    """Returns the state of the dead letter of a job that ended. Returns None if the job did not fail permanently."""
    if job.status is not JobStatus.FAILED_FINAL:
        return None
    # a sweeper wrote its end late, after its redrive
    return LetterState.LISTED if job.redriven_by is None else LetterState.REDRIVEN


def ended_at(job: Job) -> datetime:
    """Returns the time when a job ended, as in the keys of its rows."""
    return job.completed_at or job.updated_at


@dataclass(frozen=True, kw_only=True)
class DeadRow:
    """A DEAD row, with the columns by which lists are filtered. The job has all other columns."""

    job_id: str
    tenant_id: str
    request_type: str
    labels: dict[str, str]
    error_code: str | None
    created_at: datetime
    ended_at: datetime
    #: opaque position of this row, for the next page
    cursor: str = ""


class DeadLetters(Protocol):
    """A part of `shared.ports.index.Index`, whose `close` writes the DEAD row. Each method raises LedgerUnavailable."""

    async def dead_letters(
        self, tenant: str, *, after: str | None, limit: int, since: datetime | None = None
    ) -> list[DeadRow]:
        """Returns a tenant's DEAD rows, newest failure first, after the cursor `after`. Makes one query, in pages of at
        most 1,000 rows.

        Leaves out jobs that ended before `since`.
        """

    async def end_dead_letter(
        self, job: Job, state: LetterState, settlement: Settlement | None = None
    ) -> LetterState | None:
        """Deletes the DEAD row and records `state` in LIST, unless LIST already has REDRIVEN or DISMISSED. Idempotent.

        With `settlement`, the same transaction closes the job's open incident. Returns the state that LIST then has.

        Returns None and changes nothing if LIST does not have the job's failure yet, or no longer has the job. Raises
        Contended after a conflict at every try.
        """
