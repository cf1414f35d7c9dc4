"""A tenant's usage, and the sources that its jobs named."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from shared.api.response import Cursor, Instant, JobId, Response
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.queue_position import waiting_of
from shared.core.gates.rules import Gate, GateKind
from shared.core.usage import Sum
from shared.ports.usage import SeenSource as SourceRow


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
    """First job that an instance created in the last hour in which the source was used; not the last job."""
    last_at: Instant
    """Start of the last hour in which the source was used; `first_at` if that is later."""
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


def usage_sum(used: Sum) -> UsageSum:
    counted = used.counted
    return UsageSum(
        created=counted.created,
        admitted=counted.admitted,
        staged=counted.staged,
        ended=counted.ended,
        rejected=used.rejected,
        wait_p50_s=counted.wait_s(0.5),
        wait_p95_s=counted.wait_s(0.95),
        active_peak=used.active_peak,
    )


def seen_source(row: SourceRow, tenant: str, admission: AdmissionState | None, now: datetime) -> SeenSource:
    """`admission`: that of the tenant; None: it has none, so that nobody counts its sources."""
    row = replace(row, last_at=max(row.first_at, row.last_at))
    gate = Gate(GateKind.SOURCE, tenant, row.name)
    state = admission.gates.get(gate.id) if admission is not None else None
    if admission is None or state is None:
        return SeenSource.of(row, active=None, staged=None, held=None)
    held = state.hold is not None and state.hold.is_on(now)
    return SeenSource.of(row, active=admission.inside_of(gate), staged=waiting_of(admission, gate), held=held)
