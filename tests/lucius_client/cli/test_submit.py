"""`lucius submit` against the real API."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path
from unittest import mock

import httpx

from emulator.up.ports import find_free
from lucius_client.cli import credentials
from tests.lucius_client import samples
from tests.lucius_client.cli.command import INVOICE, ids_of_jobs, run_main, run_on, run_program, stdout_of
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.running_stack import RunningStack
from tests.waiting import wait_until

HELD = "tenant demo, which is held by user:1 since 2026-01-27T10:00:00Z (repair)"


def test_a_file_is_submitted_watched_and_answered(stack: RunningStack) -> None:
    """--watch prints a line for each change, and at the end the answer, its page and its quote."""
    words = ["submit", INVOICE, "-p", "OCR_EMBEDDING_SIS", "--ask", "What is the invoice number?", "--watch", "--again"]
    program = run_program(*words, "--tenant", "demo", api=stack.api, LUCIUS_BLOB_CONNECTION=stack.storage_connection)
    assert program.returncode == 0, program.stderr
    out = program.stdout
    assert "invoice.png  step 3/3 sis  SUCCEEDED" in out
    assert "FB-2024-0173" in out
    assert "\x1b" not in out


def test_the_same_request_is_one_job(stack: RunningStack) -> None:
    """A repeated submit prints the same job and a notice; --again creates a new job."""
    words = ["submit", INVOICE, "-p", "OCR", "--tenant", f"same-{uuid.uuid4()}", "-o", "ids"]
    first, second, third = run_on(stack, *words), run_on(stack, *words), run_on(stack, *words, "--again")
    assert first.stdout == second.stdout != third.stdout
    assert "already submitted as" in second.stderr
    assert "already submitted as" not in first.stderr + third.stderr


def test_a_uri_is_used_as_it_is(stack: RunningStack) -> None:
    """An http(s) URI is not uploaded."""
    uri = f"{stack.blob}/documents/samples/invoice.png"
    job_id = stdout_of(stack, "submit", uri, "-p", "OCR", "--again", "-o", "ids").strip()
    assert httpx.get(f"{stack.api}/v1/jobs/{job_id}").json()["input_ref"]["uri"] == uri


def test_a_folder_and_lines_become_jobs_that_filters_find(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """Each file and line is a job; filters find it by type, label, status and time; a wrong line affects no other."""
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
    batch.write_text("\n\n".join(json.dumps(line) for line in lines))
    sent = run_on(stack, "submit", "--ndjson", str(batch), "-p", "OCR", "--tenant", tenant, "--json")
    assert sent.returncode == 3
    # the second line of the file is empty
    assert sent.stderr.startswith("lucius: line 3: ")
    first, second = json.loads(sent.stdout)
    assert (first["status"], second["status"]) == (202, 400)
    again = run_on(stack, "submit", "--ndjson", str(batch), "-p", "OCR", "--tenant", tenant, "--json")
    assert json.loads(again.stdout)[0]["replayed"] is True
    everything = {*files, first["jobId"]}
    assert set(ids_of_jobs(stack, "--tenant", tenant)) == everything
    assert set(ids_of_jobs(stack, "--tenant", tenant, "--label", "batch:one")) == set(files)
    assert ids_of_jobs(stack, "--tenant", tenant, "--type", "OCR") == [first["jobId"]]
    assert set(ids_of_jobs(stack, "--tenant", tenant, "--since", "1h")) == everything
    assert ids_of_jobs(stack, "--tenant", tenant, "--until", "1h") == []
    watched = run_on(stack, "job", "watch", *everything)
    assert watched.returncode == 0, watched.stderr
    # a line of the list follows the line of its job
    wait_until(
        lambda: set(ids_of_jobs(stack, "--tenant", tenant, "--status", "succeeded")) == everything,
        "the list did not follow its jobs",
    )


def test_a_dry_run_writes_nothing(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """--dry-run prints verdict, lane and steps, and neither creates a job nor uploads a file."""
    file = tmp_path / f"{uuid.uuid4()}.pdf"
    file.write_bytes(uuid.uuid4().bytes)
    words = ["submit", str(file), "-p", "OCR_EMBEDDING", "--tenant", tenant, "--dry-run"]
    [checked] = json.loads(stdout_of(stack, *words, "--json"))
    assert (checked["dryRun"], checked["idempotency"]["verdict"], checked["tenant"]) == (True, "NEW", tenant)
    assert "ocr > embedding" in stdout_of(stack, *words)
    assert ids_of_jobs(stack, "--tenant", tenant) == []
    uri = next(each["output_ref"]["uri"] for each in checked["directives"])
    assert uri.startswith(stack.blob)
    assert run_on(stack, "submit", str(file), "-p", "NOPE", "--dry-run").returncode == 3


def test_a_failed_job_is_exit_code_1(stack: RunningStack, tenant: str, tmp_path: Path) -> None:
    """--watch of a job that fails has exit code 1 and prints the error code."""
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 this is none")
    failed = run_on(stack, "submit", str(broken), "-p", "OCR", "--tenant", tenant, "--watch")
    assert failed.returncode == 1
    failures = ("--tenant", tenant, "--status", "failed_final")
    [job_id] = wait_until(lambda: ids_of_jobs(stack, *failures), "it was not listed")
    error = httpx.get(f"{stack.api}/v1/jobs/{job_id}").json()["error_code"]
    assert error in failed.stdout


def test_no_blob_store_is_exit_code_4(stack: RunningStack) -> None:
    """An upload without a blob store is an error that names the setting."""
    unused = stack.storage_connection.replace(stack.blob, f"http://127.0.0.1:{find_free()}/devstoreaccount1")
    failed = run_main("submit", INVOICE, "-p", "OCR", "--tenant", "demo", api=stack.api, LUCIUS_BLOB_CONNECTION=unused)
    assert failed.returncode == 4
    assert "name another blob store with LUCIUS_BLOB_CONNECTION" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_callbacks_stand_in_the_envelope(tmp_path: Path) -> None:
    """By name; an address may have an equals sign too, and one without a name is refused."""
    batch = tmp_path / "jobs.ndjson"
    batch.write_text("{}")
    words = [
        "submit",
        "--ndjson",
        str(batch),
        "--tenant",
        "demo",
        "--callback",
        "done=https://a.example/?a=b",
        "--callback",
        "b=https://b.example",
    ]
    with serving(CannedResponse(body={"results": [{"status": 202, "jobId": "job_1", "tenant": "demo"}]})) as api:
        run_main(*words, api=api.url)
        wrong = run_main(*words[:5], "--callback", "https://a.example/?a=b", api=api.url)
    [request] = api.requests
    envelope = json.loads(request.body.splitlines()[0])
    assert envelope["callback_urls"] == {"done": "https://a.example/?a=b", "b": "https://b.example"}
    assert (wrong.returncode, "NAME=URL" in wrong.stderr) == (2, True)


def test_options_for_documents_are_refused_with_job_requests(tmp_path: Path) -> None:
    """The command names all of them, and sends nothing."""
    batch = tmp_path / "jobs.ndjson"
    batch.write_text("{}")
    options = ["--payload", "{}", "--ask", "a", "--after", "job_1", "--include", "*.pdf", "--again"]
    with serving(CannedResponse()) as api:
        refused = run_main("submit", "--ndjson", str(batch), "--tenant", "demo", *options, api=api.url)
    assert (refused.returncode, api.requests) == (2, [])
    assert "--payload, --ask, --after, --include, --again;" in refused.stderr


URI = "https://account.blob.core.windows.net/documents/a.pdf"
OCR = CannedResponse(
    body={
        "protocol_id": "ocr",
        "version": 1,
        "request_type": "OCR",
        "steps": [{"step_id": "ocr", "step_type": "OCR", "service": "ocr"}],
        "digest": "0",
    }
)
SUBMIT = ("submit", URI, "-p", "OCR", "--tenant", "demo")


def test_a_version_of_the_protocol_is_named(tmp_path: Path) -> None:
    """The payload has the steps of the named version, not of the active one, for documents and for lines."""
    assert isinstance(OCR.body, dict)
    second = OCR.body | {"version": 2, "steps": [{"step_id": "read", "step_type": "OCR", "service": "ocr"}]}
    known = {"loaded": True, "new_jobs_percent": 0, "first_loaded_at": None, "jobs": None}
    versions = [known | {"version": each["version"], "protocol": each} for each in (second, OCR.body)]
    listed = {"protocol_id": "ocr", "request_type": "OCR", "counted_at": None, "versions": versions}
    batch = tmp_path / "jobs.ndjson"
    batch.write_text("{}")
    accepted = CannedResponse(202, samples.accepted())
    many = CannedResponse(body={"results": [{"status": 202, "jobId": "job_1", "tenant": "demo"}]})
    for what, answer in ((URI, accepted), (f"--ndjson={batch}", many)):
        with serving(OCR, CannedResponse(body=listed), answer) as api:
            run_main("submit", what, "-p", "OCR@2", "--tenant", "demo", api=api.url)
        body = json.loads(api.requests[2].body.splitlines()[0])
        assert (body["request_type"], body["protocol_version"]) == ("OCR", 2)
        assert body.get("payload", {"read": {}}) == {"read": {}}
    with serving(OCR, CannedResponse(body=listed)) as api:
        unknown = run_main("submit", URI, "-p", "OCR@3", "--tenant", "demo", api=api.url)
    assert (unknown.returncode, unknown.stderr) == (3, "lucius: version not found: OCR@3; use one of 2, 1\n")


def test_a_job_that_is_waited_for_is_one_request_more_than_its_protocol() -> None:
    """The submission is held until the job has ended; without --wait, and with --watch, it is not."""
    with serving(OCR, CannedResponse(200, samples.job("CANCELLED"))) as api:
        run = run_main(*SUBMIT, "--wait", api=api.url)
    assert [(request.method, request.headers.get("prefer")) for request in api.requests] == [
        ("GET", None),
        ("POST", "wait=20"),
    ]
    assert (run.returncode, run.stdout) == (1, "")
    assert "CANCELLED" in run.stderr
    with serving(OCR, CannedResponse(202, samples.accepted())) as api:
        assert run_main(*SUBMIT, api=api.url).returncode == 0
    assert [request.headers.get("prefer") for request in api.requests] == [None, None]


def test_a_document_whose_job_failed_is_not_submitted_silently() -> None:
    """stderr has the job, the reason and the next command; the exit code is 1, as for a watched job that fails."""
    failed = samples.job("FAILED_FINAL") | {"error_code": "INPUT_BROKEN", "error_message": "the input is not a PDF"}
    replay = {"Idempotency-Replayed": "true"}
    known = CannedResponse(202, samples.accepted() | {"status": "FAILED_FINAL"}, replay)
    with serving(OCR, known, CannedResponse(body=failed)) as api:
        done = run_main(*SUBMIT, "-o", "ids", api=api.url)
    assert (done.returncode, done.stdout) == (1, "job_1\n")
    assert "already submitted as job_1 (FAILED_FINAL: INPUT_BROKEN: the input is not a PDF)" in done.stderr
    assert "lucius job redrive job_1" in done.stderr
    with serving(OCR, CannedResponse(202, samples.accepted(), replay)) as api:
        done = run_main(*SUBMIT, api=api.url)
        assert (done.returncode, len(api.requests)) == (0, 2)
    assert "already submitted as job_1 (QUEUED); --again creates a new job" in done.stderr


def test_a_known_job_keeps_its_first_labels_and_callbacks() -> None:
    """The API does not compare them, so a new callback URL of a repeated submission has no effect."""
    known = CannedResponse(202, samples.accepted(), {"Idempotency-Replayed": "true"})
    with serving(OCR, known) as api:
        done = run_main(*SUBMIT, "--label", "a:b", "--callback", "done=https://hooks.example.com/", api=api.url)
    assert "(QUEUED); the job keeps the labels and callback URLs of its first request; --again" in done.stderr


def test_a_job_that_waits_is_shown_with_its_quota() -> None:
    """The response of the API has it; others have no such column."""
    waits = samples.accepted() | {"status": "THROTTLED", "gate": "tenant demo", "position": 2, "nextEligibleAt": None}
    waits["quota_wait"] = {"cause": HELD, "starts": "after the quota is resumed"}
    with serving(OCR, CannedResponse(202, waits)) as api:
        shown = run_main(*SUBMIT, api=api.url).stdout.splitlines()
    assert shown[0].endswith("waits for")
    assert shown[1].endswith(f"THROTTLED  {HELD}; position 2; starts after the quota is resumed")


def test_a_submit_names_its_tenant(tmp_path: Path) -> None:
    """By the option, the environment or a login to this API; without one nothing is sent."""
    with serving(OCR, CannedResponse(202, samples.accepted())) as api:
        environment = {"LUCIUS_CONFIG_DIR": str(tmp_path)}
        refused = run_main(*SUBMIT[:4], api=api.url, **environment)
        assert (refused.returncode, api.requests) == (2, [])
        assert "tenant missing; name a tenant with --tenant or LUCIUS_TENANT" in refused.stderr
    for named, tenant in ({}, "acme"), ({"LUCIUS_TENANT": "beta"}, "beta"):
        with serving(OCR, CannedResponse(202, samples.accepted())) as api:
            store(api.url, "acme", tmp_path)
            run_main(*SUBMIT[:4], api=api.url, **environment, **named)
        assert json.loads(api.requests[-1].body)["tenant_id"] == tenant


def store(api: str, tenant: str, folder: Path) -> None:
    with mock.patch.dict(os.environ, {"LUCIUS_CONFIG_DIR": str(folder)}):
        credentials.store(api, tenant=tenant, scope="orch:operate", access_token="t", expires_in_s=600)
