"""What a tenant's jobs used of its gates, and the sources that they named."""

from __future__ import annotations

from shared.responses.response import Cursor, Instant, JobId, Response


class UsageSum(Response):
    """Jobs by their hour of creation."""

    created: int
    admitted: int
    """Let in, at once or after a wait."""
    staged: int
    """That had to wait, at their gates or for other jobs."""
    ended: int
    rejected: int
    """Requests refused with 429. Approximate: each instance adds its own once a minute."""
    wait_p50_s: int | None
    """Half of those let in waited for no longer: the end of a bucket; null: nobody was let in."""
    wait_p95_s: int | None
    """The same for 95 of 100."""
    active_peak: int
    """The most jobs that were inside at a look of the sweeper's, once a minute."""


class UsageReport(Response):
    """Whole hours, from that of `since` to now; each is counted when it is over, and once more a day later."""

    tenant: str
    since: Instant
    until: Instant
    total: UsageSum
    groups: dict[str, UsageSum] | None = None
    """With `by`: the same for each type, source ("" for jobs without one) or hour."""
    partial: bool
    """Of the last hours, which are not counted yet, too many jobs would have to be read: some are left out."""


class SeenSource(Response):
    """A source that jobs of the tenant named, and how it stands at its gate."""

    name: str
    """Trimmed and lower-cased, as it is compared."""
    first_job: JobId
    first_at: Instant
    last_job: JobId
    """To the hour: of that hour the first job that an instance saw."""
    last_at: Instant
    """To the hour."""
    active: int | None
    """Its jobs inside; null: it has no gate of its own, and nobody counts them."""
    staged: int | None
    """Its jobs in line; null as above."""
    held: bool | None
    """Nobody passes its gate; null as above."""


class SourcePage(Response):
    """Sources of a tenant."""

    sources: list[SeenSource]
    next: Cursor
