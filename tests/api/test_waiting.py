"""Waiting for the end of a job over HTTP, as a tenant's caller and as an operator (R82)."""

from __future__ import annotations

import socket
import threading
import uuid
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx
import pytest

from tests.api.live import Live, envelope
from tests.waiting import wait_until

WAIT = {"Prefer": "wait=20"}


class Held:
    """A request in a separate thread."""

    def __init__(self, send: Callable[[], httpx.Response]) -> None:
        self.response: httpx.Response | None = None
        self._thread = threading.Thread(target=self._run, args=(send,), daemon=True)
        self._thread.start()

    def _run(self, send: Callable[[], httpx.Response]) -> None:
        self.response = send()

    def result(self) -> httpx.Response:
        self._thread.join(120)
        assert self.response is not None
        return self.response


@pytest.mark.parametrize("who", ["tenant", "operator"])
def test_a_held_submission_and_a_held_read_get_the_end(api: Live, who: str) -> None:
    """The job waits for a held quota, so that a cancel ends it; a submission of another tenant's is 403 at once."""
    tenant = f"waits-{uuid.uuid4()}"
    own = api.client(tenant=tenant)
    caller = own if who == "tenant" else api.operator()
    own.post("/v1/limits/pause", json={"tenant": tenant, "source": "held", "reason": "a test"}).raise_for_status()
    body = envelope(tenant_id=tenant, source="held", idempotency_key="k")
    immediate = caller.post("/v1/orchestrate", json=body, headers={"Prefer": "wait=0"})
    assert (immediate.status_code, immediate.headers["Preference-Applied"]) == (202, "wait=0")
    job_id = immediate.json()["jobId"]
    path = f"/v1/jobs/{job_id}"
    submission = Held(lambda: caller.post("/v1/orchestrate", json=body, headers={"Prefer": "wait=600, x"}))
    read = Held(lambda: caller.get(path, params={"wait": 20, "until": "ended"}))
    assert api.client().get(path, params={"wait": 20, "until": "ended"}).status_code == 404
    assert api.client().post("/v1/orchestrate", json=body, headers=WAIT).status_code == 403
    own.post(f"{path}:cancel").raise_for_status()
    submitted = submission.result()
    assert (submitted.status_code, submitted.json()["status"]) == (200, "CANCELLED")
    assert submitted.headers["Preference-Applied"] == "wait=20"
    assert submitted.headers["Idempotency-Replayed"] == "true"
    assert submitted.headers["Location"] == path
    assert read.result().json() == submitted.json() == own.get(path).json()


def test_callers_that_hang_up_leave_room(api: Live) -> None:
    """Each of more requests than a tenant may hold is given up by its caller: the next caller is held again."""
    tenant = f"hangs-up-{uuid.uuid4()}"
    own = api.client(tenant=tenant)
    body = envelope(tenant_id=tenant, idempotency_key="k")
    job_id = own.post("/v1/orchestrate", json=body).json()["jobId"]
    url, authorization = urlsplit(api.stack.api), own.headers["Authorization"]
    request = (
        f"GET /v1/jobs/{job_id}?wait=3&until=ended HTTP/1.1\r\nHost: {url.netloc}\r\n"
        f"Authorization: {authorization}\r\n\r\n"
    )
    for _ in range(30):
        with socket.create_connection((url.hostname, url.port)) as connection:
            connection.sendall(request.encode())
    wait_until(
        lambda: "Preference-Applied" in own.post("/v1/orchestrate", json=body, headers={"Prefer": "wait=1"}).headers,
        "no caller is held any more",
        deadline_s=60,
    )
