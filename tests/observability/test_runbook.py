"""The commands of docs/guides/operations.md, run unchanged against a live stack."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from shared.telemetry.lines import LINES
from shared.telemetry.metric_table import METRICS
from tests.document_commands import block, json_documents, run
from tests.lucius_client.cli.command import run_main
from tests.running_stack import ROOT, RunningStack
from tests.waiting import wait_until

pytestmark = pytest.mark.needs("curl")
RUNBOOK = ROOT / "docs" / "guides" / "operations.md"


def shown(stack: RunningStack, name: str, **ids: str) -> list[Any]:
    """Returns the JSON of each line of a block of the runbook, with ids in place of its placeholders.

    A refusal is returned as its text.
    """
    found: list[Any] = []
    for line in block(RUNBOOK, name).splitlines():
        for placeholder, value in ids.items():
            line = line.replace(placeholder, value)
        if line.startswith("lucius "):
            completed = run_main(*shlex.split(line)[1:], "--json", api=stack.api)
            found += json_documents(completed.stdout) if completed.returncode == 0 else [completed.stderr]
        elif not line.startswith("#"):
            found += json_documents(run(stack, line, {"$LUCIUS_TOKEN": ""}))
    return found


def submit(stack: RunningStack, document: str, key: str) -> str:
    body = {
        "schema_version": "1.0",
        "tenant_id": "demo",
        "request_type": "OCR",
        "input_ref": {"uri": f"{stack.blob}/documents/{document}"},
        "output_ref": {"uri": f"{stack.blob}/results"},
        "payload": {},
        "idempotency_key": key,
    }
    return str(stack.http.post("/v1/orchestrate", json=body).raise_for_status().json()["jobId"])


@pytest.fixture(scope="module")
def failed(stack: RunningStack) -> str:
    """Returns a job whose document does not exist."""
    job_id = submit(stack, "nowhere.pdf", "runbook-failed")
    wait_until(lambda: stack.get(f"/v1/jobs/{job_id}")["status"] == "FAILED_FINAL", "the job did not fail")

    def listed() -> bool:
        return job_id in {each["jobId"] for each in stack.get("/v1/deadletters")["deadletters"]}

    # its row comes with the index, after the job's own
    wait_until(listed, "it was not listed")
    return job_id


def test_the_first_look(stack: RunningStack, failed: str) -> None:
    """Health, dead letters, rejected messages and the sweeper's plan, in four answers."""
    health, dead, rejected, plan = shown(stack, "first-look")
    assert health["status"] == "ready"
    assert failed in {each["jobId"] for each in dead}
    assert isinstance(rejected, list)
    assert plan["dryRun"] is True


def test_one_job(stack: RunningStack, failed: str) -> None:
    """The reason of its failure, every transition, and the duration of each part."""
    explained, events, receipt = shown(stack, "one-job", JOB_ID=failed)
    assert "INPUT_NOT_FOUND" in json.dumps(explained)
    assert events[0]["type"] == "JOB_CREATED"
    assert receipt["jobId"] == failed


def test_dead_letters_and_their_redrive(stack: RunningStack, failed: str) -> None:
    """The lists have the failed job and its reason; the redrive is a new job, linked."""
    dead, jobs, _ = shown(stack, "dead-letters")
    assert failed in {each["jobId"] for each in dead}
    assert failed in {each["jobId"] for each in jobs}
    [redriven] = shown(stack, "redrive", JOB_ID=failed)
    assert redriven["redrive_of"] == failed


def test_pause_and_resume(stack: RunningStack) -> None:
    """A paused job stays at its step, and continues after the resume."""
    stack.pause("ocr")  # the job stays active
    try:
        paused, resumed = shown(stack, "pause", JOB_ID=submit(stack, "samples/minutes-scan.pdf", "runbook-paused"))
    finally:
        stack.resume("ocr")
    assert paused["status"] in ("PAUSING", "PAUSED")
    assert resumed["status"] in ("QUEUED", "IN_PROGRESS")


def test_reconcile_by_hand(stack: RunningStack) -> None:
    """The commands run one sweep, and sweeps until none has work left."""
    swept, health, _ = shown(stack, "reconcile")
    assert swept["dryRun"] is False
    assert [health["status"], shown(stack, "reconcile-more")[-1]["status"]] == ["ready", "ready"]


def test_rejected_messages(stack: RunningStack) -> None:
    """The list finds a message of an unknown job, the read predicts the outcome, the redrive is refused."""
    body = {
        "type": "ACK",
        "jobId": "job_elsewhere",
        "stepId": "ocr",
        "tenant_id": "t",
        "attempt_no": 1,
        "lease_id": "l",
    }
    with ServiceBusClient.from_connection_string(stack.bus_connection) as client:
        with client.get_topic_sender("global-bus-replies-p3") as sender:
            sender.send_messages(ServiceBusMessage(json.dumps(body)))

    def quarantined() -> str | None:
        messages = stack.get("/v1/rejected")["rejected"]
        return next((each["id"] for each in messages if "job_elsewhere" in each["detail"]), None)

    rejected_id = wait_until(quarantined, "the message was not quarantined")
    listed, read, redriven = shown(stack, "rejected", REJECTED_ID=rejected_id)
    assert rejected_id in {each["id"] for each in listed}
    assert read["what_if"]["outcome"] == "REJECTED"
    assert "STILL_NOT_APPLICABLE" in redriven


def test_a_tenant(stack: RunningStack, failed: str) -> None:
    """The commands show a tenant's active jobs and the cost of its jobs."""
    jobs, receipts = shown(stack, "tenant")
    assert {each["tenant_id"] for each in jobs} <= {"demo"}
    assert isinstance(receipts, list), receipts


def test_what_the_runbook_names_is_there() -> None:
    """The tables have its metrics and lines, and each marked block is run; test_alerts.py reads the others."""
    runbook = RUNBOOK.read_text(encoding="utf-8")
    names = {metric.name for metric in METRICS}
    named = set(re.findall(r"`([a-z_]+_(?:total|seconds|backlog))`", runbook))
    assert named - names == set()
    for heading in re.findall(r"\]\(#([a-z-]+)\)", runbook):
        assert heading in {title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", runbook, re.MULTILINE)}
    assert {"REPLY_RETRIED", "DEAD_REPLIES_UNFINISHED", "LANE_BACKLOG"} <= {line.event for line in LINES}
    blocks = set(re.findall(r"<!-- tested: ([a-z-]+) -->", runbook))
    tested = set(re.findall(r'shown\(stack, "([a-z-]+)"', (ROOT / "tests/observability/test_runbook.py").read_text()))
    assert blocks == tested
