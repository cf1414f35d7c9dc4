"""The response models of a tenant's use and of its sources."""

from __future__ import annotations

from datetime import datetime

from shared.core.gates.desk import Desk
from shared.core.gates.queue_position import waiting_of
from shared.core.gates.rules import Gate, GateKind
from shared.core.usage import Sum
from shared.ports.usage import SeenSource as SourceRow
from shared.responses.usage import SeenSource, UsageSum


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


def seen_source(row: SourceRow, tenant: str, desk: Desk | None, now: datetime) -> SeenSource:
    """`desk`: that of the tenant; None: it has none, so that nobody counts its sources."""
    gate = Gate(GateKind.SOURCE, tenant, row.name)
    state = desk.gates.get(gate.id) if desk is not None else None
    if desk is None or state is None:
        return SeenSource.of(row, active=None, staged=None, held=None)
    held = state.hold is not None and state.hold.is_on(now)
    return SeenSource.of(row, active=desk.inside_of(gate), staged=waiting_of(desk, gate), held=held)
