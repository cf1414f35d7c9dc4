"""`lucius jobs`, `job`, `deadletters` and `audit` against the real API."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from tests.lucius_client import samples
from tests.lucius_client.cli.command import INVOICE, run_main, run_on, stdout_of
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.running_stack import RunningStack
from tests.waiting import wait_until


def test_ids_go_from_one_command_to_the_next(stack: RunningStack) -> None:
    """-o ids prints ids that other commands take; -o json prints the JSON of the API."""
    tenant = f"ids-{uuid.uuid4()}"
    job_id = stdout_of(stack, "submit", INVOICE, "-p", "OCR", "--tenant", tenant, "-o", "ids").strip()
    assert stdout_of(stack, "jobs", "--tenant", tenant, "-o", "ids").split() == [job_id]
    job = json.loads(stdout_of(stack, "job", "show", job_id, "-o", "json"))
    assert (job["jobId"], job["tenant_id"]) == (job_id, tenant)
    events = json.loads(stdout_of(stack, "job", "events", job_id, "-o", "json"))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert job_id in stdout_of(stack, "jobs", "--tenant", tenant)
    assert "ocr" in stdout_of(stack, "job", "show", job_id)
    assert stdout_of(stack, "job", "explain", job_id).startswith(f"Job {job_id} ")
    assert json.loads(stdout_of(stack, "job", "explain", job_id, "-o", "json"))["jobId"] == job_id


def test_a_job_is_paused_resumed_and_cancelled(stack: RunningStack) -> None:
    """Each control prints the changed job, and its reason is in the events."""
    stack.pause("ocr")  # the job stays active
    try:
        job_id = stdout_of(stack, "submit", INVOICE, "-p", "OCR", "--again", "-o", "ids").strip()
        paused = json.loads(stdout_of(stack, "job", "pause", job_id, "--reason", "lunch", "-o", "json"))
        assert paused["status"] in {"PAUSING", "PAUSED"}
        assert json.loads(stdout_of(stack, "job", "resume", job_id, "-o", "json"))["status"] in {
            "QUEUED",
            "IN_PROGRESS",
        }
        cancelled = json.loads(stdout_of(stack, "job", "cancel", job_id, "-o", "json"))
        assert cancelled["status"] in {"CANCELLING", "CANCELLED"}
    finally:
        stack.resume("ocr")
    reasons = [event["reason"] for event in json.loads(stdout_of(stack, "job", "events", job_id, "-o", "json"))]
    assert "lunch" in reasons


def test_a_failed_job_is_found_redriven_and_compared(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """deadletters names step and error, redrive creates one new job, diff prints the differing events."""
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 this is none " + uuid.uuid4().bytes)
    failed = run_on(stack, "submit", str(broken), "-p", "OCR", "--tenant", tenant, "--watch", "-o", "ids")
    assert failed.returncode == 1
    old = failed.stdout.strip()
    narrowed = ("deadletters", "--tenant", tenant, "--type", "OCR", "--since", "1h", "--json")
    # its row comes with the index, after the job's own
    [dead] = wait_until(lambda: json.loads(stdout_of(stack, *narrowed)), "it was not listed")
    assert json.loads(stdout_of(stack, "deadletters", "--tenant", tenant, "--label", "team:red", "--json")) == []
    assert (dead["jobId"], dead["failed_step_id"]) == (old, "ocr")
    assert dead["error_code"] in stdout_of(stack, "deadletters", "--tenant", tenant)
    new = json.loads(stdout_of(stack, "job", "redrive", old, "--reason", "a new engine", "--json"))
    assert new["redrive_of"] == old
    # 1 if the new job has failed by now
    assert json.loads(run_on(stack, "job", "redrive", old, "--json").stdout)["jobId"] == new["jobId"]
    wait_until(lambda: old not in stdout_of(stack, "deadletters", "--tenant", tenant), "it is still listed")
    assert run_on(stack, "job", "watch", new["jobId"]).returncode == 1
    assert old in stdout_of(stack, "job", "show", new["jobId"])
    differing = run_on(stack, "job", "diff", old, new["jobId"])
    assert differing.returncode == 1
    assert any(line.startswith("-") and "JOB_REDRIVEN" in line for line in differing.stdout.splitlines())
    same = json.loads(stdout_of(stack, "job", "diff", old, old, "--json"))
    assert (same["same"], same["lines"]) == (True, [])


def test_an_audit_bundle_is_verified_offline(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """The bundle of a job is verified without the API; its receipt and its first state can be read."""
    job_id = stdout_of(stack, "submit", INVOICE, "-p", "OCR", "--tenant", tenant, "-o", "ids").strip()
    assert run_on(stack, "job", "watch", job_id).returncode == 0
    bundle = tmp_path / "bundle.json"
    stdout_of(stack, "job", "audit", job_id, "--out", str(bundle))
    assert f"verified at levels 1, 2, 3: {job_id} SUCCEEDED, " in stdout_of(stack, "audit", "verify", str(bundle))
    head = json.loads(bundle.read_text())["job"]["event_hash"]
    stdout_of(stack, "audit", "verify", str(bundle), "--head", head)
    assert run_on(stack, "audit", "verify", str(bundle), "--head", "another").returncode == 2
    assert "total" in stdout_of(stack, "job", "receipt", job_id)
    created = json.loads(stdout_of(stack, "job", "show", job_id, "--as-of", "1", "--json"))
    assert (created["status"], created["as_of"]["type"]) == ("QUEUED", "JOB_CREATED")


def test_a_quiet_watch_is_one_request_for_each_job() -> None:
    """The response is delayed until the job has ended; the exit code shows whether all succeeded."""
    for status, code in (("SUCCEEDED", 0), ("CANCELLED", 1)):
        with serving(CannedResponse(body=samples.job(status), headers={"ETag": '"one"'})) as api:
            run = run_main("job", "watch", "job_1", "job_2", "--quiet", api=api.url)
        assert (run.returncode, run.stderr) == (code, "")
        assert [request.path for request in api.requests] == [
            f"/v1/jobs/{job_id}?wait=20&until=ended" for job_id in ("job_1", "job_2")
        ]
