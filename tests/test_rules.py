"""The rules and races of docs/contributing/rules.md, and their citations."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIFECYCLE = ROOT / "docs" / "contributing" / "rules.md"
SKIPPED = {"node_modules", "__pycache__"}
SUFFIXES = {".py", ".bicep", ".md"}
RULE = r"\bR[1-9]\d?\b"
#: a rule: id, modules, tests
SECTION = re.compile(r"^### (R\d+)\n\n(?:(?!#).*\n)+?\*Where\*: (.*)\n\n\*Held by\*: (.*)$", re.MULTILINE)
RACE = re.compile(r"^\| ([a-z-]+) \|", re.MULTILINE)


@cache
def texts() -> dict[str, str]:
    """Text of every source and document, by path."""
    found: dict[str, str] = {}
    folders = [ROOT]
    while folders:
        for path in folders.pop().iterdir():
            if path.is_dir():
                if path.name not in SKIPPED and not path.is_symlink() and not path.name.startswith("."):
                    folders.append(path)
            elif path.suffix in SUFFIXES:
                found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
    return found


def cited(pattern: str) -> dict[str, list[str]]:
    """Returns files outside docs/contributing/rules.md and this one by the rules that they cite."""
    found: dict[str, list[str]] = {}
    for name, text in texts().items():
        if ROOT / name not in (LIFECYCLE, Path(__file__)):
            for one in set(re.findall(pattern, text)):
                found.setdefault(one, []).append(name)
    return found


def rules() -> dict[str, list[str]]:
    """Paths of its modules and tests, by rule."""
    return {
        rule: re.findall(r"`([^`]+)`", f"{where} {test}")
        for rule, where, test in SECTION.findall(LIFECYCLE.read_text())
    }


def test_every_cited_rule_exists() -> None:
    """In sources and documents."""
    known = rules()
    assert len(known) > 40
    assert {rule: files for rule, files in cited(RULE).items() if rule not in known} == {}


def test_every_rule_is_cited_by_a_source() -> None:
    """A rule that only documents cite has no code."""
    sources = {rule for rule, files in cited(RULE).items() if any(not name.endswith(".md") for name in files)}
    assert sorted(set(rules()) - sources) == []


def test_every_rule_names_its_module_and_its_test() -> None:
    """Every path of a rule exists, and one of them is a test."""
    for rule, paths in rules().items():
        assert any(path.startswith("tests/") for path in paths), rule
        assert [path for path in paths if not (ROOT / path).exists()] == [], rule


def test_every_cited_race_is_in_the_table() -> None:
    """And the table has no other race."""
    section = LIFECYCLE.read_text().split("\n## Races\n")[1].split("\n## ")[0]
    table = set(RACE.findall(section)) - {"race"}
    races = set(cited(r"\bRace ([a-z]+(?:-[a-z]+)*)"))
    assert races == table
