"""Names of the external events: one per wait, never used twice.

Two waits on one name lose or repeat events in durable-python 1.7, so each names its attempt or its parking.
"""

from __future__ import annotations


def ack(step_id: str, attempt_no: int) -> str:
    return f"ack:{step_id}:{attempt_no}"


def result(step_id: str, attempt_no: int) -> str:
    return f"result:{step_id}:{attempt_no}"


def resume(park_no: int) -> str:
    return f"resume:{park_no}"
