"""The rows of the transition tables that led to an EVENT row: its `data.transitions`, looked up."""

from __future__ import annotations

from collections.abc import Mapping

from shared.core.jobs.job import Event
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.transitions import JOB_TABLE, STEP_TABLE, JobTrigger, StepTrigger
from shared.responses.history import TableRow


def cite(event: Event) -> tuple[TableRow, ...]:
    """The rows that its own step used, then those of its job; none where nothing changed its state.

    Raises LookupError or ValueError for a row that the tables do not have.
    """
    names = event.data.get("transitions", ()) if isinstance(event.data, Mapping) else ()
    applied = [tuple(str(name).split(" ")) for name in names]
    return tuple(
        _row("step" if machine != "job" else "job", state, trigger)
        for own in (f"step:{event.step_id}", "job")
        for machine, state, trigger in applied
        if machine == own
    )


def _row(machine: str, state: str, trigger: str) -> TableRow:
    if machine == "job":
        row = JOB_TABLE[JobStatus(state)][JobTrigger(trigger)]
        return TableRow(machine="job", state=state, event=trigger, to=row.to, source=row.source)
    row = STEP_TABLE[StepStatus(state)][StepTrigger(trigger)]
    return TableRow(machine="step", state=state, event=trigger, to=row.to, source=row.source)
