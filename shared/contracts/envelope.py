"""The body of `POST /v1/orchestrate`."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from shared.contracts.instants import within_bounds
from shared.contracts.reference import MAX_URI, LooseReference, uri_pattern

#: supported major version of the job request; every minor version of it is accepted
SCHEMA_MAJOR = "1"
MAX_LABELS = 32
MAX_CALLBACK_URLS = 10
#: maximum length of a callback's name
_MAX_CALLBACK_NAME = 64

_HTTPS = re.compile(uri_pattern(["https"]))
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def _one_line(value: str) -> str:
    if _CONTROL.search(value):
        raise ValueError("must not contain control characters")
    return value


def _not_blank(value: str) -> str:
    if not value.strip():
        raise ValueError("must not be blank")
    return value


#: normalised names that no tenant can have, with the meaning of each (R78)
RESERVED_TENANTS = {
    ".": "a folder of the workspace",
    "..": "a folder of the workspace",
    "*": "every tenant",
    "=platform": "events without a tenant",
}


def _free_name(value: str) -> str:
    if (meaning := RESERVED_TENANTS.get(name := value.strip().lower())) is not None:
        raise ValueError(f"must not be {name}, which means {meaning}")
    return value


#: pattern for the schema; the validators check the same and name the error
_LINE = r"^[^\x00-\x1f\x7f-\x9f]*$"
TextLine = Annotated[str, AfterValidator(_one_line), Field(json_schema_extra={"pattern": _LINE})]
Word = Annotated[
    str,
    AfterValidator(_one_line),
    AfterValidator(_not_blank),
    Field(json_schema_extra={"pattern": r"^[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"}),
]
_Tenant = Annotated[
    Word,
    AfterValidator(_free_name),
    Field(
        json_schema_extra={
            "pattern": r"^(?!\s*(\.{1,2}|\*|=[Pp][Ll][Aa][Tt][Ff][Oo][Rr][Mm])\s*$)"
            r"[^\x00-\x1f\x7f-\x9f]*[^\s\x00-\x1f\x7f-\x9f][^\x00-\x1f\x7f-\x9f]*$"
        }
    ),
]

_MAX_LABEL_NAME = 128
_LabelName = Annotated[str, AfterValidator(_one_line), Field(max_length=_MAX_LABEL_NAME)]


def _few_labels(value: Any) -> Any:
    """Refuses more than `MAX_LABELS` labels, before the model reports each invalid label."""
    if isinstance(value, dict) and len(value) > MAX_LABELS:
        raise ValueError(f"must have at most {MAX_LABELS} labels")
    return value


#: older names of modes, with the mode that each stands for
OLDER_MODES = {"SAFE": "DEFAULT"}


def _mode_from_older_name(value: Any) -> Any:
    return OLDER_MODES.get(value, value) if isinstance(value, str) else value


#: pattern that requires a zone, which a date-time of JSON Schema does not
_ZONE = {"pattern": r"([Zz]|[+-]\d{2}:\d{2})$"}


def _instant(value: Any) -> Any:
    """Parses a time from text with a zone. Refuses a number, which has no unit."""
    if value is None:
        return None
    if not isinstance(value, str | datetime):
        raise ValueError("must be a timestamp as a string")
    instant = datetime.fromisoformat(value) if isinstance(value, str) else value
    return within_bounds(instant) if instant.tzinfo is not None else instant


class CallbackUrls(BaseModel):
    """URLs that receive the event that ends the job, by names that the caller chooses. Each URL must be an https URL
    that webhooks can use. Maximum two URLs per host.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        json_schema_extra={
            "additionalProperties": {"type": "string", "pattern": uri_pattern(["https"]), "maxLength": MAX_URI},
            "propertyNames": {"pattern": _LINE, "minLength": 1, "maxLength": _MAX_CALLBACK_NAME},
            "maxProperties": MAX_CALLBACK_URLS,
        },
    )

    @model_validator(mode="after")
    def _https_only(self) -> CallbackUrls:
        urls = self.model_extra or {}
        if len(urls) > MAX_CALLBACK_URLS:
            raise ValueError(f"must have at most {MAX_CALLBACK_URLS} URLs")
        for name, url in urls.items():
            if not 0 < len(name) <= _MAX_CALLBACK_NAME or _CONTROL.search(name):
                raise ValueError(f"a name must have 1 to {_MAX_CALLBACK_NAME} characters, without control characters")
            # as strict as the schema: `urlsplit` removes line breaks, which a client of the URL might not do
            if not isinstance(url, str) or len(url) > MAX_URI or not _HTTPS.fullmatch(url):
                raise ValueError(f"{name} must be an https URL without credentials")
        return self


class Envelope(BaseModel):
    """A job request. LUCIUS ignores unknown fields, so that a minor version can add fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    tenant_id: Annotated[_Tenant, Field(min_length=1, max_length=128, examples=["tenant_a"])]
    """Tenant of the job. LUCIUS trims and lower-cases the value before a comparison."""
    request_type: Annotated[str, Field(min_length=1, max_length=128, examples=["OCR_EMBEDDING_SIS"])]
    """Job type, which selects the protocol."""
    input_ref: LooseReference
    """URI of the input document."""
    output_ref: LooseReference
    """Destination of the last step's output."""
    payload: dict[str, Any]
    """Parameters of the steps, by step id. A step without required parameters can be omitted. A protocol of one step
    also accepts the parameters without the step id."""
    schema_version: Annotated[
        str,
        Field(
            pattern=r"^[0-9]+\.[0-9]+$",
            max_length=16,
            examples=["1.0"],
            json_schema_extra={"pattern": rf"^{SCHEMA_MAJOR}\.[0-9]+$"},
        ),
    ]
    """Version of the job request's format: `1.0`. LUCIUS accepts every 1.x."""

    protocol_version: Annotated[int, Field(ge=1)] | None = None
    """Version of the protocol, which must be loaded. Default: the version in effect for new jobs or, for
    `ramp_percent` of the jobs, the next version."""
    mode: Annotated[
        Literal["DEFAULT", "BURST"] | None,
        BeforeValidator(_mode_from_older_name, json_schema_input_type=Literal["DEFAULT", "BURST", "SAFE"] | None),
    ] = None
    """BURST spreads one tenant's documents over the lanes and needs `doc_id`. SAFE is an older name of DEFAULT.
    Default: the mode that is configured for the tenant or for all tenants."""
    idempotency_key: Annotated[TextLine, Field(min_length=1, max_length=512)] | None = None
    """Idempotency key. Until the key expires, requests with the same key and body return the same job, and a request
    with another body returns 409. LUCIUS compares only `tenant_id`, `request_type`, `protocol_version`,
    `schema_version`, `doc_id`, `input_ref`, `output_ref`, `payload`, `dependencies` and, with dependencies,
    `on_dependency_failure`. Default: the hash of these fields."""
    doc_id: Annotated[Word, Field(min_length=1, max_length=512)] | None = None
    """Document id that the tenant uses."""
    callback_urls: CallbackUrls | None = None
    """URLs to notify when the job ends, in addition to the tenant's webhooks and feed. Not called if webhooks are
    disabled."""
    correlation_id: Annotated[TextLine, Field(min_length=1, max_length=128)] | None = None
    """Correlation id in log records, messages and responses about the job. Default: the `X-Correlation-Id` of the
    request, or a new id."""
    traceparent: Annotated[str, Field(pattern=r"^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$")] | None = None
    """W3C Trace Context, forwarded to the services."""
    priority: Literal["low", "normal", "high", "emergency"] = "normal"
    dependencies: Annotated[list[Annotated[TextLine, Field(min_length=1, max_length=516)]], Field(max_length=50)] = (
        Field(default_factory=list)
    )
    """Jobs of the same tenant that must end first, each as a job id or as `key:` and an idempotency key. Maximum 50."""
    on_dependency_failure: Literal["fail", "run"] = "fail"
    """Action if a dependency fails, is cancelled or is purged. `fail`: the job fails, too. `run`: the job runs."""
    expires_at: Annotated[
        AwareDatetime | None,
        BeforeValidator(_instant, json_schema_input_type=Annotated[datetime | None, Field(json_schema_extra=_ZONE)]),
    ] = None
    """Time when the job fails if the job still waits for its quotas or for other jobs. Maximum 2200-01-01."""
    labels: Annotated[
        dict[_LabelName, Annotated[TextLine, Field(max_length=512)]],
        BeforeValidator(_few_labels),
        Field(
            json_schema_extra={
                "maxProperties": MAX_LABELS,
                "propertyNames": {"pattern": _LINE, "maxLength": _MAX_LABEL_NAME},
            }
        ),
    ] = Field(default_factory=dict)
    """Labels, for filters of lists, events and webhooks."""
    requested_by: Annotated[TextLine, Field(max_length=256)] | None = None
    """Requester, in the caller's words. If the API requires tokens, the actor of the token replaces the value."""
    source: Annotated[TextLine, Field(max_length=256)] | None = None
    """Source of the request, in the caller's words. If `LUCIUS_AUTH_SOURCE_CLAIM` names a claim of the token, the claim
    replaces the value."""

    @field_validator("schema_version")
    @classmethod
    def _known_major(cls, value: str) -> str:
        if value.split(".")[0] != SCHEMA_MAJOR:
            raise ValueError(f'must be "{SCHEMA_MAJOR}.x": version {value} is not supported')
        return value
