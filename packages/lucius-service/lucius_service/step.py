"""The interface of a service: a team writes a `Step`, which gets a `Task` and returns an `Outcome`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from lucius_service.directive import Directive
from lucius_service.errors import PAYLOAD_INVALID, FailedFinal
from lucius_service.workspace_io import Document, Workspace

_Model = TypeVar("_Model", bound=BaseModel)


@dataclass(frozen=True)
class Task:
    """One attempt to work on."""

    directive: Directive
    #: the payload as `Step.validate` returned it
    payload: Any
    workspace: Workspace
    #: call it with the progress (0 to 1) and a note for people; the next heartbeat carries both
    report: Callable[[float, str], None]

    def read_input(self) -> Document:
        """Reads the blob at `input_ref`. Raises StepFailed."""
        return self.workspace.read(self.directive.input_ref.uri)

    def write(self, name: str, data: bytes, content_type: str) -> str:
        """Writes an artefact under `workspace_ref` and returns its uri. Raises StepFailed."""
        return self.workspace.write(self.directive.workspace_ref.uri, name, data, content_type)


@dataclass(frozen=True)
class Outcome:
    """The result of a step that succeeded."""

    #: uri of the artefact that the next step reads
    result_ref: str
    #: a few numbers about the work, for people; keep it small
    metrics: dict[str, Any] = field(default_factory=dict)


class Step(Protocol):
    """One kind of work. `execute` runs on worker threads, so it may compute and block."""

    #: the step type of protocols and directives, in upper case; the subscription has the same name in lower case
    step_type: str

    def prepare(self) -> None:
        """Loads models. Called once, before the service is ready."""

    def validate(self, payload: Any) -> Any:
        """Returns the payload in the form that `execute` reads. Raises FailedFinal(PAYLOAD_INVALID)."""

    def execute(self, task: Task) -> Outcome:
        """Does the work. Raises FailedFinal or FailedRetry."""


def read_payload(model: type[_Model], payload: Any) -> _Model:
    """Validates a payload by a pydantic model; None counts as `{}`. Raises FailedFinal with the first wrong field."""
    try:
        return model.model_validate({} if payload is None else payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "payload"
        raise FailedFinal(PAYLOAD_INVALID, f"{where}: {first['msg']}") from None
