"""A pytest plugin: the programs that a test needs, and the CPU time of the whole run.

A test marked `needs("browser")` is skipped where no such program is found. The run ends with the programs that were
missing and the command that installs each; its exit code is then 1 where CI=true, else that of the tests that did run.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.checks import compiler
from infra.package import environment
from scripts.browsers import find_browser

_ON_MAC = sys.platform == "darwin"


_REASON = "needs "


@dataclass(frozen=True)
class Program:
    """`find` gives its path, None where the machine lacks it; `install` is the command for that."""

    name: str
    find: Callable[[], str | Path | None]
    install: str
    #: whether a run with CI=true fails where it is missing
    required: bool = True

    @property
    def reason(self) -> str:
        """Returns the reason why a test is skipped without it."""
        return f"{_REASON}{self.name}: {self.install}"


def _which(*commands: str) -> Callable[[], str | None]:
    """Returns the first of the commands that is on PATH, or is a path itself."""
    return lambda: next(filter(None, map(shutil.which, commands)), None)


def _path_of_module(name: str) -> str | None:
    spec = importlib.util.find_spec(name)
    return None if spec is None else spec.origin


PROGRAMS = {
    "browser": Program(
        "Chromium, Chrome or Edge",
        find_browser,
        "brew install --cask chromium" if _ON_MAC else "apt-get install chromium",
    ),
    "bicep": Program("the Bicep compiler", compiler.find, compiler.INSTALL),
    "curl": Program("curl", _which("curl"), "brew install curl" if _ON_MAC else "apt-get install curl"),
    "jq": Program("jq", _which("jq"), "brew install jq" if _ON_MAC else "apt-get install jq"),
    "openssl": Program("openssl", _which("openssl"), "brew install openssl" if _ON_MAC else "apt-get install openssl"),
    "sha256sum": Program(
        "sha256sum", _which("sha256sum"), "brew install coreutils" if _ON_MAC else "apt-get install coreutils"
    ),
    "proton": Program(
        "Qpid Proton",
        lambda: _path_of_module("proton"),
        ".venv/bin/pip install python-qpid-proton",
        # it is built from source, with a C compiler; GitHub Actions installs it always
        required=False,
    ),
    "python3.12": Program("Python 3.12", environment.find_python312, "uv python install 3.12"),
}


def path_of(key: str) -> str:
    """The program's path, for a test that is marked with `needs(key)`."""
    path = PROGRAMS[key].find()
    assert path is not None, f"mark the test with needs({key!r})"
    return str(path)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"needs(program): one of {', '.join(PROGRAMS)}; skipped where it is missing")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture of the test, which may use the program."""
    for marker in item.iter_markers("needs"):
        program = PROGRAMS[marker.args[0]]
        if program.find() is None:
            pytest.skip(program.reason)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Writes the last lines of a run, below pytest's own."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return  # a worker of xdist: its controller sums up
    reporter.write_line(f"CPU seconds: {_cpu_seconds():.0f}")
    missing = Counter(
        reason
        for report in reporter.stats.get("skipped", [])
        if (reason := report.longrepr[2].removeprefix("Skipped: ")).startswith(_REASON)
    )
    for reason, count in sorted(missing.items()):
        reporter.write_line(f"not run ({count}): {reason}", yellow=True)
    optional = {program.reason for program in PROGRAMS.values() if not program.required}
    required = missing.keys() - optional
    if required and os.environ.get("CI") == "true" and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _cpu_seconds() -> float:
    """Returns user and system time of this process and of its descendants: xdist's workers have ended by now.

    The time of a process is added to its parent when the parent waits for it. A descendant whose parent was killed is
    missing, as are the children of stacks that a test kills.
    """
    usages = [resource.getrusage(which) for which in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)
