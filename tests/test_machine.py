"""The plugin `tests.machine`: a run on a machine that lacks a program, and the CPU time of a run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_stack import ROOT

TESTS = """
import subprocess, sys
import pytest

@pytest.mark.needs("curl")
def test_it_is_not_run():
    raise AssertionError

def test_it_runs():
    subprocess.run([sys.executable, "-c", "import time\\nwhile time.process_time() < 0.5: pass"], check=True)
"""


@pytest.mark.parametrize(
    ("options", "environment", "code"),
    [((), {}, 0), (("-p", "xdist", "-n", "1"), {"CI": "true"}, 1)],
    ids=["by hand", "xdist in CI"],
)
def test_the_end_of_a_run(tmp_path: Path, options: tuple[str, ...], environment: dict[str, str], code: int) -> None:
    """The CPU time of all processes, then the skipped tests and their command, which is a failure in CI."""
    (tmp_path / "test_example.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "tests.machine", "-p", "no:cacheprovider", *options, "."],
        cwd=tmp_path,
        # no program on PATH; pytest's other plugins take longer to load than these tests
        env={"PATH": "", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "1 passed, 1 skipped" in done.stdout
    cpu, missing = done.stdout.splitlines()[-2:]
    assert re.fullmatch(r"CPU seconds: [1-9]\d*", cpu)
    assert re.fullmatch(r"not run \(1\): needs curl: (apt-get|brew) install curl", missing)
