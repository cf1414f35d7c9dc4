"""The command as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.running_stack import ROOT

PROGRAM = Path(sys.executable).parent / "lucius"


def lucius(*words: str, api: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without a terminal, as in a script."""
    assert PROGRAM.exists(), "run `make setup`"
    return subprocess.run(
        [str(PROGRAM), *words],
        cwd=ROOT,
        env={**os.environ, **({"LUCIUS_API": api} if api else {}), **environment},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
