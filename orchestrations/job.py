"""The orchestration of one job: each step in its turn, dispatched, awaited, settled.

What events and timers tell is a hint; the next activity asks the ledger and its verdict is obeyed (DESIGN truth 1).
The rules behind the shape stand in LIFECYCLE "The orchestrator's shape".
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df

from orchestrations import names
from orchestrations.step import StepEnd, run_step

bp = df.Blueprint()

Yields = Generator[Any, Any, Any]


@bp.function_name(names.JOB)
@bp.orchestration_trigger(context_name="context")
def job(context: df.DurableOrchestrationContext) -> Yields:
    """Input: `{"job_id", "steps": [step_id, ...]}`. The output is for people; the ledger holds the truth."""
    plan = context.get_input()
    job_id = plan["job_id"]
    for step_id in plan["steps"]:
        end = yield from run_step(context, job_id, step_id)
        if end is StepEnd.JOB_ENDED:
            break
    return {"job_id": job_id}
