"""What one pass of the sweeper knows, and what its duties leave for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from shared import telemetry
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.rules import GateState
from shared.operations.context import Context
from shared.operations.incidents.row_incidents import report_row
from shared.operations.incidents.silent_services import Untaken
from shared.operations.sweeper.heal_deliveries import FoundHooks
from shared.operations.sweeper.report import SweepReport
from shared.ports.durable import Orchestrations
from shared.ports.index import ActiveRow, AwakeTenant
from shared.ports.sweeps import Share, SweepPosition, WorkCounts

#: whether the time of a duty is over
IsOver = Callable[[], bool]


@dataclass
class Pass:
    """One pass over the tenants of a share."""

    context: Context
    orchestrations: Orchestrations
    share: Share
    dry_run: bool
    report: SweepReport
    began: datetime
    #: of the share
    awake: dict[str, AwakeTenant]
    #: as the duties leave it
    position: SweepPosition
    #: the stored position; None: its row cannot be read
    stored: SweepPosition | None
    #: not by hand: a sweep by hand is over all tenants, and leaves alone what several sweepers share
    is_of_timer: bool
    #: it does what is done once an hour
    is_hourly: bool
    #: what failed, of what a pass must not miss
    faults: list[Exception] = field(default_factory=list)
    #: of each tenant the last due job that was listed
    last_due: dict[str, ActiveRow] = field(default_factory=dict)
    #: admission states of tenants as the admission read them
    admissions: dict[str, AdmissionState] = field(default_factory=dict)
    #: of the tenants whose admission state was read, and over all tenants
    gates: list[GateState] = field(default_factory=list)
    #: every admission state of the share was read
    has_all_gates: bool = False
    #: of a survey that came to its end in this pass
    counts: WorkCounts | None = None
    #: at tenants with webhooks
    hooks: FoundHooks = field(default_factory=FoundHooks)
    #: tenants without a living job
    idle: list[str] = field(default_factory=list)
    #: by service: the attempt that has waited longest for its ACK
    untaken: dict[str, Untaken] = field(default_factory=dict)
    #: the usage of all hours before it is rolled up; None: not known
    rolled_up_to: datetime | None = None
    #: keys of rows at which work was done in this pass
    fine: set[str] = field(default_factory=set)

    async def report_fault(self, event: str, fault: Exception, *, row: str | None = None, **ids: object) -> bool:
        """Logs a fault that one job, tenant or row had; it stops no other. Returns whether the next try fails too.

        `row`: the key of what the work was about; None: no row in particular.
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
