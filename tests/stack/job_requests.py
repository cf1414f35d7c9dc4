"""Jobs of one tenant over HTTP: submitted, read and waited for."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.scripted_service import LANE, TENANT
from tests.waiting import wait_until

#: a reply that was delivered to a killed host comes again when its lock of a minute is over
DEADLINE_S = 150
_REPLIES = f"global-bus-replies-p{LANE}/Subscriptions/lucius-invoker"


def post(stack: RunningStack, **changes: Any) -> httpx.Response:
    body = {
        "schema_version": "1.0",
        "tenant_id": TENANT,
        "request_type": "OCR",
        "input_ref": f"{stack.blob}/documents/none.pdf",
        "output_ref": f"{stack.blob}/results",
        "payload": {},
        "idempotency_key": str(uuid.uuid4()),
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


def replies_on_the_lane(stack: RunningStack) -> dict[str, int]:
    """Returns the counts of messages on the tenant's lane: `active` (locked ones too), `dead_letter`, ..."""
    entities = stack.http.get(f"{stack.admin}/entities").raise_for_status().json()
    counts: dict[str, int] = entities[_REPLIES]
    return counts


def until_replies_are_taken(stack: RunningStack) -> None:
    """One that a killed host had locked lies on the lane for a minute, in which no attempt there times out (R8)."""
    wait_until(lambda: replies_on_the_lane(stack)["active"] == 0, "replies stay on the lane", deadline_s=DEADLINE_S)


def connections(stack: RunningStack) -> int:
    return int(stack.http.get(f"{stack.admin}/health").raise_for_status().json()["connections"])


@contextmanager
def without_the_host(stack: RunningStack, *, connected: int = 2) -> Iterator[None]:
    """Runs while the host is dead and the bus knows it: messages that the host had received would be locked for a
    minute.

    `connected`: connections of the test's own; a ScriptedService has one to receive and one to send.
    """
    until_replies_are_taken(stack)
    with stack.without("host"):
        wait_until(lambda: connections(stack) <= connected, "the bus did not see the host end")
        yield


def events(stack: RunningStack, job_id: str) -> list[str]:
    """Returns the types of its events, whose numbers have no gap."""
    listed = stack.get(f"/v1/jobs/{job_id}/events")["events"]
    assert [event["seq"] for event in listed] == list(range(1, len(listed) + 1))
    return [event["type"] for event in listed]
