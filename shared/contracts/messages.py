"""Messages on Service Bus: directives and replies (R46).

The names `jobId` and `stepId` are camelCase, and all other names are snake_case. Unknown fields are ignored, so either
side can add fields.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    model_validator,
)

from shared.contracts.reference import MAX_URI, LooseReference, Reference

ReplyType = Literal["ACK", "HEARTBEAT", "RESULT"]
ResultStatus = Literal["SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL"]

#: fields of a RESULT besides `status`, `error` and `result_ref`: stored with the step, and shown (R46)
RESULT_CONTENT = ("output_ref", "artifacts", "input_digests", "digests", "metrics", "reason")
_RESULT_ONLY = frozenset({"status", "error", "result_ref", *RESULT_CONTENT})
MAX_ARTIFACTS = 1000
#: maximum bytes of `progress` as JSON in UTF-8: a step can have 2,000 heartbeats, and readers of a history have all in
#: memory
MAX_PROGRESS_BYTES = 4096
#: maximum length of `note` and of a sender's names, for the same reason
MAX_NOTE = 1000
MAX_SENDER = 256

#: fields of a directive that are left out if they have no value
ABSENT_WHERE_NONE = frozenset({"callback_urls", "final_index", "first_job_id", "input_refs"})

_Id = Annotated[str, Field(min_length=1, max_length=256)]
#: maximum of Edm.Int32, the type of its column
_MAX_ATTEMPT_NO = 2**31 - 1
#: largest integer that every JSON parser reads exactly (RFC 7493 2.2)
_MAX_SIZE = 2**53 - 1


class Callbacks(BaseModel):
    """URLs and token for replies of a service that is not on the bus."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    ack: str
    result: str
    heartbeat: str
    token: str = Field(repr=False)
    """Value for `Authorization: Bearer`. Valid for this attempt only. Keep the token secret."""


class Directive(BaseModel):
    """Task message for one attempt of one step, sent to the platform service of the step."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    type: Literal["DIRECTIVE"] = "DIRECTIVE"
    jobId: str
    tenant_id: str
    stepId: str
    protocol_id: str
    step_type: str
    attempt_no: int
    """Attempt number, from 1."""
    lease_id: str
    """Lease of this attempt, which every reply must have."""
    input_ref: Reference
    """Input of the step: the job's document, or the result of the previous step. After a group, the result of the
    group's last step."""
    input_refs: dict[str, Reference] | None = None
    """After a group only. Result of each step of the group, by step id."""
    workspace_ref: Reference
    """Folder for the blobs of this attempt."""
    output_ref: Reference
    """Destination of the job's output."""
    final: bool
    """`true` for the last step, and for each step of a last group."""
    final_index: int | None = None
    """Last group only. Index in the group, from 0. If `output_ref` names a blob, the first step of the group writes
    the blob."""
    first_job_id: str | None = None
    """Redrives only. Id of the first job of the chain of redrives. The service can overwrite outputs that
    jobs of this chain wrote to `output_ref`."""
    payload: Any
    """The step's part of the job's payload."""
    mode: str
    lane: int
    """Lane. Replies go to the reply topic of the same lane."""
    routing_key_used: str
    correlation_id: str | None = None
    traceparent: str | None = None
    callback_urls: Callbacks | None = None
    """URLs and token for replies over HTTP. Absent if callbacks are disabled."""


class ReplyError(BaseModel):
    """Error of a failed step, in the service's words."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    code: Annotated[str, Field(min_length=1, max_length=128)] = "UNSPECIFIED"
    message: str = ""


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a whole number")
    return value


_Size = Annotated[int, Field(ge=0, le=_MAX_SIZE), BeforeValidator(_number)]


class Artifact(BaseModel):
    """Additional output of a step."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    name: Annotated[str, Field(min_length=1, max_length=512, examples=["pages.json"])]
    """Name that the service gives the artifact."""
    uri: Annotated[str, Field(min_length=1, max_length=MAX_URI)]
    """URI of the artifact. The allow lists of references apply."""
    media_type: Annotated[str, Field(max_length=256, examples=["application/json"])] | None = None
    size: _Size | None = None
    """Size in bytes."""
    sha256: Annotated[str, Field(pattern=r"^(sha256:)?[0-9A-Fa-f]{64}$")] | None = None
    """SHA-256 in hex."""


def _or_none(value: Any) -> Any:
    return value[:MAX_SENDER] if isinstance(value, str) else None


def _short_note(value: Any) -> Any:
    return value[:MAX_NOTE] if isinstance(value, str) else value


def _small_progress(value: Any) -> Any:
    size = len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))
    return value if size <= MAX_PROGRESS_BYTES else None


#: ISO 8601 with date and time; numbers and the other forms of parsers are refused
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}")


def _instant_or_none(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    if isinstance(value, int | float) or (isinstance(value, str) and _INSTANT.match(value) is None):
        return None
    try:
        return validate(value)
    except ValidationError:
        return None


#: time with its zone; an invalid one is ignored, since a service's clock must not invalidate its result
_SentAt = Annotated[
    AwareDatetime | None,
    WrapValidator(_instant_or_none, json_schema_input_type=Any),
    Field(examples=["2026-01-27T10:02:00Z"]),
]
#: text about the sender; a value that is not text is ignored, and a long text is cut
_AboutSender = Annotated[str | None, BeforeValidator(_or_none, json_schema_input_type=Any)]


class Reply(BaseModel):
    """Reply: ACK, HEARTBEAT or RESULT. Only the JSON body counts."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    type: ReplyType
    jobId: _Id
    stepId: _Id
    tenant_id: _Id
    attempt_no: Annotated[int, Field(ge=1, le=_MAX_ATTEMPT_NO)]
    lease_id: _Id
    timestamp: _SentAt = None
    """Time when the service sent the reply, by its own clock. An invalid timestamp is ignored."""
    correlation_id: _AboutSender = None
    traceparent: _AboutSender = None
    """W3C Trace Context of the span that sent the reply. An invalid value is ignored."""
    worker_id: _AboutSender = Field(default=None, validation_alias=AliasChoices("worker_id", "workerId"))
    """Process of the service that executes the attempt. The first 256 characters are retained."""
    task_runner_id: _AboutSender = Field(default=None, validation_alias=AliasChoices("task_runner_id", "taskRunnerId"))
    """Runner that executes the attempt, if the service delegates work. The first 256 characters are retained."""

    status: ResultStatus | None = None
    """RESULT only. Outcome of the attempt."""
    error: ReplyError | None = None
    """RESULT only. Error of a failed attempt."""
    result_ref: LooseReference | None = None
    """RESULT only. Result of the step: the next step's `input_ref`. Default: `output_ref`."""
    output_ref: LooseReference | None = None
    """RESULT only. Output that the step wrote to the caller's `output_ref`. The job's `final_output` is the output
    of the last step, or of the first step of a last group."""
    artifacts: Annotated[list[Artifact], Field(max_length=MAX_ARTIFACTS)] | None = None
    """RESULT only. Additional outputs of the step."""
    input_digests: Any = None
    """RESULT only. Digests of the step's input, in the service's own form."""
    digests: Any = None
    """RESULT only. Digests of the step's output, in the service's own form."""
    metrics: dict[str, Any] | None = None
    """RESULT only. Metrics of the step, in the service's own form."""
    reason: str | None = None
    """RESULT only. Reason for a failed attempt, in words. Older form of `error.message`."""

    progress: Annotated[Any, BeforeValidator(_small_progress)] = None
    """ACK and HEARTBEAT only. Maximum 4,096 bytes of JSON. A larger value is ignored, and the rest of the reply is
    valid."""
    note: Annotated[str | None, BeforeValidator(_short_note)] = None
    """ACK and HEARTBEAT only. The first 1,000 characters are retained."""

    @model_validator(mode="before")
    @classmethod
    def _legacy_forms(cls, value: Any) -> Any:
        """Accepts the older forms: `status=ACKED`, and `status=FAILED` with a `failure_class`."""
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
            return {name: each for name, each in reply.items() if name not in _RESULT_ONLY}
        if reply.get("result_ref") is None:
            reply["result_ref"] = reply.get("output_ref")
        return reply

    @property
    def content(self) -> dict[str, Any] | None:
        """Returns the additional content of a RESULT as JSON, or None if the RESULT has none."""
        given = {name: getattr(self, name) for name in RESULT_CONTENT}
        if self.output_ref is not None:
            given["output_ref"] = self.output_ref.model_dump()
        if self.artifacts is not None:
            given["artifacts"] = [each.model_dump(exclude_none=True) for each in self.artifacts]
        return {name: each for name, each in given.items() if each is not None} or None

    @model_validator(mode="after")
    def _result_has_status(self) -> Reply:
        if self.type == "RESULT" and self.status is None:
            raise ValueError("a RESULT needs a status: SUCCEEDED, FAILED_RETRY or FAILED_FINAL")
        return self
