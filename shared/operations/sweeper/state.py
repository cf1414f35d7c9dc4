"""The state of one sweep, which its duties share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from shared import telemetry
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.rules import GateState
from shared.operations.incidents.row_incidents import report_row
from shared.operations.incidents.silent_services import Untaken
from shared.operations.process.context import Context
from shared.operations.sweeper.heal_deliveries import FoundHooks
from shared.operations.sweeper.report import SweepReport
from shared.ports.durable import Orchestrations
from shared.ports.index import ActiveRow, AwakeTenant
from shared.ports.sweeps import SweeperShare, SweepPosition, WorkCounts

#: function that returns whether the time of a duty is over
IsOver = Callable[[], bool]


@dataclass
class Pass:
    """A sweep over the tenants of a share."""

    context: Context
    orchestrations: Orchestrations
    share: SweeperShare
    dry_run: bool
    report: SweepReport
    began: datetime
    #: awake tenants of the share
    awake: dict[str, AwakeTenant]
    #: position, as the duties leave it
    position: SweepPosition
    #: the stored position; None if its row cannot be read
    stored: SweepPosition | None
    #: `True` for a sweep of the timer, and for each sweep if `LUCIUS_SWEEPERS` is 1. With several sweepers, a requested
    #: sweep is over all tenants: it stores no position and no counts, and omits duties with `Duty.timer_only`
    is_of_timer: bool
    #: `True` for the first sweep of an hour
    is_hourly: bool
    #: faults that must fail the sweep
    faults: list[Exception] = field(default_factory=list)
    #: last listed due job by tenant
    last_due: dict[str, ActiveRow] = field(default_factory=dict)
    #: admission states of tenants, as the admission duty read them
    admissions: dict[str, AdmissionState] = field(default_factory=dict)
    #: quotas of the tenants whose admission state was read, and over all tenants
    gates: list[GateState] = field(default_factory=list)
    #: `True` if every admission state of the share was read
    has_all_gates: bool = False
    #: counts of a survey that ended in this sweep
    counts: WorkCounts | None = None
    #: suspended webhooks and undelivered events that this sweep found
    hooks: FoundHooks = field(default_factory=FoundHooks)
    #: tenants without a living job
    idle: list[str] = field(default_factory=list)
    #: the attempt without an ACK that waits longest, by service
    untaken: dict[str, Untaken] = field(default_factory=dict)
    #: time before which the usage of all hours is rolled up; None if not known
    rolled_up_to: datetime | None = None
    #: keys of rows at which work succeeded in this sweep
    fine: set[str] = field(default_factory=set)

    async def report_fault(self, event: str, fault: Exception, *, row: str | None = None, **ids: object) -> bool:
        """Logs a fault of one job, tenant or row. The sweep continues with the others. Returns `True` if the next try
        will fail too.

        `row`: the key of the row that the work is about. None means no specific row.
        """
        telemetry.record_fault(fault, event, **ids, row=row)
        if row is None or self.dry_run:
            return False
        self.fine.discard(row)
        return await report_row(self.context, row, fault)

    def note_success(self, row: str) -> None:
        """Records that the work at a row succeeded."""
        self.fine.add(row)
        self.context.process.row_faults.note_success(row)
