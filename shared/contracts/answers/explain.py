"""Why a job is where it is."""

from __future__ import annotations

from shared.contracts.answers.answer import Answer, Instant, JobId
from shared.contracts.answers.job import JobStatusName


class Explanation(Answer):
    """What a job waits for, until when, and what each possible next occurrence would do."""

    jobId: JobId
    status: JobStatusName
    text: str
    """All of it in one paragraph."""
    waits_for: str | None
    since: Instant | None
    until: Instant | None
    """Null: there is no time limit, or the job has ended."""
    then: str
    """What happens if nothing comes by then."""
    what_if: dict[str, str]
    """Possible next occurrences, by name, and what each would do now."""
