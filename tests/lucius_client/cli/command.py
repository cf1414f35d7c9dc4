"""Runs `lucius`, as a program or from `main` on."""

from __future__ import annotations

import contextlib
import functools
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import typer

from lucius_client.cli.main import main
from tests.running_stack import ROOT, SMALL_INVOICE, RunningStack

PROGRAM = Path(sys.executable).parent / "lucius"
INVOICE = str(SMALL_INVOICE)
#: the whole command is built from its functions once, and not for each run in this process
_get_command = functools.cache(typer.main.get_command)


def run_program(*words: str, api: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs the installed program, without a terminal, as a script does."""
    assert PROGRAM.exists(), "run `make setup`"
    return subprocess.run(
        [str(PROGRAM), *words],
        cwd=ROOT,
        env={**os.environ, **_settings(api, environment)},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def run_main(
    *words: str, api: str | None = None, cwd: Path = ROOT, terminal: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command as `run_program`, but in this process, a second faster; `terminal`: stdout is one."""
    written, err = io.BytesIO(), io.StringIO()
    out = io.TextIOWrapper(written, encoding="utf-8", newline="", write_through=True)
    out.isatty = lambda: terminal  # type: ignore[method-assign]
    with (
        contextlib.chdir(cwd),
        mock.patch.dict(os.environ, _settings(api, environment)),
        mock.patch.object(typer.main, "get_command", _get_command),
        mock.patch.object(sys, "argv", [str(PROGRAM), *words]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    # bytes that are not UTF-8 are returned by `surrogateescape`
    return subprocess.CompletedProcess(
        list(words), code, written.getvalue().decode("utf-8", "surrogateescape"), err.getvalue()
    )


def run_on(stack: RunningStack, *words: str) -> subprocess.CompletedProcess[str]:
    """`run_main` with the API and the blob store of `stack`, for the tenant `demo` unless the words name another."""
    settings = {"LUCIUS_BLOB_CONNECTION": stack.storage_connection, "LUCIUS_TENANT": "demo"}
    return run_main(*words, api=stack.api, **settings)


def stdout_of(stack: RunningStack, *words: str) -> str:
    """Returns the output of `run_on`, whose exit code must be 0."""
    completed = run_on(stack, *words)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout


def ids_of_jobs(stack: RunningStack, *words: str) -> list[str]:
    """The ids that `lucius jobs` lists."""
    return stdout_of(stack, "jobs", *words, "-o", "ids").split()


def _settings(api: str | None, environment: dict[str, str]) -> dict[str, str]:
    return {**({"LUCIUS_API": api} if api else {}), **environment}
