"""Generates the diagram of a step in docs/contributing/rules.md and the tables as JSON, from the tables of
transitions.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from shared.core.jobs.history import RULES
from shared.core.jobs.states import StepStatus
from shared.core.jobs.transitions import JOB_CREATION, JOB_TABLE, STEP_TABLE, TargetState

#: a table of transitions: rows by state and trigger
Table = Mapping[Any, Mapping[Any, TargetState]]


def arrows(table: Table) -> dict[tuple[str, str], list[str]]:
    """Returns the triggers from one state to another, in the order of the table. Omits triggers that keep the state."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for state, rows in table.items():
        for trigger, row in rows.items():
            if row.to != state:
                found[str(state), str(row.to)].append(str(trigger))
    return dict(found)


def step_diagram() -> str:
    """Returns a Mermaid state diagram of a step."""
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {StepStatus.PENDING}"]
    lines += [f"    {start} --> {end}: {', '.join(triggers)}" for (start, end), triggers in arrows(STEP_TABLE).items()]
    lines += [f"    {state} --> [*]" for state in STEP_TABLE if state.terminal]
    return "\n".join([*lines, "```"])


def _targets(table: Table) -> dict[str, dict[str, str]]:
    return {state: {trigger: row.to for trigger, row in rows.items()} for state, rows in table.items()}


def files() -> dict[str, str]:
    """Returns `docs/reference/transitions.{RULES}.json`, with the creations of a job, and the triggers of a job and of
    its steps.
    """
    document = {
        "rules": RULES,
        "created": {name: row.to for name, row in JOB_CREATION.items()},
        "job": _targets(JOB_TABLE),
        "step": _targets(STEP_TABLE),
    }
    return {f"reference/transitions.{RULES}.json": json.dumps(document, indent=1) + "\n"}


#: parts that `scripts.generate` writes
PARTS = {"step-diagram": step_diagram}
