"""Names in durable histories: functions, instance ids, external events (R27).

Stored histories have these names, so a name never changes. New names can be added.
"""

from __future__ import annotations

import re

#: orchestrator of one job
JOB = "job"
#: orchestrator of one step of a parallel group
STEP = "step"
#: activities
DISPATCH = "dispatch"
SETTLE = "settle"

_RESTARTED = re.compile(r"\.r(\d+)$")


def instance_id(job_id: str, restart: int = 0) -> str:
    """Returns the id of the job's orchestration: `{job_id}`, or `{job_id}.r{n}` after the n-th restart."""
    return f"{job_id}.r{restart}" if restart else job_id


def restarts(instance_id: str) -> int:
    """Returns the number of restarts before this instance, from its id."""
    found = _RESTARTED.search(instance_id)
    return int(found[1]) if found else 0


def group_instance_id(instance_id: str, step_index: int) -> str:
    """Returns the id of the orchestration of one step of a parallel group: `{job instance id}.s{step index}`."""
    return f"{instance_id}.s{step_index}"


def ack_event(step_id: str, attempt_no: int) -> str:
    """Returns the name of the external event of an attempt's ACK.

    Each wait has its own event: in azure-functions-durable 1.7, two waits for one name lose or repeat events.
    """
    return f"ack:{step_id}:{attempt_no}"


def result_event(step_id: str, attempt_no: int) -> str:
    """Returns the name of the external event of an attempt's RESULT."""
    return f"result:{step_id}:{attempt_no}"


def look_event(look_no: int) -> str:
    """Returns the name of the external event with which the sweeper wakes an orchestration to check the ledger.

    Each orchestration counts its wake-ups. Its custom status has the number of the wake-up that it waits for.
    """
    return f"look:{look_no}"


def resume_event(park_no: int) -> str:
    """Returns the name of the external event that ends pause number `park_no` of a job."""
    return f"resume:{park_no}"
