"""Every name that durable histories hold: functions, instance ids, external events (R27).

Stored histories refer to them, so they never change; new ones are added.
"""

from __future__ import annotations

import re

#: the orchestrator of one job
JOB = "job"
#: the orchestrator of one step of a parallel group
STEP = "step"
#: the activities
DISPATCH = "dispatch"
SETTLE = "settle"

_RESTARTED = re.compile(r"\.r(\d+)$")


def instance_id(job_id: str, restart: int = 0) -> str:
    """Returns the id of the job's orchestration: `{job_id}`, and `{job_id}.r{n}` after its n-th restart."""
    return f"{job_id}.r{restart}" if restart else job_id


def restarts(instance_id: str) -> int:
    """Returns how many times the job had been restarted when this instance was named."""
    found = _RESTARTED.search(instance_id)
    return int(found[1]) if found else 0


def group_instance_id(instance_id: str, step_index: int) -> str:
    """Returns the id of the orchestration of one step of a parallel group: `{the job's instance id}.s{index of the
    step}`.
    """
    return f"{instance_id}.s{step_index}"


def ack(step_id: str, attempt_no: int) -> str:
    """Returns the name of the external event of an attempt's ACK.

    Each wait has an event of its own: two waits on one name lose or repeat events in azure-functions-durable 1.7.
    """
    return f"ack:{step_id}:{attempt_no}"


def result(step_id: str, attempt_no: int) -> str:
    """Returns the name of the external event of an attempt's RESULT."""
    return f"result:{step_id}:{attempt_no}"


def look(look_no: int) -> str:
    """Returns the name of the external event by which the sweeper wakes an orchestration to check the ledger.

    Each orchestration counts its wake-ups and shows in its custom status which one it waits for.
    """
    return f"look:{look_no}"


def resume(park_no: int) -> str:
    """Returns the name of the external event that ends the `park_no`-th pause of a job."""
    return f"resume:{park_no}"
