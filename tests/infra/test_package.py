"""What would be deployed starts where it would run; and checkov's rules, both in environments of their own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from infra.checks import environment, package, rules_of_checkov
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


@pytest.mark.long
def test_checkov_finds_nothing(tmp_path: Path) -> None:
    """Every rule holds, or is skipped with a reason; and a template that breaks one is found."""
    assert [str(each) for each in rules_of_checkov.check(ROOT, ROOT / "infra" / "bicep")] == []
    (tmp_path / "open.bicep").write_text(
        # checkov's own parser cannot read this
        "type sizeType = 'small' | 'large'\nparam size sizeType\nparam place string\n"
        "resource open 'Microsoft.Storage/storageAccounts@2025-06-01' = {\n  name: 'open'\n  location: place\n"
        "  kind: 'StorageV2'\n  sku: { name: 'Standard_LRS' }\n  properties: { supportsHttpsTrafficOnly: false }\n}\n"
    )
    assert rules_of_checkov.check(ROOT, tmp_path)
    skipped = re.findall(r"- (CKV\w+)(.*)", (ROOT / "infra/checks/checkov.yaml").read_text())
    assert all("#" in reason for _, reason in skipped), "each skipped rule has its reason"
