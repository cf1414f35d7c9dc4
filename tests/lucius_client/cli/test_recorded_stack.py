"""Records of a real stack: exported with signed heads, verified, played as a tape, and replayed sealed."""

from __future__ import annotations

import json
import shlex
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from azure.storage.blob import BlobServiceClient

from tests.lucius_client.cli.command import run_program, stdout_of
from tests.lucius_client.cli.test_docs import block
from tests.running_stack import RunningStack
from tests.stack.job_requests import status_is, submit, until
from tests.waiting import wait_until

#: signed windows end five minutes ago
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

_PROMPTS = {"sis": {"prompt_set": ["What is the total amount due?"]}}


@dataclass
class Recorded:
    """A bundle of a tenant, with content and signed heads."""

    bundle: Path
    jobs: dict[str, str]
    key_id: str


@pytest.fixture(scope="module")
def recorded(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Jobs that succeed, fail, are redriven, wait for another, and are replayed."""
    tenant = f"auditor-{uuid.uuid4().hex[:8]}"
    document = {"tenant_id": tenant, "input_ref": f"{stack.blob}/documents/samples/invoice.png"}

    def ended(**request: object) -> str:
        job_id = submit(stack, **{**document, **request})
        until(stack, job_id, status_is("SUCCEEDED", "FAILED_FINAL"))
        return job_id

    jobs = {
        "one step": ended(),
        "chain": ended(request_type="OCR_EMBEDDING_SIS", payload=_PROMPTS),
        "failed": ended(input_ref=f"{stack.blob}/documents/none.pdf"),
    }
    jobs["dependent"] = ended(dependencies=[jobs["one step"]])
    for name, original, action, body in (
        ("redriven", "failed", "redrive", {"reason": "again"}),
        ("replay", "chain", "replay", {"reason": "a new release", "mode": "compare"}),
    ):
        answer = stack.http.post(f"/v1/jobs/{jobs[original]}:{action}", json=body).raise_for_status().json()
        jobs[name] = answer["jobId"]
        until(stack, jobs[name], status_is("SUCCEEDED", "FAILED_FINAL"))
    window = {"tenant": tenant, "until": datetime.now(UTC).isoformat()}
    wait_until(
        lambda: stack.http.get("/v1/audit/heads", params=window).status_code == 200,
        "the heads are not complete",
        deadline_s=600,
    )
    bundle = tmp_path_factory.mktemp("recorded") / "b.tar.gz"
    values = {"acme": tenant, "acme.tar.gz": str(bundle)}
    words = shlex.split(block("guides/audit.md", "export", "sh", stack).splitlines()[1])[1:]
    stdout_of(stack, *(values.get(word, word) for word in words), "--until", window["until"], "--with-content")
    [key] = stack.get("/v1/audit/keys")["keys"]
    return Recorded(bundle, jobs, key["keyid"])


def test_a_bundle_with_heads_is_verified_at_four_levels(recorded: Recorded) -> None:
    """Signed by the stack's key; without the name of the key the exit code is 3."""
    verified = run_program("audit", "verify", str(recorded.bundle), "--key", recorded.key_id)
    assert verified.returncode == 0, verified.stdout
    assert "verified at levels 1, 2, 3, 4" in verified.stdout
    assert "1 pages of heads" in verified.stdout
    assert "3 of 3 links lead to a job in this bundle" in verified.stdout
    assert run_program("audit", "verify", str(recorded.bundle)).returncode == 3


def test_the_tape_is_played_with_equal_results(recorded: Recorded) -> None:
    """Each job's history comes out equal under the app that recorded it, the replay's too."""
    played = run_program("tape", "play", str(recorded.bundle), "--json")
    assert played.returncode == 0, played.stdout + played.stderr
    report = json.loads(played.stdout)
    assert (report["jobs"], report["different"], report["not_played"], report["unknown"]) == (6, {}, {}, 0)


def test_the_services_are_deterministic(stack: RunningStack, recorded: Recorded) -> None:
    """All three: the results of a replay have the digests of the original's."""
    comparison = json.loads(stdout_of(stack, "job", "comparison", recorded.jobs["replay"], "--json"))
    assert [step["outcome"] for step in comparison["steps"]] == ["SAME"] * 3


def test_a_job_is_replayed_sealed(stack: RunningStack, recorded: Recorded, tmp_path: Path) -> None:
    """By the command of docs/guides/audit.md, from the bundle and the document alone."""
    with BlobServiceClient.from_connection_string(stack.storage_connection) as store:
        document = store.get_blob_client("documents", "samples/invoice.png").download_blob().readall()
    place = tmp_path / "documents" / "samples" / "invoice.png"
    place.parent.mkdir(parents=True)
    place.write_bytes(document)
    for name, outcome in (("chain", ["SAME"] * 3), ("replay", ["SAME"] * 3), ("failed", ["NOT_COMPARABLE"])):
        words = shlex.split(block("guides/audit.md", "sealed", "sh", stack).replace("\\\n", ""))[1:]
        values = {"JOB_ID": recorded.jobs[name], "acme.tar.gz": str(recorded.bundle), "blobs": str(tmp_path)}
        done = run_program(*(values.get(word, word) for word in words), "--key", recorded.key_id, "--json")
        assert done.stderr == ""
        found = json.loads(done.stdout)
        assert ([step["outcome"] for step in found["steps"]], done.returncode) == (outcome, name == "failed"), found
        assert found["report"]["verdict"] == "verified"
