"""The package outside a checkout, as `pip install` leaves it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_stack import ROOT

#: packages of the extra `cli`, by import name
EXTRA = ("azure", "jsonschema", "rich", "typer")


@pytest.fixture
def site_packages(tmp_path: Path) -> Path:
    """A folder with a copy of the package and nothing else of the repository."""
    folder = tmp_path / "site-packages"
    shutil.copytree(ROOT / "packages" / "lucius-client" / "lucius_client", folder / "lucius_client")
    return folder


def run(site_packages: Path, code: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=site_packages.parent,
        env={**os.environ, "PYTHONPATH": str(site_packages)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_library_needs_no_extra(site_packages: Path) -> None:
    """Every module outside `lucius_client.cli` can be imported without the packages of the extra."""
    modules = [f"lucius_client.{file.stem}" for file in (site_packages / "lucius_client").glob("[a-z]*.py")]
    block = f"import sys; sys.modules.update(dict.fromkeys({EXTRA!r}))"
    done = run(site_packages, f"{block}; import {', '.join(modules)}; print(lucius_client.__file__)")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(site_packages))


def test_an_installed_linter_leaves_services_unchecked(site_packages: Path) -> None:
    """`lucius protocol lint` checks services only with --topology, since there is no checkout to take it from."""
    program = "from lucius_client.cli.main import main; main()"
    words = ["protocol", "lint", str(ROOT / "protocols")]
    done = run(site_packages, program, *words)
    assert (done.returncode, done.stdout) == (0, "no fault found; services are unchecked without --topology\n"), (
        done.stderr
    )
    topology = str(ROOT / "infra" / "bicep" / "topology.json")
    done = run(site_packages, program, *words, "--topology", topology)
    assert (done.returncode, done.stdout) == (0, "no fault found\n"), done.stderr
