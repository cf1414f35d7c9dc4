"""`run_program` against the real API."""

from __future__ import annotations

import json
import subprocess
import uuid
from pathlib import Path

import httpx
import pytest

from emulator.up.ports import find_free
from tests.lucius_client.cli.command import run_main, run_program
from tests.running_stack import ROOT, RunningStack

INVOICE = str(ROOT / "samples" / "invoice.png")


def run_on(stack: RunningStack, *words: str) -> subprocess.CompletedProcess[str]:
    return run_main(*words, api=stack.api, LUCIUS_BLOB_CONNECTION=stack.storage_connection)


def stdout_of(stack: RunningStack, *words: str) -> str:
    finished = run_on(stack, *words)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_a_file_is_submitted_watched_and_answered(stack: RunningStack) -> None:
    """submit --watch uploads, shows each change in a line of its own, and ends with answer, page and quote."""
    words = ["submit", INVOICE, "-p", "OCR_EMBEDDING_SIS", "--ask", "What is the invoice number?", "--watch", "--again"]
    program = run_program(*words, api=stack.api, LUCIUS_BLOB_CONNECTION=stack.storage_connection)
    assert program.returncode == 0, program.stderr
    out = program.stdout
    assert "invoice.png  step 3/3 sis  SUCCEEDED" in out
    assert "FB-2024-0173" in out
    assert "\x1b" not in out


def test_ids_go_from_one_command_to_the_next(stack: RunningStack) -> None:
    """-o ids prints ids alone, which the other commands take; JSON is the API's own."""
    tenant = f"ids-{uuid.uuid4()}"
    job_id = stdout_of(stack, "submit", INVOICE, "-p", "OCR", "--tenant", tenant, "-o", "ids").strip()
    assert stdout_of(stack, "jobs", "--tenant", tenant, "-o", "ids").split() == [job_id]
    shown = json.loads(stdout_of(stack, "job", "show", job_id, "-o", "json"))
    assert (shown["jobId"], shown["tenant_id"]) == (job_id, tenant)
    events = json.loads(stdout_of(stack, "job", "events", job_id, "-o", "json"))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    assert job_id in stdout_of(stack, "jobs", "--tenant", tenant)
    assert "ocr" in stdout_of(stack, "job", "show", job_id)
    assert stdout_of(stack, "job", "explain", job_id).startswith(f"Job {job_id} ")
    assert json.loads(stdout_of(stack, "job", "explain", job_id, "-o", "json"))["jobId"] == job_id


def test_the_same_request_is_one_job(stack: RunningStack) -> None:
    """Submitting again finds the job that is there and says so; --again makes a new one."""
    words = ["submit", INVOICE, "-p", "OCR", "--tenant", f"same-{uuid.uuid4()}", "-o", "ids"]
    first, second, third = run_on(stack, *words), run_on(stack, *words), run_on(stack, *words, "--again")
    assert first.stdout == second.stdout != third.stdout
    assert "this request is known" in second.stderr
    assert "this request is known" not in first.stderr + third.stderr


def test_a_uri_is_used_as_it_is(stack: RunningStack) -> None:
    """What is an http(s) URI already is not uploaded."""
    uri = f"{stack.blob}/documents/samples/invoice.png"
    job_id = stdout_of(stack, "submit", uri, "-p", "OCR", "--again", "-o", "ids").strip()
    assert httpx.get(f"{stack.api}/v1/jobs/{job_id}").json()["input_ref"]["uri"] == uri


def test_a_failed_job_is_exit_code_1(stack: RunningStack, tmp_path: Path) -> None:
    """--watch tells a script by its exit code that the job failed, and a person why."""
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 this is none")
    failed = run_on(stack, "submit", str(broken), "-p", "OCR", "--watch")
    assert failed.returncode == 1
    job = json.loads(stdout_of(stack, "jobs", "--status", "failed_final", "--limit", "1", "-o", "json"))[0]
    error = httpx.get(f"{stack.api}/v1/jobs/{job['jobId']}").json()["error_code"]
    assert error in failed.stdout


def test_a_job_is_paused_resumed_and_cancelled(stack: RunningStack) -> None:
    """Controls print the job as it stands after; the reason stands in its history."""
    stack.pause("ocr")  # so that the job is surely alive
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


def test_protocols_are_listed(stack: RunningStack) -> None:
    """What can be asked for, by request type."""
    assert "OCR_EMBEDDING_SIS" in stdout_of(stack, "protocols", "-o", "ids").split()
    assert "ocr > embedding > sis" in stdout_of(stack, "protocols")


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        (("job", "show", "nobody"), 3, "lucius: the API refused (404 JOB_NOT_FOUND): "),
        (("job", "show", ""), 2, "lucius: '' is not an id or a name"),
        (("protocol", "show", ".."), 2, "lucius: '..' is not an id or a name"),
        (("submit", INVOICE, "-p", "NOPE"), 3, "lucius: the API refused (404 PROTOCOL_NOT_FOUND): known: "),
        (("submit", INVOICE, "-p", "OCR", "--payload", '{"dpi": 1}', "--again"), 3, "lucius: the API refused (4"),
        (("submit", "nowhere.pdf", "-p", "OCR"), 2, "lucius: no such file: nowhere.pdf"),
        (("submit", INVOICE, "-p", "OCR", "--ask", "Who?"), 2, "lucius: --ask needs a protocol with a SIS step"),
        (("jobs", "--api", "ftp://127.0.0.1"), 2, "lucius: --api ftp://127.0.0.1: "),
    ],
)
def test_errors_are_lines_and_codes(stack: RunningStack, words: tuple[str, ...], code: int, line: str) -> None:
    """Every error is a line on stderr that says what to do, an exit code of its kind, and nothing on stdout."""
    failed = run_on(stack, *words)
    assert (failed.returncode, failed.stdout) == (code, "")
    assert failed.stderr.startswith(line)
    assert "Traceback" not in failed.stderr


def test_nobody_there_is_exit_code_4() -> None:
    """Without an API the line says where it was looked for; the same for the blob store."""
    port = find_free()
    failed = run_program("jobs", "--api", f"http://127.0.0.1:{port}")
    assert failed.returncode == 4
    assert failed.stderr.startswith(f"lucius: no API responds at http://127.0.0.1:{port} ")


def test_no_blob_store_is_exit_code_4(stack: RunningStack) -> None:
    """An upload that reaches nobody names the setting."""
    nobody = stack.storage_connection.replace(stack.blob, f"http://127.0.0.1:{find_free()}/devstoreaccount1")
    failed = run_main("submit", INVOICE, "-p", "OCR", api=stack.api, LUCIUS_BLOB_CONNECTION=nobody)
    assert failed.returncode == 4
    assert "LUCIUS_BLOB_CONNECTION names another" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1
