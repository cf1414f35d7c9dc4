"""Every race that a comment or docstring of the app names has a test that names it too, and the other way round."""

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
#: words of whoever thinks of a race; such a comment must name it
SPOKEN_OF = re.compile(
    r"\b(races?|racing|meanwhile|at the same (?:time|moment|instant)|was faster|concurrent\w*)\b", re.I
)
#: (file, words): they stand there for something else
NO_RACE = {
    ("shared/contracts/protocol.py", "groups of neighbouring steps that run at the same time"),
    ("shared/core/job.py", "The steps that run at the same time as `step`"),
    ("shared/views/explain.py", "nothing is in flight meanwhile"),
}


def told(path: Path) -> Iterator[str]:
    """Each docstring, and each run of comment lines, as one line of text."""
    source = path.read_text()
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
            for text in told(path) if path != Path(__file__) else ():
                for name in NAMED.findall(text):
                    found.setdefault(name, []).append(str(path.relative_to(ROOT)))
    return found


def test_every_named_race_has_a_test() -> None:
    """By its name; a test of a race that the code does not know is out of date."""
    code, tests = named(APP), named(("tests",))
    assert len(code) > 15
    assert {name: code[name] for name in set(code) - set(tests)} == {}, "these races have no test"
    assert {name: tests[name] for name in set(tests) - set(code)} == {}, "no comment of the app names these"


def test_who_speaks_of_a_race_names_it() -> None:
    """A comment that tells of two things at the same time says which race that is."""
    nameless = []
    for folder in APP:
        for path in sorted((ROOT / folder).rglob("*.py")):
            file = str(path.relative_to(ROOT))
            for text in told(path):
                excused = any(name == file and words in text for name, words in NO_RACE)
                if SPOKEN_OF.search(text) and not NAMED.search(text) and not excused:
                    nameless.append(f"{file}: {text}")
    assert nameless == []
