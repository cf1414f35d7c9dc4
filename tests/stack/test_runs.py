"""Runs through the whole stack: a log that is followed over crashes, and a runner that is replaced."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import httpx
import pytest

from tests.document_commands import block, run
from tests.lucius_client.cli.command import INVOICE, PROGRAM, run_main
from tests.platform_service.pack_runs import write_pack
from tests.running_stack import ROOT, RunningStack
from tests.stack.test_jobs import post, until, until_ended
from tests.waiting import wait_until

#: prints lines slowly, and leaves an artifact
SLOW = """
import json, os, time
from pathlib import Path

inputs = json.loads(Path(os.environ["LUCIUS_INPUTS"]).read_text())
for number in range(inputs["lines"]):
    print("line", number, flush=True)
    time.sleep(inputs["pause"])
Path("artifacts", "done.txt").write_text(os.environ["LUCIUS_ATTEMPT"])
"""


def start_run(stack: RunningStack, pack_id: str, **inputs: Any) -> str:
    digest = write_pack(stack.data / "packs", SLOW, pack_id, input=False)
    payload = {"packId": pack_id, "packVersion": "1.0.0", "planHash": digest, "inputs": inputs, "heartbeatCadence": 15}
    return post(stack, f"{stack.blob}/documents/none", payload, "PACK_RUN")


def log_of(stack: RunningStack, job_id: str) -> str:
    """The log until now."""
    try:
        return stack.http.get(f"/v1/runs/{job_id}/logs").text
    except httpx.TransportError:
        return ""


def test_a_followed_log_has_no_gap_over_a_restart_of_the_host(stack: RunningStack) -> None:
    """Each byte once, for the command and for a later reader. The host needs seconds to restart."""
    job_id = start_run(stack, "slow", lines=60, pause=0.1)
    following = subprocess.Popen(
        [str(PROGRAM), "run", "logs", job_id, "-f", "--api", stack.api], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        wait_until(lambda: "line 5\n" in log_of(stack, job_id), "the run has not begun")
        stack.restart("host")
        read, error = following.communicate(timeout=120)
    finally:
        following.kill()
    assert following.returncode == 0, error
    printed = [line for line in read.decode().splitlines() if not line.startswith("[runner]")]
    assert printed == [f"line {number}" for number in range(60)]
    assert read.decode() == log_of(stack, job_id)
    assert run_main("run", "get", job_id, "done.txt", "--out", "-", "--api", stack.api).stdout == "1"


@pytest.mark.long
def test_a_runner_that_is_killed_is_replaced(stack: RunningStack) -> None:
    """After two missing heartbeats of 15 s, the shortest interval, another attempt starts; the log names it."""
    job_id = start_run(stack, "killed", lines=40, pause=0.1)
    wait_until(lambda: "line 5\n" in log_of(stack, job_id), "the run has not begun")
    stack.restart("packs")
    job = until_ended(stack, job_id)
    assert (job["status"], job["steps"][0]["attempt_no"]) == ("SUCCEEDED", 2)
    first, _, second = log_of(stack, job_id).partition("\n[runner] attempt 2 begins, on this runner or another")
    assert first.splitlines()[1:7] == [f"line {number}" for number in range(6)]
    assert "[runner] attempt 2 follows attempt 1\n" in second
    assert "line 39\n" in second
    assert run_main("run", "get", job_id, "done.txt", "--out", "-", "--api", stack.api).stdout == "2"


def test_a_pack_that_is_not_there_fails_its_job(stack: RunningStack) -> None:
    payload = {"packId": "missing", "packVersion": "1.0.0", "planHash": f"sha256:{'0' * 64}"}
    job_id = post(stack, f"{stack.blob}/documents/none", payload, "PACK_RUN")
    job = until(stack, job_id, lambda job: job["status"] == "FAILED_FINAL")
    assert job["error_code"] == "PACK_NOT_FOUND"
    assert "PACK_NOT_FOUND" in log_of(stack, job_id)


def test_the_commands_of_the_guide(stack: RunningStack) -> None:
    """A pack from the page is submitted and followed, and its artifact is fetched: by `lucius`, then by curl."""
    guide, folder = ROOT / "docs" / "guides" / "runs.md", stack.data / "packs"
    text = "".join(block(guide, name) for name in ("runs", "submit", "follow", "artifacts"))
    output = run(stack, text, {"--dir packs": f"--dir {folder}", "packs/": f"{folder}/"})
    assert os.listdir(folder / "word-count")
    assert output.count("[runner] artifact result.json") == 2
    assert output.count("read ") == 2
    assert '"name": "result.json"' in output
    assert output.endswith('"inputs": {}}')
    report = run(stack, block(guide, "report"), {"samples/invoice.png": INVOICE})
    assert report.startswith("# Quality report\n")
