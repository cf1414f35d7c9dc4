"""Every code of a problem (RFC 9457), and its meaning to a caller."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ProblemCode(StrEnum):
    """`code` of a problem (RFC 9457): stable, even where the words of `detail` change."""

    AS_OF_INVALID = "AS_OF_INVALID"
    BATCH_EMPTY = "BATCH_EMPTY"
    BODY_TOO_LARGE = "BODY_TOO_LARGE"
    CONTROL_NOT_POSSIBLE = "CONTROL_NOT_POSSIBLE"
    CURSOR_INVALID = "CURSOR_INVALID"
    DATE_INVALID = "DATE_INVALID"
    DEPENDENCY_UNAVAILABLE = "DEPENDENCY_UNAVAILABLE"
    DIRECTIVE_TOO_LARGE = "DIRECTIVE_TOO_LARGE"
    DRY_RUN_INVALID = "DRY_RUN_INVALID"
    ENVELOPE_INVALID = "ENVELOPE_INVALID"
    EVENT_NOT_FOUND = "EVENT_NOT_FOUND"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    INTERNAL = "INTERNAL"
    JOB_LIVE = "JOB_LIVE"
    JOB_NOT_FOUND = "JOB_NOT_FOUND"
    JOB_SUCCEEDED = "JOB_SUCCEEDED"
    JOB_TERMINAL = "JOB_TERMINAL"
    LABEL_INVALID = "LABEL_INVALID"
    LEDGER_REFUSED = "LEDGER_REFUSED"
    LIMIT_INVALID = "LIMIT_INVALID"
    LIMIT_REACHED = "LIMIT_REACHED"
    NOT_JSON = "NOT_JSON"
    NOT_READY = "NOT_READY"
    NOT_STORABLE = "NOT_STORABLE"
    NOT_YOUR_ATTEMPT = "NOT_YOUR_ATTEMPT"
    PROTOCOL_NOT_FOUND = "PROTOCOL_NOT_FOUND"
    PROTOCOL_UNKNOWN = "PROTOCOL_UNKNOWN"
    REASON_INVALID = "REASON_INVALID"
    REJECTED_NOT_FOUND = "REJECTED_NOT_FOUND"
    REPLY_INVALID = "REPLY_INVALID"
    REQUEST_INVALID = "REQUEST_INVALID"
    SCOPE_MISSING = "SCOPE_MISSING"
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND"
    SCHEMA_NOT_FOUND = "SCHEMA_NOT_FOUND"
    SINCE_INVALID = "SINCE_INVALID"
    STATUS_INVALID = "STATUS_INVALID"
    STILL_NOT_APPLICABLE = "STILL_NOT_APPLICABLE"
    TENANT_FORBIDDEN = "TENANT_FORBIDDEN"
    TENANT_MISSING = "TENANT_MISSING"
    TENANT_REQUIRED = "TENANT_REQUIRED"
    TOKEN_INVALID = "TOKEN_INVALID"
    TOKEN_MISSING = "TOKEN_MISSING"
    TOO_MANY_LINES = "TOO_MANY_LINES"
    UNKNOWN_JOB = "UNKNOWN_JOB"
    UNTIL_INVALID = "UNTIL_INVALID"
    WITHDRAWN = "WITHDRAWN"
    WAIT_INVALID = "WAIT_INVALID"


PROBLEM_CODES: Mapping[ProblemCode, str] = {
    ProblemCode.AS_OF_INVALID: "`asOf` is not the number of an event, from 1.",
    ProblemCode.BATCH_EMPTY: "The NDJSON body has no line.",
    ProblemCode.BODY_TOO_LARGE: "The body has more bytes than are taken.",
    ProblemCode.CONTROL_NOT_POSSIBLE: "The job's state does not allow it.",
    ProblemCode.CURSOR_INVALID: "`cursor` is not one that `next` of a page gave.",
    ProblemCode.DATE_INVALID: "`date` is not a day of the UTC calendar as YYYY-MM-DD.",
    ProblemCode.DEPENDENCY_UNAVAILABLE: "A service that LUCIUS needs does not respond; send the same request again.",
    ProblemCode.DIRECTIVE_TOO_LARGE: "A step's parameters are too large for the bus: put them into a blob and name it.",
    ProblemCode.DRY_RUN_INVALID: "`dryRun` is neither true nor false, or the body is no object.",
    ProblemCode.ENVELOPE_INVALID: "The body is no envelope; `errors` has every path.",
    ProblemCode.EVENT_NOT_FOUND: "The job has no event of that number.",
    ProblemCode.IDEMPOTENCY_CONFLICT: "The idempotency key belongs to another body; `jobId` is the job it made.",
    ProblemCode.INTERNAL: "Something went wrong here; the log has it under `correlation_id`.",
    ProblemCode.JOB_LIVE: "The job has not ended yet.",
    ProblemCode.JOB_NOT_FOUND: "There is no such job, or it is another tenant's.",
    ProblemCode.JOB_SUCCEEDED: "The job succeeded: there is nothing to take up again.",
    ProblemCode.JOB_TERMINAL: "The job has ended and never moves again.",
    ProblemCode.LABEL_INVALID: "`label` is not key:value.",
    ProblemCode.LEDGER_REFUSED: "The ledger cannot hold a value of the reply.",
    ProblemCode.LIMIT_INVALID: "`limit` is not a whole number within its bounds.",
    ProblemCode.LIMIT_REACHED: "The setting in `limit` allows no more active jobs; ask again after `Retry-After`.",
    ProblemCode.NOT_JSON: "The body is not declared as JSON (415), or is not strict JSON: duplicate keys, NaN, "
    "lone surrogates, nesting past 64.",
    ProblemCode.NOT_READY: "Something that the app needs does not respond; `dependencies` names it, and since when.",
    ProblemCode.NOT_STORABLE: "The ledger cannot hold a value of the request.",
    ProblemCode.NOT_YOUR_ATTEMPT: "The body names another job, step, attempt or lease than the token.",
    ProblemCode.PROTOCOL_NOT_FOUND: "There is no such protocol.",
    ProblemCode.PROTOCOL_UNKNOWN: "No protocol has that `request_type`; `known` lists those there are.",
    ProblemCode.REASON_INVALID: "The body is no object whose `reason` is a string of at most 1,024 characters.",
    ProblemCode.REJECTED_NOT_FOUND: "There is no such rejected message.",
    ProblemCode.REPLY_INVALID: "The body is no reply of this kind.",
    ProblemCode.REQUEST_INVALID: "The envelope does not fit its protocol or the policy; `errors` has every path.",
    ProblemCode.SCOPE_MISSING: "The token lacks the scope that this route needs.",
    ProblemCode.ROUTE_NOT_FOUND: "There is nothing at this path.",
    ProblemCode.SCHEMA_NOT_FOUND: "There is no such schema.",
    ProblemCode.SINCE_INVALID: "`since` is not an instant with its zone.",
    ProblemCode.STATUS_INVALID: "`status` names a state that no job has.",
    ProblemCode.STILL_NOT_APPLICABLE: "No job can take the message; `reason` has why.",
    ProblemCode.TENANT_FORBIDDEN: "The token is for another tenant than the request names.",
    ProblemCode.TENANT_MISSING: "The token names no tenant.",
    ProblemCode.TENANT_REQUIRED: "The request must name a tenant.",
    ProblemCode.TOKEN_INVALID: "The token was rejected; `detail` has why.",
    ProblemCode.TOKEN_MISSING: "There is no token.",
    ProblemCode.TOO_MANY_LINES: "The NDJSON body has more lines than are taken.",
    ProblemCode.UNKNOWN_JOB: "The token's job is gone.",
    ProblemCode.UNTIL_INVALID: "`until` is not an instant with its zone.",
    ProblemCode.WITHDRAWN: "The job never came to be: submit its request again.",
    ProblemCode.WAIT_INVALID: "`wait` is no whole number of seconds from 0 to 20.",
}
