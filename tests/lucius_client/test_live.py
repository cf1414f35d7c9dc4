"""The clients against the real API."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from emulator.up.ports import find_free
from lucius_client import AsyncClient, Client, JobNotFound, KeyConflict, ProtocolUnknown, Refused
from lucius_client.models import Envelope, Job
from tests.lucius_client.cli.command import stdout_of
from tests.running_stack import ROOT, RunningStack
from tests.waiting import wait_until
from tests.webhook_receivers import PageReceiver


@pytest.fixture
def lucius(stack: RunningStack) -> Iterator[Client]:
    with Client(stack.api) as client:
        yield client


def envelope(stack: RunningStack, tenant: str, **more: Any) -> Envelope:
    return Envelope(
        schema_version="1.0",
        tenant_id=tenant,
        request_type="OCR",
        input_ref=f"{stack.blob}/documents/samples/invoice.png",
        output_ref=f"{stack.blob}/results",
        payload={},
        **more,
    )


@pytest.fixture
def waiting_job(stack: RunningStack, lucius: Client, tenant: str) -> Iterator[Job]:
    """A job that stays active, since its service is paused."""
    stack.pause("ocr")
    try:
        yield lucius.job(lucius.submit(envelope(stack, tenant)).job.jobId)
    finally:
        stack.resume("ocr")


async def test_a_job_from_submit_to_end(stack: RunningStack, lucius: Client, tenant: str) -> None:
    """Both clients send and return models; the idempotency key decides which requests are the same job."""
    first = lucius.submit(envelope(stack, tenant, idempotency_key="k"))
    assert not first.replayed
    async with AsyncClient(stack.api) as client:
        assert (await client.submit(envelope(stack, tenant, idempotency_key="k"))).replayed
        ended = await client.wait(first.job.jobId, timeout_s=120)
    assert (ended.status, ended.tenant_id) == ("SUCCEEDED", tenant)
    with pytest.raises(KeyConflict) as conflict:
        lucius.submit(envelope(stack, tenant, idempotency_key="k", doc_id="another"))
    assert conflict.value.problem.jobId == first.job.jobId
    assert lucius.submit(envelope(stack, tenant)).job.jobId != lucius.submit(envelope(stack, tenant)).job.jobId
    by_body = envelope(stack, tenant, idempotency_key=None)
    assert lucius.submit(by_body).job.jobId == lucius.submit(by_body).job.jobId


def test_every_read_is_its_model(stack: RunningStack, lucius: Client, tenant: str) -> None:
    """The response of each route is parsed by its model."""
    job = lucius.wait(lucius.submit(envelope(stack, tenant)).job.jobId, timeout_s=120)
    events = list(lucius.events(job.jobId))
    assert [event.seq for event in events] == list(range(1, job.event_seq + 1))
    assert lucius.job(job.jobId, as_of=1).status == "QUEUED"
    assert job.jobId in lucius.explain(job.jobId).text
    assert lucius.receipt(job.jobId).events == job.event_seq
    assert lucius.audit(job.jobId)["job"]["event_hash"] == events[-1].hash
    assert {protocol.request_type for protocol in lucius.protocols()} >= {"OCR"}
    assert lucius.protocol("OCR").steps[0].step_id == "ocr"
    assert lucius.live().status == "live"
    assert lucius.ready().status == "ready"
    assert lucius.dry_run(envelope(stack, tenant)).idempotency.verdict == "NEW"
    outcome = lucius.submit_many([envelope(stack, tenant), {"tenant_id": tenant}])
    assert (outcome.counts.created, outcome.counts.refused) == (1, 1)
    assert list(lucius.dead_letters(tenant_id=tenant)) == []
    list(lucius.rejected(limit=1))
    assert lucius.reconcile(dry_run=True).dryRun
    with pytest.raises(JobNotFound):
        lucius.job("nobody")
    with pytest.raises(ProtocolUnknown) as unknown:
        lucius.submit({**envelope(stack, tenant).plain(), "request_type": "NOPE"})
    assert "OCR" in (unknown.value.problem.known or [])
    with pytest.raises(Refused, match="409"):
        lucius.cancel(job.jobId)


def test_a_change_ends_the_long_poll(stack: RunningStack, lucius: Client, waiting_job: Job) -> None:
    """A client that waits receives a change when it happens."""
    seen: list[str] = []

    def watch() -> None:
        with Client(stack.api) as client:
            seen.extend(job.status for job in client.changes(waiting_job.jobId, timeout_s=120))

    watching = threading.Thread(target=watch)
    watching.start()
    lucius.cancel(waiting_job.jobId, reason="not needed")
    stack.resume("ocr")
    watching.join(150)
    assert seen[-1] == "CANCELLED"


@pytest.mark.parametrize("by_prefer", [True, False], ids=["Prefer", "until=ended"])
def test_a_job_of_three_steps_costs_its_caller_one_or_two_requests(
    stack: RunningStack, tenant: str, by_prefer: bool
) -> None:
    """With `Prefer: wait` the caller sends one request; otherwise two, a submission and a read that the API holds.

    The API holds a request for 20 s at most: a slower machine needs one more each time.
    """
    requests: list[str] = []

    class Counting(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            requests.append(request.method)
            return super().handle_request(request)

    with Client(stack.api, transport=Counting()) as client:
        submitted = client.submit(
            {
                **envelope(stack, tenant).plain(),
                "request_type": "OCR_EMBEDDING_SIS",
                "payload": {"sis": {"prompt_set": ["What is the total?"]}},
            },
            wait=20 if by_prefer else 0,
        )
        job = submitted.ended or client.wait(submitted.job.jobId, timeout_s=120)
    assert (job.status, len(job.steps)) == ("SUCCEEDED", 3)
    assert job.completed_at is not None
    periods = int((job.completed_at - job.created_at).total_seconds() // 19)
    first = ["POST"] if by_prefer else ["POST", "GET"]
    assert requests[: len(first)] == first
    assert len(requests) <= len(first) + periods


def test_a_list_is_up_to_date_after_a_sweep(stack: RunningStack, lucius: Client, tenant: str, waiting_job: Job) -> None:
    """After a sweep the line of an active job has the job's state, step and event."""
    lucius.pause(waiting_job.jobId)
    deadline = time.monotonic() + 120
    while True:
        lucius.reconcile()
        [line] = lucius.jobs(tenant_id=tenant)
        job = lucius.job(waiting_job.jobId)
        if line.seq == job.event_seq:  # a time-out can change the job in between
            break
        assert time.monotonic() < deadline, (line, job)
    assert job.event_seq > 1
    assert (line.status, line.current_step_id) == (job.status, job.current_step_id)


def test_a_webhook_on_a_laptop(stack: RunningStack, lucius: Client, tenant: str, tmp_path: Path) -> None:
    """The commands of docs/reference/webhooks.md, and a job that succeeds, verified by the receiver of that page."""
    text = (ROOT / "docs" / "reference" / "webhooks.md").read_text(encoding="utf-8")
    found = re.search(r"<!-- tested: laptop -->\n```sh\n(.*?)```", text, re.DOTALL)
    assert found
    receiver = PageReceiver("receiver.py", tmp_path, find_free(), "")
    create, *others = found[1].replace("--tenant acme", f"--tenant {tenant}").splitlines()
    words = create.replace("http://127.0.0.1:3000/", receiver.url).split()[1:]
    made = json.loads(stdout_of(stack, *words, "-o", "json"))
    receiver.secret = made["secret"]
    listing, test, deliveries = (each.replace("HOOK_ID", made["hookId"]).split()[1:] for each in others)
    with receiver:
        assert made["hookId"] in stdout_of(stack, *listing)
        assert "delivered: 204" in stdout_of(stack, *test)
        job_id = lucius.submit(envelope(stack, tenant)).job.jobId
        wait_until(lambda: ("job.completed", job_id) in [each[1:] for each in receiver.taken], "no event came")
        wait_until(lambda: "DELIVERED" in stdout_of(stack, *deliveries), "the delivery did not end")
    lucius.remove_webhook(made["hookId"], tenant=tenant)
    assert lucius.webhooks(tenant=tenant) == []
