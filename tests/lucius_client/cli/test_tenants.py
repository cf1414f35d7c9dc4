"""Replay, comparison, export and purge, as docs/guides/audit.md shows them."""

from __future__ import annotations

import fcntl
import hashlib
import json
import tarfile
import uuid
from pathlib import Path
from typing import Any

from shared.apidocs.examples import by_model
from tests.lucius_client.cli.command import run_main, run_on, stdout_of
from tests.lucius_client.cli.test_audit import calling, job_line
from tests.lucius_client.cli.test_docs import block, checkout, run, typed
from tests.lucius_client.samples import problem
from tests.lucius_client.stub_api import CannedResponse
from tests.lucius_verify.stories import documents
from tests.running_stack import RunningStack
from tests.waiting import wait_until

__all__ = ["checkout"]  # a fixture of the tests of other pages

EXAMPLES = by_model()


class Archive:
    """An API with three archived jobs, of which one has a bundle, and with other responses by path; all else is off."""

    def __init__(self, code: str, status: int, **bodies: Any) -> None:
        self.refusal = CannedResponse(status, problem(status, code))
        self.bodies = bodies

    def respond(self, path: str, cursor: str | None) -> CannedResponse:
        kind, _, rest = path.removeprefix("/v1/").partition("/")
        if kind == "jobs" and not rest:
            return CannedResponse(body={"jobs": list(map(job_line, documents())), "next": None})
        if path.endswith("/audit"):
            return CannedResponse(body=documents()[0]) if "/job_a/" in path else self.refusal
        if (body := self.bodies.get(path.removeprefix("/v1/"))) is None:
            return CannedResponse(404, problem(404, "EVENTS_OFF"))
        return body if isinstance(body, CannedResponse) else CannedResponse(body={**body, "next": None})


def test_an_export_names_the_jobs_that_it_lacks(tmp_path: Path) -> None:
    """A purge may follow the export.

    A feature that is off has no rows; the exit code is 1 if a missing job can be restored.

    Any other refusal ends the export without a file.
    """
    words = ("tenant", "export", "tenant_a", "--out", str(tmp_path / "a.tar.gz"), "--json")
    with calling(Archive("ARCHIVE_GONE", 410)):
        done = run_main(*words)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["files"]["jobs.jsonl"]["rows"] == 1
    lacks = [line for line in done.stderr.splitlines() if "lacks" in line]
    assert lacks == [f"jobs.jsonl lacks {job_id}: ARCHIVE_GONE" for job_id in ("job_b", "job_c")]
    unreadable = {
        "rejected": {"rejected": [EXAMPLES["RejectedMessage"]]},
        f"rejected/{EXAMPLES['RejectedMessage']['id']}": CannedResponse(410, problem(410, "DATA_LOST")),
    }
    with calling(Archive("ARCHIVE_INVALID", 500, **unreadable)):
        done = run_main(*words)
    assert done.returncode == 1
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        files = json.load(tar.extractfile("manifest.json"))["files"]  # type: ignore[arg-type]
    assert files["jobs.jsonl"]["not_exported"] == dict.fromkeys(("job_b", "job_c"), "ARCHIVE_INVALID")
    assert [*files["rejected.jsonl"]["not_exported"].values()] == ["DATA_LOST"]
    assert "job_b (ARCHIVE_INVALID), job_c (ARCHIVE_INVALID)" in done.stderr.splitlines()[-1]
    (tmp_path / "a.tar.gz").unlink()
    with calling(Archive("SCOPE_MISSING", 403)):
        refused = run_main(*words)
    assert (refused.returncode, [*tmp_path.iterdir()]) == (3, [])


def test_an_export_names_what_is_deleted_while_it_reads(tmp_path: Path) -> None:
    """The rows after it are exported. A list that is refused with another 404 ends the export without a file."""
    bulk, message = EXAMPLES["BulkPage"]["bulks"][0], EXAMPLES["RejectedMessage"]
    bodies = {
        "bulk": {"bulks": [{**bulk, "bulkId": "b1"}, {**bulk, "bulkId": "b2"}]},
        "bulk/b1/items": CannedResponse(404, problem(404, "BULK_NOT_FOUND")),
        "bulk/b2/items": EXAMPLES["BulkItemPage"],
        "rejected": {"rejected": [{**message, "id": name} for name in ("r1", "r2")]},
        "rejected/r1": CannedResponse(404, problem(404, "REJECTED_NOT_FOUND")),
        "rejected/r2": message,
    }
    words = ("tenant", "export", "tenant_a", "--out", str(tmp_path / "a.tar.gz"), "--json")
    with calling(Archive("JOB_NOT_FOUND", 404, **bodies)):
        done = run_main(*words)
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)["files"]
    items = len(EXAMPLES["BulkItemPage"]["items"])
    assert [files[f"{name}.jsonl"]["rows"] for name in ("bulks", "bulk_items", "rejected")] == [2, items, 1]
    assert "bulk_items.jsonl lacks b1: BULK_NOT_FOUND" in done.stderr
    assert "rejected.jsonl lacks r1: REJECTED_NOT_FOUND" in done.stderr
    (tmp_path / "a.tar.gz").unlink()
    with calling(Archive("JOB_NOT_FOUND", 404, sources=CannedResponse(404, problem(404, "ROUTE_NOT_FOUND")))):
        refused = run_main(*words)
    assert (refused.returncode, [*tmp_path.iterdir()]) == (3, [])


def test_one_export_at_a_time_writes_a_file(tmp_path: Path) -> None:
    """A second export at the same time ends with one line and changes nothing. Files of a killed export are removed."""
    part = tmp_path / "a.tar.gz.part"
    part.mkdir()
    (part / "jobs.jsonl").write_text("of another export")
    words = ("tenant", "export", "tenant_a", "--out", str(tmp_path / "a.tar.gz"), "--json")
    with calling(Archive("ARCHIVE_GONE", 410)):
        with (part / "lock").open("a") as first:
            fcntl.flock(first, fcntl.LOCK_EX)
            second = run_main(*words)
        assert (second.returncode, second.stdout, len(second.stderr.splitlines())) == (2, "", 1)
        assert (part / "jobs.jsonl").read_text() == "of another export"
        (part / "plan.json").touch()
        assert run_main(*words).returncode == 0
    assert [*tmp_path.iterdir()] == [tmp_path / "a.tar.gz"]


def test_a_job_is_replayed_and_its_tenant_leaves(stack: RunningStack, checkout: Path, tmp_path: Path) -> None:
    """The test runs on the stack, for digests of real services; reading two documents takes seconds."""
    tenant = f"leaver-{uuid.uuid4().hex[:8]}"
    replayed = block("guides/audit.md", "replay", "sh", stack).replace("acme", tenant)
    compared = run(["bash", "-euc", replayed], stack, checkout)
    assert "deterministic: equal inputs gave equal outputs" in compared
    jobs = json.loads(stdout_of(stack, "jobs", "--tenant", tenant, "--json"))
    assert [job["status"] for job in jobs] == ["SUCCEEDED"] * 2
    [new, old] = (json.loads(stdout_of(stack, "job", "show", job["jobId"], "--json")) for job in jobs)
    assert (new["replay_of"], new["replay_mode"]) == (old["jobId"], "compare")
    assert new["final_output"]["uri"].startswith(new["output_ref"]["uri"])
    assert new["final_output_expires_at"] is not None
    comparison = json.loads(stdout_of(stack, "job", "comparison", new["jobId"], "--json"))
    assert [step["outcome"] for step in comparison["steps"]] == ["SAME"]
    assert run_on(stack, "job", "comparison", old["jobId"]).returncode != 0

    shown = typed(block("guides/audit.md", "leave", "sh", stack).replace("acme", tenant), stack, tmp_path)
    assert "RUNNING" in shown
    with tarfile.open(tmp_path / f"{tenant}.tar.gz") as tar:
        members = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    manifest = json.loads(members.pop("manifest.json"))
    assert manifest["tenant"] == tenant
    assert {name: each["sha256"] for name, each in manifest["files"].items()} == {
        name: hashlib.sha256(content).hexdigest() for name, content in members.items()
    }
    exported = [json.loads(line) for line in members["jobs.jsonl"].splitlines()]
    assert {each["job"]["job_id"] for each in exported} == {old["jobId"], new["jobId"]}
    assert manifest["files"]["events.jsonl"]["rows"] > 5
    wait_until(lambda: not json.loads(stdout_of(stack, "jobs", "--tenant", tenant, "--json")), "the jobs are there")
    gone = run_on(stack, "job", "show", old["jobId"])
    assert "JOB_NOT_FOUND" in gone.stderr
