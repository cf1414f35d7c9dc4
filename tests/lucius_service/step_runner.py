"""Runs one step on real blobs, without the bus."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from lucius_service.directive import Directive
from lucius_service.step import Outcome, Step, Task
from lucius_service.testing import Heard
from lucius_service.workspace_io import Workspace
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import new_directive


@dataclass
class StepRun:
    """A step that succeeded."""

    outcome: Outcome
    #: the artefact at `result_ref`
    result: dict[str, Any]
    #: (progress, note) of each report
    reports: list[tuple[float, str]]


@dataclass
class StepRunner:
    """Runs steps in a workspace of `account`."""

    account: BlobAccount
    workspace: Workspace

    def run(self, step: Step, source: bytes | str, payload: Any = None, name: str = "input") -> StepRun:
        """`source` is the content of a document, or the uri of a blob. Raises StepFailed."""
        uri = source if isinstance(source, str) else self.account.upload(f"{uuid4()}/{name}", source)
        fields = new_directive(self.account, step.step_type, input_ref={"uri": uri})
        watch = Heard()
        task = Task(Directive.model_validate(fields), step.validate(payload), self.workspace, watch)
        outcome = step.execute(task)
        return StepRun(outcome, json.loads(self.account.download(outcome.result_ref)), watch.reports)

    def artefact(self, run: StepRun, name: str) -> bytes:
        """Another artefact in the folder of the result."""
        return self.account.download(run.outcome.result_ref.rsplit("/", 1)[0] + "/" + name)
