"""What travels on Service Bus (S0 11, S3 5; CONTRACT "Service Bus").

Names on the wire are the sources' own: `jobId` and `stepId`, all else snake_case. Unknown fields are ignored,
so that either side may add some.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, AwareDatetime, BaseModel, ConfigDict, Field, model_validator

from shared.contracts.reference import LooseReference, Reference

ReplyType = Literal["ACK", "HEARTBEAT", "RESULT"]
ResultStatus = Literal["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"]

_Id = Annotated[str, Field(min_length=1, max_length=256)]


class Callbacks(BaseModel):
    """Where a service off the bus replies, and with what (FEATURES D14)."""

    model_config = ConfigDict(frozen=True)

    ack: str
    result: str
    heartbeat: str
    #: for `Authorization: Bearer`; bound to this attempt, and a secret of the service's
    token: str = Field(repr=False)


class Directive(BaseModel):
    """One attempt of one step, sent to the platform service that owns the step (S0 11.1)."""

    model_config = ConfigDict(frozen=True)

    type: Literal["DIRECTIVE"] = "DIRECTIVE"
    jobId: str
    tenant_id: str
    stepId: str
    protocol_id: str
    step_type: str
    attempt_no: int
    lease_id: str
    input_ref: Reference
    workspace_ref: Reference
    output_ref: Reference
    payload: Any
    mode: str
    lane: int
    routing_key_used: str
    correlation_id: str | None = None
    traceparent: str | None = None
    #: only where callbacks are on
    callback_urls: Callbacks | None = None


class ReplyError(BaseModel):
    """Why a step failed, in the service's words."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: Annotated[str, Field(min_length=1, max_length=128)] = "UNSPECIFIED"
    message: str = ""


class Reply(BaseModel):
    """ACK, HEARTBEAT or RESULT. Only the JSON body counts (CONTRACT)."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    type: ReplyType
    jobId: _Id
    stepId: _Id
    tenant_id: _Id
    attempt_no: Annotated[int, Field(ge=1)]
    lease_id: _Id
    timestamp: AwareDatetime | None = None
    correlation_id: str | None = None

    #: RESULT only
    status: ResultStatus | None = None
    error: ReplyError | None = None
    result_ref: LooseReference | None = Field(default=None, validation_alias=AliasChoices("result_ref", "output_ref"))
    metrics: dict[str, Any] | None = None

    #: HEARTBEAT and ACK only
    progress: Any = None
    note: str | None = None

    @model_validator(mode="before")
    @classmethod
    def _legacy_forms(cls, value: Any) -> Any:
        """S3 5.2-5.3: `status=ACKED`, and `status=FAILED` with a `failure_class` (FEATURES D13)."""
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
