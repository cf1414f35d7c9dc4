"""`lucius job result` and `lucius submit --wait`.

Failures: bytes that differ from the result's; a terminal that executes control characters of a result; an incomplete
file that looks complete; an exit code that means another error.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from azure.storage.blob import BlobServiceClient

from emulator.up.ports import find_free
from lucius_client.results import RETRY, OpenResult
from tests.lucius_client import samples
from tests.lucius_client.cli.command import INVOICE, run_main, run_on
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.running_stack import RunningStack

BINARY = b"\x89PNG\r\n\x1a\n\0\xff"
Run = Callable[..., subprocess.CompletedProcess[str]]


@contextmanager
def running(body: dict[str, Any]) -> Iterator[Run]:
    """Runs `lucius job result job_1` with more words, where the API has this job."""
    with serving(CannedResponse(200, body)) as api:

        def run(*words: str, **options: Any) -> subprocess.CompletedProcess[str]:
            return run_main("job", "result", "job_1", *words, api=api.url, **options)

        yield run


@pytest.fixture
def ended(stack: RunningStack, tenant: str) -> Callable[[bytes], dict[str, Any]]:
    """Returns a job whose result has this content."""

    def job(content: bytes) -> dict[str, Any]:
        with BlobServiceClient.from_connection_string(stack.storage_connection) as store:
            blob = store.get_blob_client("results", f"{tenant}/result")
            blob.upload_blob(content, overwrite=True)
            return samples.job("SUCCEEDED") | {"final_output": {"uri": blob.url}}

    return job


def test_a_pipe_gets_the_bytes_and_a_terminal_gets_text(ended: Callable[[bytes], dict[str, Any]]) -> None:
    """A pipe gets the bytes unchanged; a terminal gets no control characters, and a line end at the end."""
    text = '{"rent": "940 €"}\r\n\x1b[2Jgone\u202e'
    with running(ended(text.encode())) as run:
        assert run().stdout == run("--out", "-").stdout == text
        shown = run(terminal=True)
    assert shown.stdout == '{"rent": "940 €"}\n\\x1b[2Jgone\\u202e\n'
    assert shown.stderr == ""


def test_a_terminal_gets_json_in_a_readable_form(ended: Callable[[bytes], dict[str, Any]]) -> None:
    """The answers of SIS are a table, the pages of OCR are text, and other JSON is indented."""
    answer = {"prompt": "Which rent?", "answer": "940 €", "citation": {"page": 2, "quote": "940 € a month"}}
    for document, lines in (
        ({"format": "lucius.answers/1", "answers": [answer]}, ["Which rent?", "940 €", "940 € a month"]),
        ({"format": "lucius.text/1", "pages": [{"page": 1, "text": "Rent\n940 €"}]}, ["page 1\nRent\n940 €\n"]),
        ({"rent": [940]}, ['{\n  "rent": [\n    940\n  ]\n}\n']),
    ):
        with running(ended(json.dumps(document).encode())) as run:
            shown = run(terminal=True, TERM="dumb").stdout
            assert json.loads(run("--json").stdout)["content"] == document
        assert all(line in shown for line in lines), shown
        assert '"format"' not in shown


def test_stdout_has_one_content(ended: Callable[[bytes], dict[str, Any]], tmp_path: Path) -> None:
    """`--out -` is not a file of that name, and excludes the JSON about the result."""
    with running(ended(b"text")) as run:
        assert run("--out", "-", cwd=tmp_path).stdout == "text"
        assert json.loads(run("--json").stdout)["content"] is None
        assert run("--out", "-", "--json").returncode == 2
    assert list(tmp_path.iterdir()) == []


def test_a_character_may_be_cut_between_two_pieces(
    ended: Callable[[bytes], dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result of any length is printed as text."""
    monkeypatch.setattr("lucius_client.cli.results.MAX_IN_MEMORY", 1024)
    text = "€" * (5 * 1024 * 1024 // 3)
    with running(ended(text.encode())) as run:
        assert run(terminal=True).stdout == text + "\n"


def test_no_terminal_gets_binary(ended: Callable[[bytes], dict[str, Any]], tmp_path: Path) -> None:
    """One line names `--out`; a pipe and a file get the bytes."""
    with running(ended(BINARY)) as run:
        refused = run(terminal=True)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert "name a file with `lucius job result ID --out FILE`" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        assert run().stdout.encode("utf-8", "surrogateescape") == BINARY
        assert run("--out", str(tmp_path / "x.png"), terminal=True).returncode == 0
    assert (tmp_path / "x.png").read_bytes() == BINARY


def test_a_file_is_whole_or_as_it_was(
    ended: Callable[[bytes], dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault half way leaves neither half a file nor one more; a device stays one; a folder is a wrong option."""
    out = tmp_path / "out.json"
    with running(ended(b"new")) as run:
        for wrong in (tmp_path, tmp_path / "none" / "x"):
            failed = run("--out", str(wrong))
            assert (failed.returncode, failed.stderr.startswith("lucius: cannot write")) == (2, True)
        assert run("--out", "/dev/null").returncode == 0
        assert Path("/dev/null").is_char_device()
        out.write_text("old")

        def breaks(self: OpenResult) -> Iterator[bytes]:
            yield b"ne"
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(OpenResult, "chunks", breaks)
            assert run("--out", str(out)).returncode == 130
        assert ([file.name for file in tmp_path.iterdir()], out.read_text()) == (["out.json"], "old")
        assert run("--out", str(out)).returncode == 0
    assert out.read_text() == "new"


def test_a_program_may_ask_where_it_is(ended: Callable[[bytes], dict[str, Any]], tmp_path: Path) -> None:
    """The location is printed as JSON or as an id; the content is written to --out only."""
    body = ended(b"text") | {"final_output_expires_at": "2026-02-26T10:00:00Z"}
    with running(body) as run:
        assert json.loads(run("--json", "--out", str(tmp_path / "x")).stdout) == {
            "jobId": "job_1",
            "uri": body["final_output"]["uri"],
            "media_type": "application/octet-stream",
            "size": 4,
            "final_output_expires_at": "2026-02-26T10:00:00Z",
        }
        assert run("-o", "ids").stdout == "job_1\n"
    assert (tmp_path / "x").read_bytes() == b"text"


@pytest.mark.parametrize(
    ("status", "place", "code", "expected"),
    [
        ("IN_PROGRESS", None, 3, "is IN_PROGRESS and has no result yet"),
        ("FAILED_FINAL", None, 1, "ended FAILED_FINAL and has no result"),
        ("CANCELLED", None, 1, "ended CANCELLED"),
        ("SUCCEEDED", "{blob}/results/nobody/none", 3, "blob not found: "),
        ("SUCCEEDED", "s3://bucket/key", 2, "is not a blob of Azure Storage"),
        ("SUCCEEDED", "http://127.0.0.1:{free}/devstoreaccount1/results/x", 4, "does not respond"),
    ],
)
def test_each_reason_has_its_line_and_exit_code(
    stack: RunningStack, monkeypatch: pytest.MonkeyPatch, status: str, place: str | None, code: int, expected: str
) -> None:
    """For scripts: no result yet is another code than never one."""
    monkeypatch.setitem(RETRY, "retry_total", 0)
    uri = place and place.format(blob=stack.blob, free=find_free())
    body = samples.job(status) | {"final_output": {"uri": uri} if uri else None}
    with running(body) as run:
        failed = run()
    assert (failed.returncode, failed.stdout) == (code, "")
    assert expected in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_a_wrong_key_is_refused(stack: RunningStack, ended: Callable[[bytes], dict[str, Any]]) -> None:
    """Exit code 3, as where the API refuses."""
    with running(ended(b"x")) as run:
        failed = run(LUCIUS_BLOB_CONNECTION=stack.storage_connection.replace("AccountKey=", "AccountKey=AAAA"))
    assert (failed.returncode, "your credential cannot read" in failed.stderr) == (3, True)


def test_submit_waits_and_prints_the_result(stack: RunningStack, tmp_path: Path) -> None:
    """stdout has the result alone, as `job result` prints it; a failed job is a line on stderr and exit code 1."""
    done = run_on(stack, "submit", INVOICE, "-p", "OCR", "--again", "--wait")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["format"] == "lucius.text/1"
    assert "SUCCEEDED" in done.stderr
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 this is none")
    both = run_on(stack, "submit", INVOICE, str(broken), "-p", "OCR", "--wait")
    assert "invoice.png  step 1/1 ocr  SUCCEEDED" in both.stderr
    assert (both.returncode, json.loads(both.stdout)["format"]) == (1, "lucius.text/1")
    assert "lucius: broken.pdf: job job_" in both.stderr
    newest = json.loads(run_on(stack, "jobs", "--status", "succeeded", "--limit", "1", "--json").stdout)
    job_id = newest[0]["jobId"]
    assert run_on(stack, "job", "result", job_id).stdout == both.stdout
    found = json.loads(run_on(stack, "job", "result", job_id, "--json").stdout)
    # at the caller's URI, which the retention of the workspace does not delete
    assert found["uri"].startswith(f"{stack.blob}/results/demo/{job_id}/")
    assert found["final_output_expires_at"] is None


def test_what_runs_dry_has_nothing_to_wait_for(stack: RunningStack) -> None:
    """Exit code 2."""
    assert run_on(stack, "submit", INVOICE, "-p", "OCR", "--dry-run", "--wait").returncode == 2
