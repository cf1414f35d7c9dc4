"""The body of `POST /v1/orchestrate` (S0 5.1, S3 1.2, S4 3.3; CONTRACT "Envelope")."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from shared.contracts.reference import LooseReference

#: the major version of the envelope that this code understands; any minor of it is taken (FEATURES A3)
SCHEMA_MAJOR = "1"

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def _mode_from_older_name(value: Any) -> Any:
    """S3 6.2 calls the default mode SAFE."""
    return "DEFAULT" if value == "SAFE" else value


class CallbackUrls(BaseModel):
    """Where the caller wants to be told; https only. Validated and stored, never called with credentials."""

    model_config = ConfigDict(frozen=True, extra="allow")

    @model_validator(mode="after")
    def _https_only(self) -> CallbackUrls:
        for name, url in (self.model_extra or {}).items():
            parts = urlsplit(url) if isinstance(url, str) else None
            if parts is None or parts.scheme != "https" or not parts.hostname or "@" in parts.netloc or "\\" in url:
                raise ValueError(f"{name} must be an https URL without credentials")
        return self


class Envelope(BaseModel):
    """One job as the caller asks for it. Unknown fields are kept out, not fatal: the envelope grows by addition."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    #: who the job belongs to; compared after trim and lower-casing
    tenant_id: Annotated[str, Field(min_length=1, max_length=128)]
    #: names the protocol, for example OCR_EMBEDDING_SIS
    request_type: Annotated[str, Field(min_length=1, max_length=128)]
    #: the document to start from
    input_ref: LooseReference
    #: where the caller wants the last step's output
    output_ref: LooseReference
    #: parameters of the steps: one key a step, or flat for a protocol of one step
    payload: dict[str, Any]
    #: "1.0"; any 1.x is taken
    schema_version: Annotated[str, Field(pattern=r"^\d+\.\d+$")]

    #: BURST spreads one tenant's documents over the lanes and needs `doc_id`; None: the configured default
    mode: Annotated[Literal["DEFAULT", "BURST"] | None, BeforeValidator(_mode_from_older_name)] = None
    #: two requests with the same key are one job; None: the body's own hash is the key
    idempotency_key: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    doc_id: Annotated[str, Field(min_length=1, max_length=512)] | None = None
    callback_urls: CallbackUrls | None = None
    correlation_id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    #: W3C Trace Context, passed through to the services
    traceparent: Annotated[str, Field(pattern=r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")] | None = None
    priority: Literal["low", "normal", "high", "emergency"] = "normal"
    #: ids of jobs that must have succeeded first
    dependencies: Annotated[list[str], Field(max_length=100)] = Field(default_factory=list)
    labels: Annotated[dict[str, str], Field(max_length=32)] = Field(default_factory=dict)
    requested_by: Annotated[str, Field(max_length=256)] | None = None
    requested_at: AwareDatetime | None = None
    source: Annotated[str, Field(max_length=256)] | None = None

    @field_validator("tenant_id", "doc_id", "idempotency_key", "correlation_id", "requested_by", "source")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value is not None and _CONTROL.search(value):
            raise ValueError("must not contain control characters")
        return value

    @field_validator("tenant_id", "doc_id")
    @classmethod
    def _not_blank(cls, value: str | None) -> str | None:
        if value is not None and not value.strip():
            raise ValueError("must not be blank")
        return value

    @field_validator("schema_version")
    @classmethod
    def _known_major(cls, value: str) -> str:
        if value.split(".")[0] != SCHEMA_MAJOR:
            raise ValueError(f'is not supported: this service takes "{SCHEMA_MAJOR}.x"')
        return value


class Accepted(BaseModel):
    """The 202 body."""

    jobId: str
    status: str
    links: dict[str, str]
    created_at: datetime
