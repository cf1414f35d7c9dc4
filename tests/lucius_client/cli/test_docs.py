"""The commands of docs/cli.md and the programs of docs/client.md, run as they are printed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from emulator.up.ports import DEFAULTS
from tests.lucius_client.cli.command import PROGRAM, run_main
from tests.running_stack import ROOT, RunningStack


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


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A writable folder with the files that the commands name."""
    folder = tmp_path_factory.mktemp("docs")
    for name in ("samples", "protocols"):
        (folder / name).symlink_to(ROOT / name)
    return folder


def test_the_commands(stack: RunningStack, checkout: Path) -> None:
    """Every block of docs/cli.md works; JOB_ID is the job of the first one."""

    def shell(name: str, job_id: str = "") -> str:
        output = ""
        for line in block("cli.md", name, "sh", stack).replace("JOB_ID", job_id).splitlines():
            if "|" in line or ">" in line:
                output += run(["bash", "-euo", "pipefail", "-c", line], stack, checkout)
            else:
                completed = run_main(
                    *shlex.split(line)[1:],
                    api=stack.api,
                    cwd=checkout,
                    LUCIUS_BLOB_CONNECTION=stack.storage_connection,
                )
                assert completed.returncode == 0, line + completed.stderr
                output += completed.stdout
        return output

    submitted = shell("submit")
    [job_id] = re.findall(r"invoice\.png\s+SUCCEEDED\s+(\S+)", submitted)
    looked = shell("look", job_id)
    assert f"Job {job_id} " in looked
    assert "JOB_CREATED" in looked
    assert f"proved: {job_id} SUCCEEDED" in shell("offline", job_id)
    assert '"jobId"' in shell("pipe")
    assert '"lucius.text/1"' in shell("result", job_id)
    assert (checkout / "result.json").stat().st_size == (checkout / "text.json").stat().st_size > 0


def test_the_programs(stack: RunningStack, checkout: Path) -> None:
    """Both programs of docs/client.md end with exit code 0 and print the state of the job."""
    for name in ("sync", "async"):
        program = checkout / f"{name}.py"
        program.write_text(block("client.md", name, "python", stack))
        assert "SUCCEEDED" in run([sys.executable, str(program)], stack, checkout)
