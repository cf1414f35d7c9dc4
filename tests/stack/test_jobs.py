"""Jobs through the whole stack: real documents, real messages, real tables."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from azure.data.tables import TableServiceClient

from lucius_client.cli.documents import Documents
from tests.lucius_client.cli.command import run_main
from tests.running_stack import ROOT, SMALL_INVOICE, RunningStack
from tests.waiting import wait_until

SAMPLES = ROOT / "samples"
JOB_TIMEOUT_S = 120
ENDED = {"SUCCEEDED", "FAILED_FINAL", "CANCELLED"}


def documents(stack: RunningStack) -> Documents:
    return Documents(stack.storage_connection)


def post(stack: RunningStack, uri: str, payload: dict[str, Any], request_type: str = "OCR_EMBEDDING_SIS") -> str:
    response = stack.http.post(
        "/v1/orchestrate",
        json={
            "schema_version": "1.0",
            "tenant_id": "stack-tests",
            "request_type": request_type,
            "input_ref": {"uri": uri},
            "output_ref": {"uri": f"{stack.blob}/results"},
            "payload": payload,
            "idempotency_key": str(uuid.uuid4()),
        },
    )
    assert response.status_code == 202, response.text
    return str(response.json()["jobId"])


def until(stack: RunningStack, job_id: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        try:
            answer = stack.http.get(f"/v1/jobs/{job_id}")
        except httpx.TransportError:
            return None  # the host is being started again
        if answer.status_code == 503:
            return None  # the storage is
        job: dict[str, Any] = answer.raise_for_status().json()
        return job if holds(job) else None

    return wait_until(look, f"{job_id} did not get there", deadline_s=JOB_TIMEOUT_S)


def until_ended(stack: RunningStack, job_id: str) -> dict[str, Any]:
    return until(stack, job_id, lambda job: job["status"] in ENDED)


def test_the_ledger_is_as_designed(stack: RunningStack) -> None:
    """JOB, STEP and EVENT rows of one partition can be read with azure-data-tables, and the events have no gap."""
    job_id = post(stack, documents(stack).upload(SMALL_INVOICE), {}, "OCR")
    job = until_ended(stack, job_id)
    with TableServiceClient.from_connection_string(stack.storage_connection) as tables:
        rows = list(tables.get_table_client("luciusledger").query_entities(f"PartitionKey eq '{job_id}'"))
    by_key = {row["RowKey"]: row for row in rows}
    assert by_key["JOB"]["status"] == job["status"] == "SUCCEEDED"
    assert by_key["STEP:0000:ocr"]["attempt_no"] == 1
    events = [row for key, row in sorted(by_key.items()) if key.startswith("EVENT:")]
    assert [row["seq"] for row in events] == list(range(1, len(events) + 1))
    assert by_key["JOB"]["event_seq"] == len(events)


def test_a_document_that_is_none_fails_for_good(stack: RunningStack, tmp_path: Path) -> None:
    """A broken PDF ends its job with the service's code, after one attempt, and nothing is left waiting."""
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 this is none")
    job = until_ended(stack, post(stack, documents(stack).upload(broken), {}, "OCR"))
    assert job["status"] == "FAILED_FINAL"
    assert job["steps"][0]["attempt_no"] == 1
    assert job["error_code"]


def test_whole_jobs_are_driven_over_the_api(stack: RunningStack, tmp_path: Path) -> None:
    """`lucius service load --api` posts requests and measures jobs from their due time to their end."""
    store = documents(stack)
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 neither is this")
    for name, file in (("good", SAMPLES / "bw40-manual.pdf"), ("broken", tmp_path / "broken.pdf")):
        request = {
            **{"schema_version": "1.0", "tenant_id": "stack-tests", "request_type": "OCR", "payload": {}},
            "input_ref": {"uri": store.upload(file)},
            "output_ref": {"uri": f"{stack.blob}/results"},
        }
        (tmp_path / f"{name}.json").write_text(json.dumps(request))
    mix = ("--mix", f"{tmp_path}/good.json", "--mix", f"{tmp_path}/broken.json", "--seed", "3")
    driven = run_main("service", "load", "--api", stack.api, *mix, "--rate", "5", "--count", "4", "-o", "json")
    shown = json.loads(driven.stdout)
    assert (driven.returncode, shown["sent"], shown["lost"]) == (0, 4, 0), driven
    assert shown["outcomes"] == {"SUCCEEDED": 2, "FAILED_FINAL PDF_BROKEN": 2}
    assert 0 < shown["accepted_s"]["50"] <= shown["job_s"]["100"]


def test_a_job_survives_the_kill_of_a_service(stack: RunningStack) -> None:
    """SIGKILL before or during its step: the service restarts, and each step has one result."""
    payload = {"sis": {"prompt_set": ["What is the invoice number?"]}}
    job_id = post(stack, documents(stack).upload(SMALL_INVOICE), payload)
    stack.restart("sis")
    job = until_ended(stack, job_id)
    assert job["status"] == "SUCCEEDED"
    events = stack.get(f"/v1/jobs/{job_id}/events", limit=1000)["events"]
    succeeded = [event["stepId"] for event in events if event["to_status"] == "SUCCEEDED"]
    assert succeeded == ["ocr", "embedding", "sis"]


def test_a_stack_goes_on_where_it_was(stack: RunningStack) -> None:
    """A pause of the bus delays a job and loses nothing."""
    job_id = post(stack, documents(stack).upload(SMALL_INVOICE), {}, "OCR_EMBEDDING")
    stack.pause("bus")
    time.sleep(1)
    stack.resume("bus")
    assert until_ended(stack, job_id)["status"] == "SUCCEEDED"
