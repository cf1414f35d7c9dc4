"""Test modules that share a stack, or another costly fixture, run on one worker of xdist, which makes it once.

A start of a stack costs 4.5 s of CPU, with platform services 12.5 s. Other modules are distributed one by one, as
`--dist loadscope` does.
"""

from __future__ import annotations

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

#: path prefixes by group; the group "stack" is every module that uses the fixture `stack`
GROUPS = {
    "stack": (
        "tests/isolation/test_live_cells.py",
        "tests/lucius_client/cli/test_docs.py",
        "tests/lucius_client/cli/test_jobs.py",
        "tests/lucius_client/cli/test_main.py",
        "tests/lucius_client/cli/test_recorded_stack.py",
        "tests/lucius_client/cli/test_result.py",
        "tests/lucius_client/cli/test_submit.py",
        "tests/lucius_client/cli/test_tenants.py",
        "tests/lucius_client/cli/test_terminal.py",
        "tests/lucius_client/test_live.py",
        "tests/lucius_client/test_results.py",
        "tests/observability/test_health.py",
        "tests/observability/test_runbook.py",
        "tests/stack/test_jobs.py",
        "tests/stack/test_readme.py",
        "tests/stack/test_runs.py",
        "tests/stack/test_up.py",
    ),
    "scripted": ("tests/stack/scripted/",),
    # the dashboard shows existing rows, so its tests come first
    "api": ("tests/dashboard/", "tests/api/"),
    "security": ("tests/security/",),
    # one process of the compiler
    "bicep": ("tests/infra/test_planted_mistakes.py", "tests/infra/test_templates.py"),
    # both walk through every state of the same jobs
    "model": ("tests/model/test_reachable.py", "tests/mutation/"),
}


def place_in_group(nodeid: str) -> int:
    """The number of the prefix by which a test is in its group; the tests of a group run in this order."""
    prefixes = GROUPS.get(group_of(nodeid), ())
    return next((number for number, prefix in enumerate(prefixes) if nodeid.startswith(prefix)), 0)


def group_of(nodeid: str) -> str:
    """The group of a test; of a module in no group, its path."""
    path = nodeid.partition("::")[0]
    return next((group for group, prefixes in GROUPS.items() if path.startswith(prefixes)), path)


class GroupScheduling(LoadScopeScheduling):
    """`--dist loadscope` with the groups above as scopes."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> GroupScheduling | None:
    return GroupScheduling(config, log) if config.getoption("dist") == "loadscope" else None
