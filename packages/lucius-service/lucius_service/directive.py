"""The directive, and its validation (docs/asyncapi.json, message `directive`)."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

#: prefix of a lane's topic, followed by the lane's number
DIRECTIVE_TOPIC_PREFIX = "global-bus-p"

_Id = Annotated[str, Field(min_length=1, max_length=256)]


class Reference(BaseModel):
    """The URI of a blob or a folder, as in `{"uri": "http://127.0.0.1:10000/devstoreaccount1/documents/a.pdf"}`."""

    model_config = ConfigDict(frozen=True)

    uri: Annotated[str, Field(min_length=1, max_length=8192)]


def _as_reference(value: Any) -> Any:
    return {"uri": value} if isinstance(value, str) else value


_Reference = Annotated[Reference, BeforeValidator(_as_reference)]


class Callbacks(BaseModel):
    """The URLs for replies over HTTP, and the token of the attempt."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    ack: str
    result: str
    heartbeat: str
    #: secret for `Authorization: Bearer`
    token: Annotated[str, Field(repr=False)]


class Directive(BaseModel):
    """An order to work on one attempt of one step. Unknown fields are ignored, so that LUCIUS can add fields."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: Literal["DIRECTIVE"] = "DIRECTIVE"
    jobId: _Id
    tenant_id: _Id
    stepId: _Id
    step_type: _Id
    attempt_no: Annotated[int, Field(ge=1, strict=True)]
    lease_id: Annotated[_Id, Field(repr=False)]
    input_ref: _Reference
    workspace_ref: _Reference
    #: results of the steps of the parallel group before this step, by step id; empty if no group is before this step
    input_refs: dict[str, _Reference] = Field(default_factory=dict)
    #: URI for the job's result that the caller named: a folder, or a blob if its last segment has a dot
    output_ref: _Reference | None = None
    #: `True` if the step's result is the job's: it is copied to `output_ref`
    final: bool = False
    #: position of the step in the last parallel group of the job, from 0; 0 if it is the only last step
    final_index: Annotated[int, Field(ge=0, strict=True)] = 0
    #: id of the first job in the chain of redrives; None if the job is not a redrive
    first_job_id: _Id | None = None
    callback_urls: Callbacks | None = None
    payload: Any = None
    lane: Annotated[int, Field(ge=0, strict=True)]
    correlation_id: str | None = None
    traceparent: str | None = None

    @property
    def key(self) -> str:
        """Returns the SHA-256 of jobId, stepId, attempt_no and lease_id. Directives with the same key order the same
        attempt.
        """
        parts = "\x00".join((self.jobId, self.stepId, str(self.attempt_no), self.lease_id))
        return hashlib.sha256(parts.encode()).hexdigest()

    @property
    def lease_digest(self) -> str:
        """Returns `sha256:{hex}` of the lease for logs and spans, since the lease itself is a secret."""
        return f"sha256:{hashlib.sha256(self.lease_id.encode()).hexdigest()}"


class DirectiveRefused(Exception):
    """The message is not a valid directive for this service. The service dead-letters the message."""

    def __init__(self, reason: str, description: str) -> None:
        super().__init__(description)
        self.reason = reason
        self.description = description


def read_directive(body: bytes, step_type: str, lanes: int) -> Directive:
    """Parses the body of a message. `step_type` is in upper case. `lanes` is the number of lanes.

    Raises DirectiveRefused for an invalid body, another step type, or a lane that does not exist. The error of an
    invalid body names the first invalid field, without its content.
    """
    try:
        directive = Directive.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "body"
        raise DirectiveRefused("DirectiveMalformed", f"{where}: {first['msg']}"[:1000]) from None
    if directive.step_type.upper() != step_type:
        raise DirectiveRefused("DirectiveMisrouted", f"step_type is {directive.step_type[:64]}, not {step_type}")
    if directive.lane >= lanes:
        raise DirectiveRefused("DirectiveMalformed", f"lane is {directive.lane}, not 0 to {lanes - 1}")
    return directive
