"""The commands of docs/reference/cli.md and the programs of docs/reference/client.md, run as they are printed."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from emulator.up.ports import DEFAULTS
from tests.lucius_client.cli.command import PROGRAM, run_main
from tests.running_stack import ROOT, SMALL_INVOICE, RunningStack
from tests.waiting import wait_until


def block(document: str, name: str, language: str, stack: RunningStack) -> str:
    """A code block of a document, with the ports of `stack` in place of the default ones."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    match = re.search(rf"<!-- tested: {name} -->\n```{language}\n(.*?)```", text, re.DOTALL)
    assert match, f"docs/{document} has no block {name}"
    code = match[1].replace(f"http://127.0.0.1:{DEFAULTS.azurite}/devstoreaccount1", stack.blob)
    return code.replace(f"http://127.0.0.1:{DEFAULTS.api}", stack.api)


def run(words: list[str], stack: RunningStack, cwd: Path) -> str:
    path = f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"
    settings = {"LUCIUS_API": stack.api, "LUCIUS_BLOB_CONNECTION": stack.storage_connection, "PATH": path}
    completed = subprocess.run(
        words, cwd=cwd, env={**os.environ, **settings}, capture_output=True, text=True, timeout=170, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
    return completed.stdout


def typed(commands: str, stack: RunningStack, cwd: Path) -> str:
    """Returns the output of the lines.

    A line that is one `lucius` command runs in this process, any other in a shell.
    """
    output = ""
    for line in commands.splitlines():
        command, _, file = line.partition(" > ")
        if not command.startswith("lucius ") or "|" in command:
            output += run(["bash", "-euo", "pipefail", "-c", line], stack, cwd)
            continue
        settings = {"LUCIUS_BLOB_CONNECTION": stack.storage_connection}
        completed = run_main(*shlex.split(command)[1:], api=stack.api, cwd=cwd, **settings)
        assert completed.returncode == 0, line + completed.stderr
        if file:
            (cwd / file).write_text(completed.stdout)
        else:
            output += completed.stdout
    return output


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A writable folder with the files that the commands name; the invoice is the small one."""
    folder = tmp_path_factory.mktemp("docs")
    (folder / "samples").mkdir()
    for path in ("protocols", "samples/bw40-manual.pdf"):
        (folder / path).symlink_to(ROOT / path)
    (folder / "samples" / "invoice.png").symlink_to(SMALL_INVOICE)
    return folder


def test_the_commands_about_versions(stack: RunningStack, tmp_path: Path) -> None:
    """Those of docs/guides/audit.md that compare and list versions, with a new compatible version."""
    (tmp_path / "protocols").symlink_to(ROOT / "protocols")
    shutil.copytree(ROOT / "protocols", tmp_path / "new")
    definition = json.loads((tmp_path / "new" / "ocr.json").read_text())
    definition["steps"][0]["max_attempts"] = 5
    (tmp_path / "new" / "ocr.json").write_text(json.dumps(definition | {"version": 2}))
    commands = block("guides/audit.md", "diff", "sh", stack) + block("guides/audit.md", "versions", "sh", stack)
    shown = typed(commands, stack, tmp_path)
    assert "changed step ocr: max_attempts default -> 5" in shown
    assert '"new_version": 2' in shown
    assert re.search(r"^1 +yes +100% ", shown, re.MULTILINE)


def test_the_pages_of_events(stack: RunningStack, tmp_path: Path) -> None:
    """The requests of docs/reference/events.md, without tokens."""
    pages = run(
        ["bash", "-euc", f"NEXT=earliest\n{block('reference/events.md', 'pages', 'sh', stack)}"], stack, tmp_path
    )
    assert pages.count('"next"') == 3


def test_the_commands(stack: RunningStack, checkout: Path) -> None:
    """Every block of docs/reference/cli.md, and an auditor's of docs/guides/audit.md, works; JOB_ID is the job of the
    first one."""

    def shell(name: str, job_id: str = "", document: str = "reference/cli.md") -> str:
        return typed(block(document, name, "sh", stack).replace("JOB_ID", job_id), stack, checkout)

    submitted = shell("submit")
    [job_id] = re.findall(r"invoice\.png\s+SUCCEEDED\s+(\S+)", submitted)
    looked = shell("look", job_id)
    assert f"Job {job_id} " in looked
    assert "JOB_CREATED" in looked
    assert f"verified at levels 1, 2, 3: {job_id} SUCCEEDED" in shell("offline", job_id)
    audited = shell("audit", job_id, "guides/audit.md")
    assert audited.count("verified at levels 1, 2, 3: demo, ") == 2
    assert '"verdict": "verified"' in audited
    assert '"jobId"' in shell("pipe")
    assert '"lucius.text/1"' in shell("result", job_id)
    assert (checkout / "result.json").stat().st_size == (checkout / "text.json").stat().st_size > 0


def test_the_programs(stack: RunningStack, checkout: Path) -> None:
    """Both programs of docs/reference/client.md end with exit code 0 and print the state of the job."""
    for name in ("sync", "async"):
        program = checkout / f"{name}.py"
        program.write_text(block("reference/client.md", name, "python", stack))
        assert "SUCCEEDED" in run([sys.executable, str(program)], stack, checkout)


def test_the_commands_of_governance(stack: RunningStack, checkout: Path, tenant: str) -> None:
    """A quota of two: two of ten run and eight wait in order; raised, all start; a step waits for a dispatch limit, and
    a job for a held source; rules as a file.

    Many jobs are paused, resumed, cancelled and redriven at once, and a job with the one that failed because of it.

    It is the tenant of this test instead of `acme`; JOB_ID is the third job of the ten.
    """

    pages = {
        **dict.fromkeys(("after", "tree"), "guides/dependencies.md"),
        **dict.fromkeys(("receipts", "usage"), "guides/usage.md"),
        "bulk": "guides/bulk.md",
    }

    def shell(name: str, job_id: str = "") -> str:
        commands = block(pages.get(name, "guides/quotas.md"), f"governance {name}", "sh", stack)
        return typed(commands.replace("acme", tenant).replace("JOB_ID", job_id), stack, checkout)

    def submitted(*words: str) -> str:
        options = f"-p OCR --tenant {tenant} --again -o ids {shlex.join(words)}"
        return typed(f"lucius submit samples/bw40-manual.pdf {options}", stack, checkout).split()[-1]

    def gate() -> dict[str, Any]:
        found: dict[str, Any] = stack.get("/v1/quotas", tenant=tenant)["quotas"][0]
        return found

    def waiting() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = stack.get(f"/v1/quotas/{gate()['id']}/waiting", tenant=tenant)["waiting"]
        return found

    assert "max_active=2" in shell("set")
    assert gate()["staged"] == 8
    wait_until(lambda: gate()["active"] == 0, "the two jobs did not end", deadline_s=120)
    line = waiting()
    assert [each["position"] for each in line] == list(range(1, 9))
    assert [each["created_at"] for each in line] == sorted(each["created_at"] for each in line)
    times = [datetime.fromisoformat(each["nextEligibleAt"]) for each in line]
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(times)]
    assert gaps == pytest.approx([600.0] * 7, abs=0.01)
    watched = shell("watch", line[0]["jobId"])
    assert re.search(r"which has reached its rate; position 1, for \d+[ms]; starts in \d+m", watched)
    shell("priority", line[-1]["jobId"])
    assert [each["jobId"] for each in waiting()] == [line[-1]["jobId"], *(each["jobId"] for each in line[:-1])]
    raised = shell("raise", line[-1]["jobId"])
    assert "(dry run: 5 jobs start, 3 continue to wait)" in raised
    wait_until(lambda: gate()["staged"] == gate()["active"] == 0, "not all jobs went in", deadline_s=120)
    shell("guard")
    [guarded] = [job["jobId"] for job in stack.get("/v1/jobs", tenant_id=tenant, limit=1)["jobs"]]
    wait_until(
        lambda: stack.get(f"/v1/jobs/{guarded}/explain")["gate"] == "GATED", "the guard was not asked", deadline_s=60
    )
    assert "the dispatch limit service:ocr" in shell("guarded", guarded).replace("\n", " ")
    # else the test waits for half a minute
    assert run_main("job", "cancel", guarded, "--reason", "seen", api=stack.api).returncode == 0
    held = shell("hold")
    assert "HELD" in held
    # `lucius source list`: one waiting, held
    assert re.search(r"lucius-cli\s.*\s1\s+(true|True|yes)", held.replace("\n", " "))
    wait_until(lambda: gate()["active"] == 0, "the held job did not end", deadline_s=120)
    assert re.search(r"total\s+12\s", shell("receipts"))
    assert re.search(r"total\s+12\s+12\s+9\s", shell("usage"))
    [first] = [job["jobId"] for job in stack.get("/v1/jobs", tenant_id=tenant, limit=1)["jobs"]]
    shell("after", first)
    [after] = [job["jobId"] for job in stack.get("/v1/jobs", tenant_id=tenant, limit=1)["jobs"]]
    wait_until(
        lambda: stack.get(f"/v1/jobs/{after}")["status"] == "SUCCEEDED", "the later job did not end", deadline_s=120
    )
    types = [event["type"] for event in stack.get(f"/v1/jobs/{after}/events")["events"]]
    assert "DEPENDENCIES_SETTLED" in types
    many = shell("bulk")
    assert "10 matching jobs (dry run). First jobs:" in many
    assert many.count("10 done, 0 refused, 0 open") == 4
    typed(f"lucius quota hold --tenant {tenant} --reason why", stack, checkout)
    root = submitted()
    below = submitted("--after", root)
    typed(f"lucius job cancel {root}", stack, checkout)
    wait_until(lambda: stack.get(f"/v1/jobs/{below}")["status"] == "FAILED_FINAL", "it did not fail", deadline_s=120)
    typed(f"lucius quota resume --tenant {tenant} --reason why", stack, checkout)
    tree = shell("tree", root)
    assert re.search(rf"is a dependency of\s+{below}\s+FAILED_FINAL\s+DEPENDENCY_FAILED", tree)
    assert "2 done, 0 refused, 0 open" in tree
    text = (ROOT / "docs" / "guides" / "quotas.md").read_text(encoding="utf-8")
    [rules] = re.findall(r"<!-- file: quotas.yaml -->\n```yaml\n(.*?)```", text, re.DOTALL)
    (checkout / "quotas.yaml").write_text(rules.replace("acme", tenant))
    assert "max_active=50" in shell("apply")
    assert shell("apply").count("unchanged") == 6
    assert "max_active=500" in shell("platform")
