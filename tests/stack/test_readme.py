"""The commands of the README and of the quick start, run unchanged against a live stack."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.up.environment import addresses
from emulator.up.ports import DEFAULTS
from tests.document_commands import block, json_documents, run
from tests.running_stack import ROOT, RunningStack
from tests.waiting import wait_until

README = ROOT / "README.md"
QUICKSTART = ROOT / "docs" / "start" / "quickstart.md"
API = ROOT / "docs" / "reference" / "api.md"
CORE_TOOLS = ROOT / "docs" / "contributing" / "core-tools.md"
DEADLINE_S = 120


@pytest.fixture(scope="module")
def job_id(stack: RunningStack) -> str:
    return str(json.loads(run(stack, block(QUICKSTART, "job")))["jobId"])


@pytest.mark.needs("curl")
def test_the_first_job(stack: RunningStack, job_id: str) -> None:
    """The curl of the quick start makes a job; posted again, it gets the same one."""
    assert json.loads(run(stack, block(QUICKSTART, "job")))["jobId"] == job_id


@pytest.mark.needs("curl")
def test_the_reads_of_the_first_job(stack: RunningStack, job_id: str) -> None:
    """Each of the reads returns JSON about that job, once it has SUCCEEDED."""
    wait_until(
        lambda: stack.get(f"/v1/jobs/{job_id}")["status"] == "SUCCEEDED", f"{job_id} did not", deadline_s=DEADLINE_S
    )
    job, events, jobs, protocols = json_documents(run(stack, block(QUICKSTART, "reads"), {"JOB_ID": job_id}))
    assert job["status"] == "SUCCEEDED"
    assert {event["jobId"] for event in events["events"]} == {job_id}
    assert job_id in {listed["jobId"] for listed in jobs["jobs"]}
    assert "OCR_EMBEDDING_SIS" in {protocol["request_type"] for protocol in protocols["protocols"]}


@pytest.mark.needs("curl")
def test_a_submission_that_waits(stack: RunningStack) -> None:
    """The curl of docs/reference/api.md gets the job; sent again while the job has not ended."""
    job = wait_until(
        lambda: job if "steps" in (job := json.loads(run(stack, block(API, "wait")))) else None, "it did not end"
    )
    assert job["status"] == "SUCCEEDED"


@pytest.mark.needs("curl")
def test_the_command_line(stack: RunningStack, job_id: str) -> None:
    """The `lucius` lines answer the question about the sample, and show jobs, an explanation and events."""
    shown = run(stack, block(README, "lucius"))
    assert "Margaret Ellison" in shown
    assert job_id in shown
    explained = run(stack, block(QUICKSTART, "look"), {"JOB_ID": job_id})
    assert "SUCCEEDED" in explained
    assert "JOB_CREATED" in explained


def test_the_smoke_test_of_a_deployment(stack: RunningStack) -> None:
    """`scripts/smoke.py` puts a document through this stack as it does through one in Azure."""
    done = subprocess.run(
        [sys.executable, "scripts/smoke.py", "--api", stack.api, "--blobs", stack.blob, "--timeout", str(DEADLINE_S)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"^SUCCEEDED http\S+/sis/result\.json$", done.stdout, re.MULTILINE)


def test_the_settings_for_core_tools_are_those_of_a_laptop() -> None:
    """`local.settings.example.json` and docs/contributing/core-tools.md name the default ports of a stack."""
    values = json.loads((ROOT / "local.settings.example.json").read_text())["Values"]
    plain = replace(DEFAULTS, issuer=0, traces=0)
    laptop_values = addresses(plain)
    assert values["LUCIUS_PUBLIC_URL"] == laptop_values.pop("LUCIUS_PUBLIC_URL")
    for name, value in laptop_values.items():
        if "://" in value and "=" not in value:
            assert values[name] == value, name
            continue
        example = dict(part.split("=", 1) for part in values[name].strip(";").split(";"))
        laptop = dict(part.split("=", 1) for part in value.strip(";").split(";"))
        assert example.items() <= laptop.items(), name
    assert values["LUCIUS_BLOB_CONNECTION"] in CORE_TOOLS.read_text(encoding="utf-8")


def test_every_file_that_it_names_is_there() -> None:
    """Links of the README lead somewhere; those of docs/ are checked by `make docs`."""
    text = README.read_text(encoding="utf-8")
    linked = re.findall(r"\]\((?!http)([^)#]+)", text)
    assert linked
    for path in linked:
        assert Path(ROOT / path).exists(), path
