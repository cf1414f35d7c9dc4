"""What checks the templates: the linter's rules and how each is decided, planted mistakes and what finds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.generate.tables import markdown_table

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "infra" / "bicep" / "bicepconfig.json"


def files() -> dict[Path, str]:
    """The generated files with their text: the compiler's configuration has no room for reasons."""
    rules = {name: {"level": each["level"]} for name, each in _rules().items()}
    configuration = {"analyzers": {"core": {"enabled": True, "rules": rules}}}
    return {CONFIGURATION: json.dumps(configuration, indent=2) + "\n"}


def _rules() -> dict[str, dict[str, str]]:
    rules: dict[str, dict[str, str]] = _read("infra/checks/linter_rules.json")["rules"]
    return rules


def _rule_table() -> str:
    rows = [
        (f"`{name}`", each["default"], each["level"], each["reason"])
        for name, each in _rules().items()
        if "reason" in each
    ]
    return markdown_table(("rule", "by default", "here", "why"), rows)


def _mistake_table() -> str:
    finders = {"compiler": "compiler", "snapshot": "rule on what is deployed", "files": "rule on files"}
    rows = [
        (each["what"], finders[each["by"]], f"`{each['code' if each['by'] == 'compiler' else 'rule']}`")
        for each in _read("tests/infra/planted_mistakes.json")["mistakes"]
    ]
    return markdown_table(("mistake", "found by", "code or rule"), rows)


def _read(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


PARTS = {"linter-rules": _rule_table, "planted-mistakes": _mistake_table}
