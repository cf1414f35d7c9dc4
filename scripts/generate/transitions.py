"""Diagrams of docs/contributing/rules.md, from the tables of transitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from shared.core.jobs.states import StepStatus
from shared.core.jobs.transitions import JOB_CREATION, JOB_TABLE, STEP_TABLE, Row

#: a table of transitions: rows by state and trigger
Table = Mapping[Any, Mapping[Any, Row]]


def arrows(table: Table) -> dict[tuple[str, str], list[str]]:
    """The triggers that lead from one state to another, in the order of the table; not those that keep the state."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for state, rows in table.items():
        for trigger, row in rows.items():
            if row.to != state:
                found[str(state), str(row.to)].append(str(trigger))
    return dict(found)


def diagram(table: Table, beginnings: Mapping[str, str]) -> str:
    """A Mermaid state diagram. `beginnings` has the first states, each with what leads there, or nothing."""
    lines = ["```mermaid", "stateDiagram-v2"]
    lines += [f"    [*] --> {state}" + (f": {trigger}" if trigger else "") for state, trigger in beginnings.items()]
    lines += [f"    {start} --> {end}: {', '.join(triggers)}" for (start, end), triggers in arrows(table).items()]
    lines += [f"    {state} --> [*]" for state in table if state.terminal]
    return "\n".join([*lines, "```"])


#: for `scripts.generate`
PARTS = {
    "job-diagram": lambda: diagram(JOB_TABLE, {row.to: name for name, row in JOB_CREATION.items()}),
    "step-diagram": lambda: diagram(STEP_TABLE, {StepStatus.PENDING: ""}),
}
