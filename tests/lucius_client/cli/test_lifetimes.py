"""What `lucius` does with jobs after their submission, and with many at once, against the real API."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import httpx
import pytest

from tests.lucius_client.cli.test_lucius import INVOICE, run_on, stdout_of
from tests.running_stack import RunningStack


@pytest.fixture
def tenant() -> str:
    return f"lifetimes-{uuid.uuid4()}"


def listed(stack: RunningStack, *words: str) -> list[str]:
    return stdout_of(stack, "jobs", *words, "-o", "ids").split()


def test_a_folder_and_lines_become_jobs_that_filters_find(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """A job a file, a job a line, and each is found by type, label, status and time; a bad line harms no other."""
    for number in range(2):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / f"{number}.txt").write_text(f"text {number}")
    words = ["--tenant", tenant, "--label", "batch:one"]
    files = stdout_of(stack, "submit", str(tmp_path / "in"), "-p", "EMBEDDING", *words, "-o", "ids").split()
    assert len(files) == 2
    reference = {"input_ref": {"uri": f"{stack.blob}/documents/samples/invoice.png"}}
    lines = [
        {**reference, "output_ref": {"uri": f"{stack.blob}/results"}, "payload": {}},
        {**reference, "payload": {}},
    ]
    batch = tmp_path / "jobs.ndjson"
    batch.write_text("\n".join(json.dumps(line) for line in lines))
    sent = run_on(stack, "submit", "--ndjson", str(batch), "-p", "OCR", "--tenant", tenant, "--json")
    assert sent.returncode == 3
    assert sent.stderr.startswith("line 2: 400 ENVELOPE_INVALID: ")
    first, second = json.loads(sent.stdout)
    assert (first["status"], second["status"]) == (202, 400)
    again = run_on(stack, "submit", "--ndjson", str(batch), "-p", "OCR", "--tenant", tenant, "--json")
    assert json.loads(again.stdout)[0]["replayed"] is True
    everything = {*files, first["jobId"]}
    assert set(listed(stack, "--tenant", tenant)) == everything
    assert set(listed(stack, "--tenant", tenant, "--label", "batch:one")) == set(files)
    assert listed(stack, "--tenant", tenant, "--type", "OCR") == [first["jobId"]]
    assert set(listed(stack, "--tenant", tenant, "--since", "1h")) == everything
    assert listed(stack, "--tenant", tenant, "--until", "1h") == []
    watched = run_on(stack, "job", "watch", *everything)
    assert watched.returncode == 0, watched.stderr
    assert set(listed(stack, "--tenant", tenant, "--status", "succeeded")) == everything


def test_a_dry_run_writes_nothing(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """It tells verdict, lane and steps of a job that is not made, and uploads nothing."""
    file = tmp_path / f"{uuid.uuid4()}.pdf"
    file.write_bytes(uuid.uuid4().bytes)
    words = ["submit", str(file), "-p", "OCR_EMBEDDING", "--tenant", tenant, "--dry-run"]
    [checked] = json.loads(stdout_of(stack, *words, "--json"))
    assert (checked["dryRun"], checked["idempotency"]["verdict"], checked["tenant"]) == (True, "NEW", tenant)
    assert "ocr > embedding" in stdout_of(stack, *words)
    assert listed(stack, "--tenant", tenant) == []
    uri = next(each["output_ref"]["uri"] for each in checked["directives"])
    assert uri.startswith(stack.blob)
    assert run_on(stack, "submit", str(file), "-p", "NOPE", "--dry-run").returncode == 3


def test_a_failed_job_is_found_explained_and_taken_up_again(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """deadletters tells where and why; redrive makes the job that takes its place; diff tells the two apart."""
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 this is none " + uuid.uuid4().bytes)
    failed = run_on(stack, "submit", str(broken), "-p", "OCR", "--tenant", tenant, "--watch", "-o", "ids")
    assert failed.returncode == 1
    old = failed.stdout.strip()
    [dead] = json.loads(stdout_of(stack, "deadletters", "--tenant", tenant, "--json"))
    assert (dead["jobId"], dead["failed_step_id"]) == (old, "ocr")
    assert dead["error_code"] in stdout_of(stack, "deadletters", "--tenant", tenant)
    new = json.loads(stdout_of(stack, "job", "redrive", old, "--reason", "a new engine", "--json"))
    assert new["redrive_of"] == old
    assert json.loads(stdout_of(stack, "job", "redrive", old, "--json"))["jobId"] == new["jobId"]
    assert run_on(stack, "job", "watch", new["jobId"]).returncode == 1
    assert old in stdout_of(stack, "job", "show", new["jobId"])
    differing = run_on(stack, "job", "diff", old, new["jobId"])
    assert differing.returncode == 1
    assert any(line.startswith("-") and "JOB_REDRIVEN" in line for line in differing.stdout.splitlines())
    same = json.loads(stdout_of(stack, "job", "diff", old, old, "--json"))
    assert (same["same"], same["lines"]) == (True, [])


def test_a_history_is_taken_home_and_proved(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """The bundle of a job that ran here is proved by a program that asks nobody; so is its receipt readable."""
    job_id = stdout_of(stack, "submit", INVOICE, "-p", "OCR", "--tenant", tenant, "-o", "ids").strip()
    assert run_on(stack, "job", "watch", job_id).returncode == 0
    bundle = tmp_path / "bundle.json"
    stdout_of(stack, "job", "audit", job_id, "--out", str(bundle))
    assert stdout_of(stack, "audit", "verify", str(bundle)).startswith(f"proved: {job_id} SUCCEEDED, ")
    head = json.loads(bundle.read_text())["job"]["event_hash"]
    stdout_of(stack, "audit", "verify", str(bundle), "--head", head)
    assert run_on(stack, "audit", "verify", str(bundle), "--head", "another").returncode == 1
    assert "total" in stdout_of(stack, "job", "receipt", job_id)
    created = json.loads(stdout_of(stack, "job", "show", job_id, "--as-of", "1", "--json"))
    assert (created["status"], created["as_of"]["type"]) == ("QUEUED", "JOB_CREATED")


def test_health_and_the_rest_of_the_reads(stack: RunningStack) -> None:
    """Each dependency by name; protocols one by one; rejected messages as a list."""
    readiness = json.loads(stdout_of(stack, "health", "--json"))
    assert readiness["status"] == "ready"
    shown = stdout_of(stack, "health")
    assert all(name in shown for name in readiness["dependencies"])
    assert json.loads(stdout_of(stack, "protocol", "show", "OCR"))["request_type"] == "OCR"
    rejected = httpx.get(f"{stack.api}/v1/rejected").json()["rejected"]
    ids = stdout_of(stack, "rejected", "list", "-o", "ids").split()
    assert {each["id"] for each in rejected} <= set(ids)
    assert run_on(stack, "rejected", "redrive", "nobody").returncode == 3


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("submit",), "lucius: name documents to submit, or envelopes by --ndjson FILE"),
        (("submit", INVOICE), "lucius: --protocol must name a protocol; see `lucius protocols`"),
        (("submit", INVOICE, "-p", "OCR", "--label", "red"), "lucius: --label red: must be KEY:VALUE"),
        (("jobs", "--since", "yesterday"), "lucius: --since yesterday: must be an instant like "),
        (("rejected", "list", "--date", "today"), "lucius: --date today: must be a day like "),
        (("audit", "verify", "nowhere.json"), "lucius: cannot read nowhere.json"),
    ],
)
def test_wrong_usage_is_a_line_and_exit_code_2(stack: RunningStack, words: tuple[str, ...], line: str) -> None:
    """Before anything is asked or written."""
    failed = run_on(stack, *words)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert failed.stderr.startswith(line)
