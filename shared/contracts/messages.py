"""Messages on Service Bus: directives and replies.

`jobId` and `stepId` are camelCase, all other names snake_case. Unknown fields are ignored, so either side may add some.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from shared.contracts.instant import SentAt
from shared.contracts.reference import LooseReference, Reference

ReplyType = Literal["ACK", "HEARTBEAT", "RESULT"]
ResultStatus = Literal["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"]

_Id = Annotated[str, Field(min_length=1, max_length=256)]
#: Edm.Int32, the column that it is compared with and kept in
_MAX_ATTEMPT_NO = 2**31 - 1


class Callbacks(BaseModel):
    """Where a service off the bus replies, and with what."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    ack: str
    result: str
    heartbeat: str
    token: str = Field(repr=False)
    """For `Authorization: Bearer`; bound to this attempt, and a secret of the service's."""


class Directive(BaseModel):
    """One attempt of one step, sent to the platform service that owns the step."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    type: Literal["DIRECTIVE"] = "DIRECTIVE"
    jobId: str
    tenant_id: str
    stepId: str
    protocol_id: str
    step_type: str
    attempt_no: int
    """From 1."""
    lease_id: str
    """The right to this attempt; every reply names it."""
    input_ref: Reference
    """What to work on: the job's document, or what the step before made."""
    workspace_ref: Reference
    """This attempt's own folder."""
    output_ref: Reference
    """Where the caller wants the job's output."""
    payload: Any
    """The step's part of the job's payload."""
    mode: str
    lane: int
    """Replies go to the reply topic of the same lane."""
    routing_key_used: str
    correlation_id: str | None = None
    traceparent: str | None = None
    callback_urls: Callbacks | None = None
    """Only where callbacks are on."""


class ReplyError(BaseModel):
    """Why a step failed, in the service's words."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: Annotated[str, Field(min_length=1, max_length=128)] = "UNSPECIFIED"
    message: str = ""


def _or_none(value: Any) -> Any:
    return value if isinstance(value, str) else None


class Reply(BaseModel):
    """ACK, HEARTBEAT or RESULT. Only the JSON body counts."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    type: ReplyType
    jobId: _Id
    stepId: _Id
    tenant_id: _Id
    attempt_no: Annotated[int, Field(ge=1, le=_MAX_ATTEMPT_NO)]
    lease_id: _Id
    timestamp: SentAt | None = None
    correlation_id: str | None = None
    traceparent: Annotated[str | None, BeforeValidator(_or_none, json_schema_input_type=Any)] = None
    """W3C Trace Context of the span that sent it; what is none is ignored."""

    status: ResultStatus | None = None
    """RESULT only."""
    error: ReplyError | None = None
    """RESULT only: why it failed."""
    result_ref: LooseReference | None = Field(default=None, validation_alias=AliasChoices("result_ref", "output_ref"))
    """RESULT only: what the step made; the next step's `input_ref`."""
    metrics: dict[str, Any] | None = None
    """RESULT only."""

    progress: Any = None
    """ACK and HEARTBEAT only."""
    note: str | None = None
    """ACK and HEARTBEAT only."""

    @model_validator(mode="before")
    @classmethod
    def _legacy_forms(cls, value: Any) -> Any:
        """The older forms: `status=ACKED`, and `status=FAILED` with a `failure_class`."""
        if not isinstance(value, dict):
            return value
        reply = dict(value)
        status = reply.get("status")
        if status == "ACKED":
            reply.setdefault("type", "ACK")
        elif status == "FAILED":
            reply.setdefault("type", "RESULT")
            failure_class = str(reply.get("failure_class", "")).upper().replace("-", "_")
            reply["status"] = "FAILED_FINAL" if failure_class == "NON_RETRYABLE" else "FAILED_RETRY"
        if reply.get("type") != "RESULT":
            reply.pop("status", None)
        return reply

    @model_validator(mode="after")
    def _result_has_status(self) -> Reply:
        if self.type == "RESULT" and self.status is None:
            raise ValueError("a RESULT needs a status: SUCCEEDED, FAILED_RETRY or FAILED_FINAL")
        return self
