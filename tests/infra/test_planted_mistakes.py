"""Mistakes planted in the templates and the files around them: the compiler or one of our rules finds each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from infra.checks import every, package_files, snapshots
from infra.checks.compiler import Compiler
from infra.checks.finding import Finding
from tests.jobs import ROOT

Row = dict[str, Any]
_ROWS: list[Row] = json.loads((ROOT / "tests/infra/planted_mistakes.json").read_text(encoding="utf-8"))["mistakes"]
#: files that the checks read
_READ = (".funcignore", ".github", "azure.yaml", "docs", "host.json", "host.AzureStorage.json", "infra", "protocols")


def by(finder: str) -> pytest.MarkDecorator:
    """Parametrizes a test with the rows of one finder: `compiler`, `snapshot` (our rules on it) or `files`."""
    return pytest.mark.parametrize("row", [row for row in _ROWS if row["by"] == finder], ids=lambda row: row["what"])


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
    assert every.check_files(root) == []
    return root


@contextmanager
def planted(root: Path, *rows: Row) -> Iterator[None]:
    """Yields the root with the new text of each row in place of its old text, which occurs there once."""
    before: dict[Path, str] = {}
    try:
        for row in rows:
            path = root / row["file"]
            text = path.read_text(encoding="utf-8")
            before.setdefault(path, text)
            assert text.count(row["old"]) == 1, f"{row['file']}: {row['old']!r}"
            path.write_text(text.replace(row["old"], row["new"]), encoding="utf-8")
        yield
    finally:
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")


def test_each_row_names_what_finds_it() -> None:
    """A code of the compiler, a rule on files, or a rule with the text of its finding in one deployment."""
    fields = {"compiler": {"code"}, "files": {"rule"}, "snapshot": {"rule", "deployment", "text"}}
    for row in _ROWS:
        assert row.keys() - {"batch", "seen_in"} == {"what", "file", "old", "new", "by"} | fields[row["by"]], row[
            "what"
        ]


@by("files")
def test_a_rule_on_files_finds_it(row: Row, sound: Path) -> None:
    """In the file that it was planted in."""
    with planted(sound, row):
        found = every.check_files(sound)
    assert (sound / row["file"], row["rule"]) in {(each.path, each.rule) for each in found}


@pytest.mark.needs("bicep")
@by("compiler")
def test_the_compiler_finds_it(row: Row, sound: Path, compiler: Compiler) -> None:
    """In the file that it was planted in, or in the one that uses it, under the code of the table."""
    place = sound / row.get("seen_in", row["file"])
    with planted(sound, row):
        found = compiler.check(place) or compiler.format(place)
    assert (place, row["code"]) in {(each.path, each.rule) for each in found}
    assert all(each.line > 0 and each.text for each in found)


@pytest.fixture(scope="module")
def found_together(sound: Path, compiler: Compiler) -> Callable[[Row], list[Finding]]:
    """Returns the findings for the deployment of a row, with all rows planted that do not hide each other.

    An evaluation takes 1 s of CPU: rows of one `batch` share it.
    """
    done: dict[tuple[str, int], list[Finding]] = {}

    def find(row: Row) -> list[Finding]:
        group = _group(row)
        if group not in done:
            rows = [each for each in _ROWS if each["by"] == "snapshot" and _group(each) == group]
            done[group] = _find(sound, compiler, rows)
        return done[group]

    return find


def _group(row: Row) -> tuple[str, int]:
    return row["deployment"], row.get("batch", 1)


def _find(root: Path, compiler: Compiler, rows: list[Row]) -> list[Finding]:
    with planted(root, *rows):
        snapshot = snapshots.take(compiler, root / "infra" / "bicep" / f"{rows[0]['deployment']}.bicepparam")
        return every.check_snapshot(root, snapshot)


def _has(found: list[Finding], row: Row) -> bool:
    return any(each.rule == row["rule"] and row["text"] in each.text for each in found)


@pytest.mark.needs("bicep")
@by("snapshot")
def test_a_rule_on_what_is_deployed_finds_it(row: Row, found_together: Callable[[Row], list[Finding]]) -> None:
    """In the resources of the deployment that the row names."""
    assert _has(found_together(row), row), found_together(row)


@pytest.mark.long
@pytest.mark.needs("bicep")
@by("snapshot")
def test_a_rule_finds_it_alone(row: Row, sound: Path, compiler: Compiler) -> None:
    """No row owes its finding to another one; 30 s of CPU for all."""
    assert _has(_find(sound, compiler, [row]), row)
