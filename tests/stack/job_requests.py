"""Jobs of one tenant over HTTP: submitted, read and waited for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx

from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.scripted_service import TENANT
from tests.waiting import wait_until

#: a reply that was delivered to a killed host comes again when its lock of a minute is over
DEADLINE_S = 100


def post(stack: RunningStack, **changes: Any) -> httpx.Response:
    body = {
        "schema_version": "1.0",
        "tenant_id": TENANT,
        "request_type": "OCR",
        "input_ref": f"{stack.blob}/documents/none.pdf",
        "output_ref": f"{stack.blob}/results",
        "payload": {},
        "idempotency_key": str(time.time_ns()),
    }
    return stack.http.post("/v1/orchestrate", json=body | changes)


def submit(stack: RunningStack, **changes: Any) -> str:
    response = post(stack, **changes)
    assert response.status_code == 202, response.text
    return str(response.json()["jobId"])


def job(stack: RunningStack, job_id: str) -> dict[str, Any]:
    record: dict[str, Any] = stack.get(f"/v1/jobs/{job_id}")
    return record


def until(stack: RunningStack, job_id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """The job once `holds` is true of it; a host that is being started again is waited for."""
    last: dict[str, Any] = {}

    def look() -> dict[str, Any] | None:
        nonlocal last
        try:
            last = job(stack, job_id)
        except httpx.TransportError:
            return None
        return last if holds(last) else None

    try:
        return wait_until(look, f"{job_id} did not get there", deadline_s=DEADLINE_S)
    except AssertionError as late:
        raise AssertionError(f"{late}\n{last}\n{running_stack.tails(stack.data)}") from None


def status_is(*expected: str) -> Callable[[dict[str, Any]], bool]:
    return lambda record: record["status"] in expected


def events(stack: RunningStack, job_id: str) -> list[str]:
    """The types of its events, whose numbers have no gap."""
    listed = stack.get(f"/v1/jobs/{job_id}/events")["events"]
    assert [event["seq"] for event in listed] == list(range(1, len(listed) + 1))
    return [event["type"] for event in listed]
