"""`make lint`: no text for users has a phrase that docs/contributing/words.md refuses."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: pages for users, and modules whose strings are shown to them: help, log lines, metrics, settings, reasons
_PAGES = ("README.md", "docs/index.md", "docs/start", "docs/guides", "docs/reference", "docs/explanation")
_MODULES = (
    "packages/lucius-client/lucius_client/cli",
    *(f"shared/{name}.py" for name in ("settings", "access_settings", "store_settings")),
    *("shared/refusals.py", "shared/archive_refusals.py", "shared/setting_contradictions.py"),
    *("shared/telemetry/lines.py", "shared/telemetry/metric_table.py", "shared/core/jobs/reasons.py"),
)
#: folders whose errors are details of problems, or messages to an operator
_RAISING = ("shared", "triggers")
#: packages with public docstrings
_PACKAGES = tuple(f"packages/lucius-{name}" for name in ("client", "service", "checkout"))
_DOCUMENT = "docs/openapi.json"
_OPENINGS = '^ *"""((How|What|Where|Who)(ever)?|Whether|Which|Whose|Why|Nobody|Somebody) '


def refused_phrases(words: str) -> re.Pattern[str]:
    """Returns a pattern of the refused phrases in the text of words.md; `*` is the rest of a word."""
    table = words.partition("| refused phrase |")[2].partition("\n\n")[0]
    phrases = re.findall(r"^\| ([a-z*' /]+?) \|", table, re.MULTILINE)
    each = [re.escape(part).replace(r"\*", r"\w*") for phrase in phrases for part in phrase.split(" / ")]
    return re.compile(rf"\b({'|'.join(each)})\b", re.IGNORECASE)


def texts_of(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of each text that a file shows to users; code of a page and JSON keys are left out."""
    if name.endswith(".py"):
        tree = ast.parse(source)
        if name.startswith(_MODULES):
            yield from _strings(tree)
        elif name.startswith(_RAISING):
            for node in ast.walk(tree):
                if isinstance(node, ast.Raise):
                    yield from _strings(node)
        if name.startswith(_PACKAGES):
            yield from _docstrings(tree)
    elif name == _DOCUMENT:
        for text in _described(json.loads(source)):
            yield 0, text
    else:
        plain = re.sub(
            r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE
        )
        yield from enumerate(re.sub(r"`[^`\n]*`", "", plain).splitlines(), 1)


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def _docstrings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if not getattr(node, "name", "").startswith("_") and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text


def _described(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from (document[key] for key in ("summary", "description") if isinstance(document.get(key), str))
        document = list(document.values())
    if isinstance(document, list):
        for each in document:
            yield from _described(each)


def main() -> int:
    """Prints the refused phrases and openings of docstrings. Returns 1 if there are any."""
    refused = refused_phrases((ROOT / "docs" / "contributing" / "words.md").read_text("utf-8"))
    pages = (f"{each}/*.md" if "." not in each else each for each in _PAGES)
    names = ["git", "ls-files", *pages, *_MODULES, *(f"{each}/*.py" for each in (*_RAISING, *_PACKAGES)), _DOCUMENT]
    files = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    wrong = [
        f"{name}:{line}: {phrase[0]!r}"
        for name in sorted(set(files))
        for line, text in texts_of(name, (ROOT / name).read_text("utf-8"))
        for phrase in refused.finditer(text)
    ]
    openings = ["git", "grep", "-nE", _OPENINGS, "--", "*.py"]
    wrong += subprocess.run(openings, cwd=ROOT, capture_output=True, text=True, check=False).stdout.splitlines()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
