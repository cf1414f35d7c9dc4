"""The interface of a service: a team writes a `Step`, which gets a `Task` and returns an `Outcome`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from lucius_service.directive import Directive
from lucius_service.errors import PAYLOAD_INVALID, REF_UNSUPPORTED, FailedFinal
from lucius_service.workspace_io import Document, Workspace

_Model = TypeVar("_Model", bound=BaseModel)


class Watch(Protocol):
    """The link between the work and its attempt. A `Watch` takes reports of progress, and signals the cancellation of
    the work. Thread-safe.
    """

    def report(self, progress: float, note: str) -> None: ...

    def still_working(self) -> None: ...

    def log(self, line: str) -> None: ...

    @property
    def cancelled(self) -> bool: ...


@dataclass(frozen=True)
class Artifact:
    """An additional output blob, listed in RESULT."""

    name: str
    uri: str
    media_type: str
    #: size in bytes
    size: int
    #: SHA-256 in hex
    sha256: str


@dataclass
class Task:
    """One attempt to work on."""

    directive: Directive
    #: payload as returned by `Step.validate`
    payload: Any
    workspace: Workspace
    watch: Watch
    #: artifacts written so far, for the RESULT
    artifacts: list[Artifact] = field(default_factory=list)
    #: `sha256:{hex}` of each input that was read, by `input_ref` or the step of the result
    input_digests: dict[str, str] = field(default_factory=dict)
    #: `sha256:{hex}` of each written blob, by its URI
    written: dict[str, str] = field(default_factory=dict)

    def report(self, progress: float, note: str) -> None:
        """Sets the progress (0 to 1) and a note for people. The next heartbeat has both."""
        self.watch.report(progress, note)

    def still_working(self) -> None:
        """Reports that the work continues, without a progress value. The limit `silent_s` counts from this report."""
        self.watch.still_working()

    def log(self, line: str) -> None:
        """Writes a record to the service's log, with the ids of the attempt. Cuts the text at 2,000 characters."""
        self.watch.log(line)

    @property
    def cancelled(self) -> bool:
        """Returns True if the work must stop: a limit is reached, or a newer attempt of the step has begun. The work
        must then return or raise.

        If replies use HTTP, also returns True after LUCIUS refuses a reply. The same applies after LUCIUS responds that
        the job is CANCELLING, or that the job or the attempt has ended.
        """
        return self.watch.cancelled

    def read_input(self, step_id: str | None = None) -> Document:
        """Reads the blob at `input_ref`, or the result of a step of the previous group. Raises StepFailed."""
        if step_id is None:
            uri = self.directive.input_ref.uri
        elif (reference := self.directive.input_refs.get(step_id)) is not None:
            uri = reference.uri
        else:
            raise FailedFinal(REF_UNSUPPORTED, f"the directive has no input of the step {step_id}")
        self.workspace.check_reference(uri, self.directive.workspace_ref.uri)
        document = self.workspace.read(uri, self.directive.tenant_id)
        self.input_digests[step_id or "input_ref"] = _digest(document.data)
        return document

    def write(self, name: str, data: bytes, content_type: str) -> str:
        """Writes a blob under `workspace_ref` and returns its URI. Raises StepFailed if the write fails."""
        uri = self.workspace.write(self.directive.workspace_ref.uri, name, data, content_type)
        self.written[uri] = _digest(data)
        return uri

    def artifact(self, name: str, data: bytes, media_type: str = "application/octet-stream") -> str:
        """Writes the blob `artifacts/{name}` under `workspace_ref` and returns its URI. Raises StepFailed.

        The RESULT lists the artifact. A second write with the same name replaces the artifact.
        """
        uri = self.write(f"artifacts/{name}", data, media_type)
        self.artifacts = [each for each in self.artifacts if each.name != name]
        self.artifacts.append(Artifact(name, uri, media_type, len(data), self.written[uri].removeprefix("sha256:")))
        return uri


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


@dataclass(frozen=True)
class Outcome:
    """The result of a successful step."""

    #: URI of the result's blob, which the next step reads
    result_ref: str
    #: a few numbers about the work, for people
    metrics: dict[str, Any] = field(default_factory=dict)


class Step(Protocol):
    """The work of one step type.

    A class may declare more attributes, which `declared` reads: `isolation`, `silent_s`, `subscription`, `result_name`
    and the function `heartbeat_s`.
    """

    #: step type in protocols and directives, in upper case
    step_type: str

    def prepare(self) -> None:
        """Loads models. The SDK calls `prepare` once in each process that executes work, before its first
        work.
        """

    def validate(self, payload: Any) -> Any:
        """Returns the payload in the form that `execute` reads. Raises FailedFinal(PAYLOAD_INVALID)."""

    def execute(self, task: Task) -> Outcome:
        """Does the work, on its own thread or in a child process. The work can compute and block. Raises FailedFinal
        or FailedRetry.
        """


@dataclass(frozen=True)
class Declared:
    """The attributes that a step's class declares."""

    #: `process`: the work runs in a child process, which is killed if it does not stop at a limit. `thread`: it runs in
    #: the service's own process; work that does not stop continues until the process ends
    isolation: Literal["thread", "process"] = "thread"
    #: seconds without `report`, `log` or `still_working` after which the work counts as hung; None disables this check
    silent_s: float | None = None
    #: name of the service in the topology of the bus; "": the step type in lower case
    subscription: str = ""
    #: returns the seconds between heartbeats for a payload, which may be invalid; None means those of the settings
    heartbeat_s: Callable[[Any], float | None] | None = None
    #: name of the result's blob under `workspace_ref`, whose metadata then has the RESULT of a successful attempt. With
    #: "" each attempt writes a blob of its own for its RESULT
    result_name: str = ""


def declared(step: Step) -> Declared:
    """Returns the attributes of a step's class. Raises ValueError if an attribute has an invalid value."""
    isolation = getattr(step, "isolation", Declared.isolation)
    silent_s = getattr(step, "silent_s", Declared.silent_s)
    if isolation not in ("thread", "process"):
        raise ValueError(f"isolation is {isolation!r}; it must be 'thread' or 'process'")
    if silent_s is not None and not (isinstance(silent_s, int | float) and silent_s > 0):
        raise ValueError(f"silent_s is {silent_s!r}; it must be a number above 0, or None")
    subscription = getattr(step, "subscription", "") or step.step_type.lower()
    result_name = getattr(step, "result_name", Declared.result_name)
    if not isinstance(result_name, str):
        raise ValueError(f"result_name is {result_name!r}; it must be a string")
    return Declared(isolation, silent_s, subscription, getattr(step, "heartbeat_s", None), result_name)


def read_payload(model: type[_Model], payload: Any) -> _Model:
    """Validates a payload with a pydantic model. The payload None counts as `{}`. Raises FailedFinal with the first
    invalid field.
    """
    try:
        return model.model_validate({} if payload is None else payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "payload"
        raise FailedFinal(PAYLOAD_INVALID, f"{where}: {first['msg']}") from None
