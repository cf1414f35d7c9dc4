"""A stack without platform services and with short time-outs, and its jobs over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.scripted_service import TENANT

#: a reply that was delivered to a killed host comes again when its lock of a minute is over
DEADLINE_S = 100

SHORT = {
    "LUCIUS_ACK_TIMEOUT_SECONDS": "2",
    "LUCIUS_STEP_RESULT_TIMEOUT_SECONDS": "6",
    "LUCIUS_ACK_BACKOFF_SECONDS": "0.2",
    "LUCIUS_EXECUTION_BACKOFF_SECONDS": "0.2",
}


@contextmanager
def bare_stack(data: Path, environment: Mapping[str, str]) -> Iterator[RunningStack]:
    """With `SHORT` time-outs and that environment; at its end no orchestration may have stalled."""
    running = running_stack.start(data, "--without-services", environment={**SHORT, **environment})
    try:
        yield running
        stalls = httpx.get(f"{running.api}/admin/emulator/stalls").json()
    finally:
        running.stop()
    assert stalls == [], "an orchestration waits for what can never come"


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
    return httpx.post(f"{stack.api}/v1/orchestrate", json=body | changes, timeout=30)


def submit(stack: RunningStack, **changes: Any) -> str:
    response = post(stack, **changes)
    assert response.status_code == 202, response.text
    return str(response.json()["jobId"])


def job(stack: RunningStack, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{stack.api}/v1/jobs/{job_id}", timeout=30).raise_for_status().json()
    return found


def until(stack: RunningStack, job_id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    deadline = time.monotonic() + DEADLINE_S
    found: dict[str, Any] = {}
    while time.monotonic() < deadline:
        try:
            found = job(stack, job_id)
        except httpx.TransportError:
            time.sleep(0.2)  # the host is being started again
            continue
        if holds(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"it did not come to that: {found}\n{running_stack.tails(stack.data)}")


def status_is(*wanted: str) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found["status"] in wanted


def events(stack: RunningStack, job_id: str) -> list[str]:
    listed = httpx.get(f"{stack.api}/v1/jobs/{job_id}/events", timeout=30).raise_for_status().json()["events"]
    assert [event["seq"] for event in listed] == list(range(1, len(listed) + 1))
    return [event["type"] for event in listed]
