"""Mistakes planted in the templates and what stands around them, one at a time: each has a check that finds it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from infra.checks import every, package_files
from infra.checks.finding import Finding
from infra.checks.template import Template, parse
from tests.jobs import ROOT

_TABLE = json.loads((ROOT / "tests" / "infra" / "planted_mistakes.json").read_text(encoding="utf-8"))
#: what the checks read
_READ = (".funcignore", ".github", "azure.yaml", "docs", "host.json", "host.AzureStorage.json", "infra", "protocols")
Row = dict[str, str]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root in which nothing is found."""
    root = tmp_path_factory.mktemp("sound")
    for name in (*_READ, "scripts"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, root / name)
    for name in package_files.APP:
        if not (root / name).exists():
            (root / name).touch() if "." in name else shutil.copytree(ROOT / "infra" / "hooks", root / name)
    assert every.check(root) == []
    return root


@pytest.fixture(scope="module")
def templates(sound: Path) -> dict[Path, Template]:
    return {path.resolve(): parse(path) for path in sorted((sound / "infra" / "bicep").rglob("*.bicep"))}


def planted(root: Path, row: Row) -> Path:
    """The file that holds the old text, with the new one."""
    files = [path for path in root.glob(row["file"]) if row["old"] in path.read_text(encoding="utf-8")]
    assert len(files) == 1, f"{row['file']}: {row['old']!r} stands in {len(files)} files"
    text = files[0].read_text(encoding="utf-8")
    assert text.count(row["old"]) == 1
    files[0].write_text(text.replace(row["old"], row["new"]), encoding="utf-8")
    return files[0]


def checked(root: Path, file: Path, templates: dict[Path, Template]) -> list[Finding]:
    """What is found in a file, in the templates that take it as a module, and in the whole of them."""
    if file.suffix == ".bicepparam":
        return every.check_parameters(parse(file), templates)
    found, changed = list[Finding](), dict(templates)
    if file.suffix == ".bicep":
        changed[file.resolve()] = parse(file)
        users = [each for each in changed.values() if any(Path(one.path).name == file.name for one in each.modules)]
        for each in {template.path: template for template in (changed[file.resolve()], *users)}.values():
            found += every.check_template(each, changed)
    return found or every.check_project(root, changed)


@pytest.mark.parametrize("row", _TABLE["mistakes"], ids=lambda row: row["what"])
def test_a_planted_mistake_is_found(row: Row, sound: Path, templates: dict[Path, Template]) -> None:
    """By the check, in the file and under the code that the table names."""
    before: dict[Path, str] = {path: path.read_text(encoding="utf-8") for path in sound.glob(row["file"])}
    try:
        file = planted(sound, row)
        found = checked(sound, file, templates)
    finally:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
    place = sound / row["seen_in"] if "seen_in" in row else file
    texts = [each.text for each in found if (each.path, each.rule) == (place, row["rule"])]
    assert any(row.get("code", "") in text for text in texts), found
