"""Every race that a comment or docstring of the app names has a test that names it, and no other race has one."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

from tests.jobs import ROOT

APP = ("shared", "activities", "orchestrations", "triggers")
NAMED = re.compile(r"\bRace ([a-z]+(?:-[a-z]+)*)")


def comments(path: Path) -> Iterator[str]:
    """Yields each docstring, and each run of comment lines, as one line of text."""
    source = path.read_text()
    if "Race" not in source:
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield " ".join((ast.get_docstring(node) or "").split())
    run: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            if token.start[0] != last + 1:
                yield " ".join(run)
                run = []
            run.append(token.string.lstrip("#: "))
            last = token.start[0]
    yield " ".join(run)


def named(folders: tuple[str, ...]) -> dict[str, list[str]]:
    """Races by name, with the files that name them."""
    found: dict[str, list[str]] = {}
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for text in comments(path) if path != Path(__file__) else ():
                for name in NAMED.findall(text):
                    found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def test_every_named_race_has_a_test() -> None:
    """By its name; a test of a race that the code does not know is out of date."""
    code, tests = named(APP), named(("tests",))
    assert len(code) > 15
    assert {name: code[name] for name in set(code) - set(tests)} == {}, "these races have no test"
    assert {name: tests[name] for name in set(tests) - set(code)} == {}, "no comment of the app names these"
