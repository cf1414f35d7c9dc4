"""A tenant's usage, and the sources that its jobs named."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api.response import Cursor, Instant, JobId, Response
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.queue_position import count_waiting
from shared.core.gates.rules import Gate, GateKind
from shared.core.usage import Sum
from shared.ports.usage import SeenSource as SourceRow


class UsageSum(Response):
    """Counts of jobs, by hour of creation."""

    created: int
    admitted: int
    """Number of jobs admitted, immediately or after a wait."""
    staged: int
    """Number of jobs that waited for quotas or for other jobs."""
    ended: int
    rejected: int
    """Number of creations of jobs refused with `LIMIT_REACHED`, including each try of a bulk operation. Approximate:
    each instance reports once a minute."""
    wait_p50_s: int | None
    """Median wait in seconds of admitted jobs, rounded up to a bucket. Null if no job was admitted."""
    wait_p95_s: int | None
    """95th percentile of the wait in seconds of admitted jobs, rounded up to a bucket. Null if no job was admitted."""
    active_peak: int
    """Maximum number of active jobs, sampled by the sweeper once a minute."""


class UsageReport(Response):
    """Usage in whole hours from `since` to now. LUCIUS writes the rollup of an hour after the hour ends, and again one
    day later."""

    tenant: str
    since: Instant
    until: Instant
    total: UsageSum
    groups: dict[str, UsageSum] | None = None
    """With `by` only. Counts per job type, source or hour. The key "" has the jobs without a source. The key "(others)"
    has the sources beyond 200 pairs of job type and source in an hour."""
    partial: bool
    """`true` if the hours without a rollup, at most the last three hours, have at least 5,000 jobs. The counts can then
    omit jobs."""


class SeenSource(Response):
    """Source that the tenant's jobs named, with the state of the source's quota."""

    name: str
    """Name, trimmed and lower-cased."""
    first_job: JobId
    first_at: Instant
    last_job: JobId
    """First job of the source that one process created in the last hour of use. Not always the last job of the
    source."""
    last_at: Instant
    """Start of the last hour in which the source was used, or `first_at` if `first_at` is later."""
    active: int | None
    """Number of active jobs of the source. Null if the source has no quota of its own."""
    staged: int | None
    """Number of waiting jobs of the source. Null if `active` is null."""
    held: bool | None
    """`true` if the source's quota is held. Null if `active` is null."""


class SourcePage(Response):
    """Sources of a tenant."""

    sources: list[SeenSource]
    next: Cursor


def usage_sum(used: Sum) -> UsageSum:
    counted = used.counted
    return UsageSum.of(
        counted,
        rejected=used.rejected,
        wait_p50_s=counted.wait_s(0.5),
        wait_p95_s=counted.wait_s(0.95),
        active_peak=used.active_peak,
    )


def seen_source(row: SourceRow, tenant: str, admission: AdmissionState | None, now: datetime) -> SeenSource:
    """Makes the response about a source. `admission` is the tenant's admission state.

    `admission` is None if the tenant has no admission state. The sources of the tenant are then not counted.
    """
    row = replace(row, last_at=max(row.first_at, row.last_at))
    gate = Gate(GateKind.SOURCE, tenant, row.name)
    state = admission.gates.get(gate.id) if admission is not None else None
    if admission is None or state is None:
        return SeenSource.of(row, active=None, staged=None, held=None)
    held = state.hold is not None and state.hold.is_on(now)
    return SeenSource.of(row, active=admission.count_active(gate), staged=count_waiting(admission, gate), held=held)
