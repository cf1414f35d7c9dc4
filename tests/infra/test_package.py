"""Starts the deployable package in an environment like the deployed one."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from infra.checks.finding import CheckFailed
from infra.package import built as package
from infra.package import environment
from scripts import lock as locks
from scripts import package as deployed
from tests.jobs import ROOT


@pytest.mark.needs("python3.12")
@pytest.mark.timeout(400)
def test_the_package_starts_on_the_deployed_version(tmp_path: Path) -> None:
    """Built by Azure's rules, on a clean Python 3.12 with the lock alone, it serves every function and answers GraphQL.

    Over 5 s: it is built as for a deployment.
    """
    built = package.build(ROOT, tmp_path)
    print(f"package: {built}")
    assert not list((built.app).glob("tests*"))
    functions = package.start(ROOT, built, tmp_path / "data")
    assert {"orchestrate", "job_read", "reply_p0", "reply_p15", "sweep"} <= set(functions), functions


def requirements(name: str) -> list[Requirement]:
    """Those of a file, for the version that is deployed."""
    lines = [line for line in (ROOT / name).read_text().splitlines() if re.match(r"\w", line)]
    found = [Requirement(line.partition("#")[0].partition("\\")[0]) for line in lines]
    deployed = {"python_version": "3.12", "python_full_version": "3.12.0"}
    return [each for each in found if each.marker is None or each.marker.evaluate(deployed)]


@pytest.mark.parametrize("lock", locks.LOCKS, ids=lambda lock: lock.target.name)
def test_what_is_installed_has_a_hash(lock: locks.Lock) -> None:
    """Each package has the version of constraints.txt, and no required one is missing: else `make lock`."""
    content = lock.target.read_text()
    assert content.splitlines()[1:3] == ["--require-hashes", "--only-binary :all:"]
    packages = re.findall(r"(?m)^(\S+)==(\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", content)
    assert len(packages) == len(re.findall(r"(?m)^\w", content))
    locked = {canonicalize_name(name): version for name, version, _ in packages}
    pins = {canonicalize_name(each.name): str(each.specifier) for each in requirements("constraints.txt")}
    assert {name: f"=={version}" for name, version in locked.items()} == {name: pins.get(name) for name in locked}
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    grouped = [Requirement(each) for group in lock.groups for each in groups[group]]
    for each in [*requirements("requirements.txt"), *grouped]:
        assert each.specifier.contains(locked.get(canonicalize_name(each.name), "0")), each


def test_a_package_takes_the_wheels_that_the_lock_has(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """For fewer platforms than the lock's, pip finds no wheel with one of its hashes."""
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        if "--report" in command:
            Path(command[command.index("--report") + 1]).write_text('{"install": []}')
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(environment, "python312", lambda: Path("python3.12"))
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(deployed, "packaged", lambda root: [])
    monkeypatch.setattr(deployed, "_commit", lambda: "0123")
    deployed.build(tmp_path / "app.zip", backend="AzureStorage", packages=True)
    locks.text(locks.Lock(tmp_path / "it.lock", (), locks.LOCKS[0].platforms[:1]))
    packed, locked = ([word for word in each if re.match(r"manylinux|3\.|:all:", word)] for each in asked)
    assert packed == locked
    assert {"manylinux_2_28_x86_64", "3.12", ":all:"} <= set(packed)


def test_no_python_312_is_a_failure_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m infra.checks --all` does not leave the package out."""
    monkeypatch.setattr(environment, "DEPLOYED", (3, 99))
    with pytest.raises(CheckFailed, match=r"apt-get install python3\.12"):
        environment.python312()
