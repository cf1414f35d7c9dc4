"""One step's work on real blobs, without the bus."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from lucius_service.directive import Directive
from lucius_service.step import Outcome, Step, Task
from lucius_service.workspace_io import Workspace
from tests.lucius_service.invoker import Invoker


@dataclass
class StepRun:
    outcome: Outcome
    #: the artefact that `result_ref` names
    result: dict[str, Any]
    reports: list[tuple[float, str]] = field(default_factory=list)


@dataclass
class StepRunner:
    """Where steps are run."""

    invoker: Invoker
    workspace: Workspace

    def run(self, step: Step, source: bytes | str, payload: Any = None, name: str = "input") -> StepRun:
        """`source` is a document's bytes, or the uri of a blob. Raises StepFailed."""
        uri = source if isinstance(source, str) else self.invoker.upload(f"{uuid4()}/{name}", source)
        directive = Directive.model_validate(self.invoker.directive(step.step_type, input_ref={"uri": uri}))
        reports: list[tuple[float, str]] = []
        task = Task(
            directive, step.validate(payload), self.workspace, lambda share, note: reports.append((share, note))
        )
        outcome = step.execute(task)
        return StepRun(outcome, json.loads(self.invoker.download(outcome.result_ref)), reports)

    def artefact(self, done: StepRun, name: str) -> bytes:
        """Another artefact beside the result."""
        return self.invoker.download(done.outcome.result_ref.rsplit("/", 1)[0] + "/" + name)
