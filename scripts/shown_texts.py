"""Texts of the repository that people read, as `scripts/plain_english.py` checks them."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
#: pages, public docstrings, the API and parameters, except tests, decisions and a page of refused words
_NAMES = ("*.md", "*.py", "infra/*.bicep", "docs/openapi.json")
_OUT = (":!tests", ":!docs/decisions", ":!docs/contributing/words.md")
#: the command line; docstrings of its functions are help, which is imperative
_COMMANDS = "packages/lucius-client/lucius_client/cli"
#: modules whose strings are shown to users: help, log lines, metrics, settings, reasons, refusals
_MODULES = (
    _COMMANDS,
    *(f"shared/{name}.py" for name in ("settings", "access_settings", "store_settings", "setting_contradictions")),
    *(f"shared/{name}refusals.py" for name in ("", "archive_", "audit_", "webhook_")),
    *("shared/telemetry/lines.py", "shared/telemetry/metric_table.py", "shared/core/jobs/reasons.py"),
)
#: folders whose errors are details of problems, or messages to an operator
_RAISING = ("shared", "triggers")
_BICEP = re.compile(r"^@(?:sys\.)?description\('(?:''(.*?)''|((?:[^'\\]|\\.)*))'\)", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)


def shown_texts() -> Iterator[tuple[str, int, str]]:
    """Yields the file, the line (0 in a document of JSON) and each text, once for each file."""
    for name in _files(*_NAMES):
        found = {text: line for line, text in reversed(list(_texts(name, (ROOT / name).read_text("utf-8"))))}
        yield from ((name, line, text) for text, line in found.items())


def function_docstrings() -> Iterator[tuple[str, int, str]]:
    """Yields the file, the line and the docstring of each public function, except properties and commands."""
    for name in _files("*.py", f":!{_COMMANDS}"):
        for node in ast.walk(ast.parse((ROOT / name).read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                decorators = " ".join(map(ast.unparse, node.decorator_list))
                if (text := ast.get_docstring(node)) and not re.search(r"\b(property|command)\b", decorators):
                    yield name, node.body[0].lineno, text


def _files(*patterns: str) -> list[str]:
    names = ["git", "ls-files", *patterns, *_OUT]
    return subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()


def _texts(name: str, source: str) -> Iterator[tuple[int, str]]:
    if name.endswith(".py"):
        tree = ast.parse(source)
        if name.startswith(_MODULES):
            yield from _strings(tree)
        elif name.startswith(_RAISING):
            for node in ast.walk(tree):
                if isinstance(node, ast.Raise):
                    yield from _strings(node)
        yield from _docstrings(tree)
    elif name.endswith(".json"):
        yield from ((0, text) for text in _described(json.loads(source)))
    elif name.endswith(".bicep"):
        for found in _BICEP.finditer(source):
            yield source.count("\n", 0, found.start()) + 1, found[1] or found[2]
    else:
        line = 1
        for paragraph in re.split(r"(?<=\n)(?=\n|[ \t]*(?:[-*|#]|\d+\.) )", _CODE.sub(_blank, source)):
            yield line, paragraph
            line += paragraph.count("\n")


def _blank(block: re.Match[str]) -> str:
    return "\n" * block[0].count("\n")


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
