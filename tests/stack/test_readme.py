"""The README's own commands, run as they stand there, against a live stack."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.up.environment import addresses
from emulator.up.ports import DEFAULTS
from tests.running_stack import ROOT, RunningStack

README = (ROOT / "README.md").read_text(encoding="utf-8")
CORE_TOOLS = (ROOT / "docs" / "core-tools.md").read_text(encoding="utf-8")
DEADLINE_S = 120


def commands(name: str) -> str:
    """The shell block under `<!-- tested: name -->`."""
    found = re.search(rf"<!-- tested: {name} -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert found, f"the README has no block {name}"
    return found[1]


def run(stack: RunningStack, block: str, job_id: str = "") -> str:
    """Runs a block with the stack's ports for the default ones that the README names."""
    for default, own in (
        (f"http://127.0.0.1:{DEFAULTS.api}", stack.api),
        (f"http://127.0.0.1:{DEFAULTS.azurite}/devstoreaccount1", stack.blob),
        ("JOB_ID", job_id),
    ):
        block = block.replace(default, own)
    settings = {"LUCIUS_API": stack.api, "LUCIUS_BLOB_CONNECTION": stack.storage_connection}
    done = subprocess.run(
        ["env", *(f"{name}={value}" for name, value in settings.items()), "bash", "-euo", "pipefail", "-c", block],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def job_id(stack: RunningStack) -> str:
    return str(json.loads(run(stack, commands("job")))["jobId"])


@pytest.mark.needs("curl")
def test_the_first_job(stack: RunningStack, job_id: str) -> None:
    """The curl of the README makes a job; posted again, it answers the same one."""
    assert json.loads(run(stack, commands("job")))["jobId"] == job_id


@pytest.mark.needs("curl")
def test_what_is_read_of_it(stack: RunningStack, job_id: str) -> None:
    """Each of the reads answers JSON about that job, and the job ends SUCCEEDED."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        job, events, jobs, protocols = parse_all(run(stack, commands("reads"), job_id))
        if job["status"] == "SUCCEEDED":
            break
        assert time.monotonic() < deadline, job
        time.sleep(0.2)
    assert {event["jobId"] for event in events["events"]} == {job_id}
    assert job_id in {listed["jobId"] for listed in jobs["jobs"]}
    assert "OCR_EMBEDDING_SIS" in {protocol["request_type"] for protocol in protocols["protocols"]}


@pytest.mark.needs("curl")
def test_the_command_line(stack: RunningStack, job_id: str) -> None:
    """The `lucius` lines answer the question about the sample and show jobs and events."""
    shown = run(stack, commands("lucius"), job_id)
    assert "Margaret Ellison" in shown
    assert job_id in shown
    assert "JOB_CREATED" in shown


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
    """`local.settings.example.json` and the exports of docs/core-tools.md name the default ports of Azurite and bus."""
    values = json.loads((ROOT / "local.settings.example.json").read_text())["Values"]
    plain = replace(DEFAULTS, issuer=0, traces=0)
    for name, value in addresses(plain).items():
        given = dict(part.split("=", 1) for part in values[name].strip(";").split(";"))
        ours = dict(part.split("=", 1) for part in value.strip(";").split(";"))
        assert given.items() <= ours.items(), name
    assert values["LUCIUS_BLOB_CONNECTION"] in CORE_TOOLS


def test_every_file_that_it_names_is_there() -> None:
    """Links and paths of the README lead somewhere."""
    linked = re.findall(r"\]\((?!http)([^)#]+)", README)
    named = re.findall(r"(?:`|by |and )((?:infra|docs|samples|scripts|tests|packages)/[\w./-]+)", README)
    assert linked
    assert named
    for path in [*linked, *named]:
        assert Path(ROOT / path).exists(), path


def parse_all(text: str) -> list[dict]:  # type: ignore[type-arg]
    """The JSON documents that stand one after the other."""
    decoder, documents, rest = json.JSONDecoder(), [], text.lstrip()
    while rest:
        document, end = decoder.raw_decode(rest)
        documents.append(document)
        rest = rest[end:].lstrip()
    return documents
