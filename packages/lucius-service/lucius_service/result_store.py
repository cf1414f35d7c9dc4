"""The RESULT of an attempt, kept beside its artefacts, so that a duplicate is answered and not worked on again.

One blob an attempt, `.attempt/{key}.json` under its `workspace_ref`, written before the RESULT is published. It
survives a restart and is seen by every replica; of two that worked on the same attempt the first one's stands.
"""

from __future__ import annotations

import json
from typing import Any

from lucius_service.directive import Directive
from lucius_service.workspace_io import Workspace


class ResultStore:
    """Synchronous: called from worker threads. Every method raises StepFailed where storage fails."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def find(self, directive: Directive) -> dict[str, Any] | None:
        """The RESULT that this attempt ended with; None: it has not ended."""
        stored = self._workspace.find(directive.workspace_ref.uri, _name(directive))
        return None if stored is None else _object(stored)

    def keep(self, directive: Directive, result: dict[str, Any]) -> dict[str, Any]:
        """Keeps `result` unless there is one already; gives the one that stands."""
        body = json.dumps(result, ensure_ascii=False).encode()
        return _object(
            self._workspace.write_once(directive.workspace_ref.uri, _name(directive), body, "application/json")
        )


def _name(directive: Directive) -> str:
    return f".attempt/{directive.key}.json"


def _object(body: bytes) -> dict[str, Any]:
    value = json.loads(body)
    if not isinstance(value, dict):
        raise ValueError("the stored RESULT is not a JSON object")
    return value
