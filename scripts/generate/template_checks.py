"""Generates the configuration of the Bicep linter, from the decisions in infra/checks/linter_rules.json."""

from __future__ import annotations

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONFIGURATION = ROOT / "infra" / "bicep" / "bicepconfig.json"


def files() -> dict[Path, str]:
    """Returns the generated files with their text. The compiler's configuration cannot have reasons."""
    rules = {name: {"level": each["level"]} for name, each in _rules().items()}
    configuration = {"analyzers": {"core": {"enabled": True, "rules": rules}}}
    return {CONFIGURATION: json.dumps(configuration, indent=2) + "\n"}


def _rules() -> dict[str, dict[str, str]]:
    text = (ROOT / "infra" / "checks" / "linter_rules.json").read_text(encoding="utf-8")
    rules: dict[str, dict[str, str]] = json.loads(text)["rules"]
    return rules
