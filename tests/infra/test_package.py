"""What would be deployed starts where it would run, in an environment of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.checks import environment, package
from infra.checks.finding import CheckFailed
from tests.jobs import ROOT


@pytest.mark.needs("python3.12")
@pytest.mark.timeout(400)
def test_the_package_starts_on_the_deployed_version(tmp_path: Path) -> None:
    """Built by Azure's rules, on a clean Python 3.12 with requirements.txt alone, it serves every function."""
    built = package.build(ROOT, tmp_path)
    print(f"package: {built}")
    assert not list((built.app).glob("tests*"))
    functions = package.start(ROOT, built, tmp_path / "data")
    assert {"orchestrate", "job_read", "reply_p0", "reply_p15", "sweep"} <= set(functions), functions


def test_no_python_312_is_a_failure_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """`python -m infra.checks --all` does not leave the package out."""
    monkeypatch.setattr(environment, "DEPLOYED", (3, 99))
    with pytest.raises(CheckFailed, match=r"apt-get install python3\.12"):
        environment.python312()
