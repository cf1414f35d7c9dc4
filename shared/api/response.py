"""Base classes of bodies, and types that bodies share."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, WithJsonSchema

from shared.contracts.envelope import Word
from shared.core.jobs.reasons import Reason
from shared.core.jobs.states import FailureCause, JobStatus, StepStatus
from shared.refusals import MAX_REQUEST_ERROR, MAX_REQUEST_ERRORS


class Response(BaseModel):
    """A body of the API. A minor version can add fields, so clients must ignore unknown fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    @classmethod
    def of(cls, row: object, /, **members: Any) -> Self:
        """Makes the response from `members`, and from `row` for the other required fields."""
        optional = {name for name, field in cls.model_fields.items() if not field.is_required()}
        named = {name: getattr(row, name) for name in cls.model_fields.keys() - members.keys() - optional}
        return cls(**named, **members)


class RequestBody(BaseModel):
    """Body of a request. An unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


#: a time as in RFC 3339, in UTC
Instant = Annotated[AwareDatetime, Field(examples=["2026-01-27T10:02:00Z"])]

JobId = Annotated[str, Field(examples=["job_6f1c0d3a9b5e4f7c8a2d1e0f9b8c7a65"])]


def _one_of(enum: type[StrEnum]) -> WithJsonSchema:
    """Writes the names of an enum into each schema that uses the enum."""
    return WithJsonSchema({"type": "string", "enum": [each.value for each in enum]})


_CAUSES = "\n".join(f"- `{reason}`: {reason.cause}." for reason in Reason)

#: value of `JOB.error_code`
ErrorCode = Annotated[
    str | None,
    Field(
        description="Error code of a job that ended without success. A service gives codes of its own. LUCIUS gives "
        f"these codes:\n\n{_CAUSES}",
        examples=["ATTEMPTS_EXHAUSTED"],
    ),
]

JobStatusName = Annotated[JobStatus, _one_of(JobStatus)]

StepStatusName = Annotated[StepStatus, _one_of(StepStatus)]

FailureCauseName = Annotated[FailureCause, _one_of(FailureCause)]

#: digest of an attempt's lease
LeaseDigest = Annotated[
    str | None,
    Field(
        description="`sha256:{hex}` of the attempt's lease. Only LUCIUS and the service of the attempt know the lease.",
        examples=["sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"],
    ),
]

#: value of `next` in every page, except that of a feed
Cursor = Annotated[
    str | None,
    Field(description="Value for `cursor` to get the next page. Null on the last page."),
]

#: value of `partial` in a page of a list with a filter
Partial = Annotated[
    bool,
    Field(
        description="`true` if the page is short or empty because fewer than `limit` of the read rows match. `next` "
        "continues the list."
    ),
]


class FieldError(Response):
    """Error in one field of a request."""

    path: Annotated[str, Field(max_length=MAX_REQUEST_ERROR, examples=["payload.sis.prompt_set"])]
    """Path of the field, separated by dots."""
    message: Annotated[str, Field(max_length=MAX_REQUEST_ERROR)]


class Problem(Response):
    """Error (`application/problem+json`). Programs use `code`. `detail` is for people."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(examples=["/v1/problems#REQUEST_INVALID"])]
    """URL of the entry with the meaning of `code`."""
    title: str
    status: Annotated[int, Field(ge=400, le=599)]
    code: Annotated[str, Field(examples=["REQUEST_INVALID"])]
    """Stable error code, for programs."""
    detail: str
    """Error and next step, for people."""
    errors: Annotated[list[FieldError], Field(max_length=MAX_REQUEST_ERRORS)]
    """Errors in the request's content, at most 50. Empty for other errors. If there are more, `detail` has a note."""
    correlation_id: str
    """`X-Correlation-Id` of the response, also in the logs."""
    complete_until: str | None = None
    """HEADS_INCOMPLETE only. End of the last window that LUCIUS can sign. Null if LUCIUS cannot sign any window yet."""
    earliest: str | None = None
    """CURSOR_EXPIRED and HEADS_MISSING only. Earliest valid cursor, or earliest valid `since`. Null if the
    tenant has no heads."""
    jobId: JobId | None = None
    """IDEMPOTENCY_CONFLICT only. Id of the job of the request that used the key first."""
    known: list[str] | None = None
    """PROTOCOL_UNKNOWN only. Available job types."""
    limit: str | None = None
    """LIMIT_REACHED only. Reached limit: name of a setting, or `max_staged`."""
    living: int | None = None
    """TENANT_LIVE only. Number of jobs that have not ended, at most 1,000."""
    reason: str | None = None
    """STILL_NOT_APPLICABLE only. Reason for the failed redrive of the message."""


def to_integer(value: Any) -> Any:
    """Converts `2.0` to an integer, as JSON Schema does."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Why = Annotated[Word, Field(min_length=1, max_length=1024, examples=["month end"])]
