"""What a team writes: a `Step`. What it gets: a `Task`. What it gives back: an `Outcome`."""

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
    #: what `Step.validate` made of the directive's payload
    payload: Any
    workspace: Workspace
    #: tells how far the work is (0 to 1) and what it is at; the next heartbeat carries it
    report: Callable[[float, str], None]

    def read_input(self) -> Document:
        """The blob that `input_ref` names. Raises StepFailed."""
        return self.workspace.read(self.directive.input_ref.uri)

    def write(self, name: str, data: bytes, content_type: str) -> str:
        """Writes an artefact under `workspace_ref` and gives its uri. Raises StepFailed."""
        return self.workspace.write(self.directive.workspace_ref.uri, name, data, content_type)


@dataclass(frozen=True)
class Outcome:
    """A step that succeeded."""

    #: uri of the artefact that the next step reads
    result_ref: str
    #: numbers about the work, for people; a few, small
    metrics: dict[str, Any] = field(default_factory=dict)


class Step(Protocol):
    """One kind of work. Called on worker threads, so it may compute and block."""

    #: as in protocols and directives, upper case; the subscription is its lower case
    step_type: str

    def prepare(self) -> None:
        """Loads models, once, before the service says that it is ready."""

    def validate(self, payload: Any) -> Any:
        """Gives the payload in the shape `execute` wants. Raises FailedFinal(PAYLOAD_INVALID)."""

    def execute(self, task: Task) -> Outcome:
        """Does the work. Raises FailedFinal or FailedRetry."""


def read_payload(model: type[_Model], payload: Any) -> _Model:
    """No payload is an empty one. Raises FailedFinal, naming the first field that is wrong."""
    try:
        return model.model_validate({} if payload is None else payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "payload"
        raise FailedFinal(PAYLOAD_INVALID, f"{where}: {first['msg']}") from None
