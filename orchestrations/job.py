"""The orchestration of one job, which dispatches each step and waits for the step's reply or a timer.

An event follows a commit to the ledger, and can name the end of the step or job, or a new deadline. After every other
event and after a timer, an activity reads the ledger, and the orchestration follows the verdict (R27, R30).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import azure.durable_functions as df

from orchestrations.step import StepEnd, Waits, run_step
from shared.core.jobs import durable_names

bp = df.Blueprint()

Yields = Generator[Any, Any, Any]


@bp.function_name(durable_names.JOB)
@bp.orchestration_trigger(context_name="context")
def job(context: df.DurableOrchestrationContext) -> Yields:
    """Runs one job. The input is `{"job_id", "steps": [step_id or [step_id, ...], ...]}`.

    Only operators read the output. The app reads the ledger.
    """
    plan = context.get_input()
    job_id = plan["job_id"]
    waits, index = Waits(context), 0
    for stage in plan["steps"]:
        if isinstance(stage, str):
            ends = [(yield from run_step(context, waits, job_id, context.instance_id, stage))]
        else:
            ends = yield from _group(context, job_id, stage, index)
        if StepEnd.JOB_ENDED in ends:
            break
        index += len(ends)
    return {"job_id": job_id}


@bp.function_name(durable_names.STEP)
@bp.orchestration_trigger(context_name="context")
def step(context: df.DurableOrchestrationContext) -> Yields:
    """Runs one step of a parallel group. The input is `{"job_id", "instance_id", "step_id"}`, with the job's instance
    id.
    """
    request = context.get_input()
    waits = Waits(context)
    end = yield from run_step(context, waits, request["job_id"], request["instance_id"], request["step_id"])
    return end.value


def _group(context: df.DurableOrchestrationContext, job_id: str, step_ids: list[str], first_index: int) -> Yields:
    """Runs all steps of a parallel group, each in its own orchestration, until all steps have ended."""
    tasks = [
        context.call_sub_orchestrator(
            durable_names.STEP,
            {"job_id": job_id, "instance_id": context.instance_id, "step_id": step_id},
            durable_names.group_instance_id(context.instance_id, index),
            # otherwise a group that starts after a rollout would have the new version
            version=context.version,
        )
        for index, step_id in enumerate(step_ids, start=first_index)
    ]
    ends = yield context.task_all(tasks)
    return [StepEnd(end) for end in ends]
