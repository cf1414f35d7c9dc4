"""Checks that no identifier contains a word that docs/contributing/words.md retired (`make lint`)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_DEFINE = {ast.FunctionDef: "name", ast.AsyncFunctionDef: "name", ast.ClassDef: "name", ast.arg: "arg"}
_STORE = {ast.Name: "id", ast.Attribute: "attr"}


def retired_words(words: str) -> dict[str, str]:
    """Returns the replacement of each retired word in the text of words.md."""
    return dict(re.findall(r"^\| ([a-z]+) \| (.+) \|$", words.partition("| retired word |")[2], re.MULTILINE))


def findings(source: str, retired: dict[str, str]) -> Iterator[str]:
    """Yields line, identifier and advice for every name that is defined or assigned with a retired word in it."""
    for node in ast.walk(ast.parse(source)):
        stored = isinstance(getattr(node, "ctx", None), ast.Store)
        attribute = _DEFINE.get(type(node)) or (_STORE.get(type(node)) if stored else None)
        name = getattr(node, attribute) if attribute else ""
        if f'{name} = "{name}"' in source:
            continue  # a member of an enum that is named as its stored value
        for word in retired.keys() & {word.lower() for word in _WORD.findall(name)}:
            yield f"{getattr(node, 'lineno', 0)}: {name}: instead of {word!r}: {retired[word]}"


def main() -> int:
    """Prints the findings. Returns 1 if any finding exists, else 0."""
    retired = retired_words((ROOT / "docs" / "contributing" / "words.md").read_text("utf-8"))
    files = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wrong = [f"{name}:{each}" for name in files.split() for each in findings((ROOT / name).read_text("utf-8"), retired)]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
