"""The workflows of GitHub Actions, read as GitHub does: dependencies of jobs, and commands of steps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from tests.jobs import ROOT

FOLDER = ROOT / ".github" / "workflows"


def load(name: str) -> dict[Any, Any]:
    workflow: dict[Any, Any] = yaml.safe_load((FOLDER / f"{name}.yml").read_text())
    # YAML reads `on` as true
    workflow["on"] = workflow.pop(True)
    return workflow


def waits_for(workflow: dict[Any, Any], job: str) -> set[str]:
    """The jobs that have ended before it begins."""
    needs = workflow["jobs"][job].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(waits_for(workflow, each) for each in direct))


def signs_in(job: dict[str, Any]) -> bool:
    return any(step.get("uses", "").startswith("azure/login@") for step in job.get("steps", []))


def command(job: dict[str, Any], step: str, values: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Returns the command of a step, and its environment.

    `values` has the values of expressions; another name is empty.
    """
    found = next(each for each in job["steps"] if step in (each.get("name"), each.get("run")))
    return found["run"], {name: _value(str(text), values) for name, text in found.get("env", {}).items()}


def _value(text: str, values: Mapping[str, str]) -> str:
    """`${{ a.b || 'c' }}`: the first that is not empty."""
    expression = re.fullmatch(r"\$\{\{ (.*) \}\}", text)
    if not expression:
        return text
    parts = [part.strip() for part in expression[1].split("||")]
    return next(filter(None, (part[1:-1] if part[0] == "'" else values.get(part, "") for part in parts)), "")
