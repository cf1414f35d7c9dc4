"""The diagram of a step in docs/contributing/rules.md, from the table of transitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from shared.core.jobs.states import StepStatus
from shared.core.jobs.transitions import STEP_TABLE, Row

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


def step_diagram() -> str:
    """A Mermaid state diagram of a step."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {StepStatus.PENDING}"]
    lines += [f"    {start} --> {end}: {', '.join(triggers)}" for (start, end), triggers in arrows(STEP_TABLE).items()]
    lines += [f"    {state} --> [*]" for state in STEP_TABLE if state.terminal]
    return "\n".join([*lines, "```"])


#: for `scripts.generate`
PARTS = {"step-diagram": step_diagram}
