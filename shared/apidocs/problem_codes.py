"""Refusals that only the HTTP layer raises, and faults: each is one row with its code, HTTP status and meaning (R28).

`shared.refusals` has the refusals that operations raise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from shared.refusals import Refused


class ProblemCode(StrEnum):
    """`code` of a problem (RFC 9457): stable, even if the words of `detail` change."""

    status: int
    meaning: str

    def __new__(cls, code: str, status: int, meaning: str) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.status, member.meaning = status, meaning
        return member

    @property
    def code(self) -> str:
        return str(self)

    ACCEPT_INVALID = "ACCEPT_INVALID", 406, "`Accept` has no type that the request is answered in; `detail` names it."
    AS_OF_INVALID = "AS_OF_INVALID", 400, "`asOf` is not the number of an event, from 1."
    BATCH_EMPTY = "BATCH_EMPTY", 400, "The NDJSON body has no line."
    BULK_INVALID = "BULK_INVALID", 400, "The body is no bulk, or its key is too long; `errors` has every path."
    BY_INVALID = "BY_INVALID", 400, "`by` is none of the words that the route names."
    CURSOR_INVALID = "CURSOR_INVALID", 400, "`cursor`, `after` or `Last-Event-ID` is no position that an answer gave."
    DATA_LOST = "DATA_LOST", 410, "A stored part of the job or message is gone; only an operator can restore it."
    DATE_INVALID = "DATE_INVALID", 400, "`date` is not a day of the UTC calendar as YYYY-MM-DD."
    DEPENDENCY_FAILED = (
        "DEPENDENCY_FAILED",
        409,
        "A job that it depends on did not succeed, and nobody took that one up again; `detail` names it.",
    )
    DEPENDENCY_UNAVAILABLE = (
        "DEPENDENCY_UNAVAILABLE",
        503,
        "A service that LUCIUS needs does not respond; send the same request again.",
    )
    DRY_RUN_INVALID = "DRY_RUN_INVALID", 400, "`dryRun` is neither true nor false, or the body is no object."
    ENVELOPE_INVALID = "ENVELOPE_INVALID", 400, "The body is no envelope; `errors` has every path."
    EVENT_NOT_FOUND = "EVENT_NOT_FOUND", 404, "The job has no event of that number."
    FILTER_INVALID = "FILTER_INVALID", 400, "A word of the filter is unknown or has a wrong value; `errors` names it."
    HOOK_INVALID = "HOOK_INVALID", 400, "The body is no webhook, or its filter names what no event has; see `errors`."
    IF_MATCH_REQUIRED = "IF_MATCH_REQUIRED", 428, "A rule is changed with `If-Match`: the gate's `etag`, or `*`."
    INTERNAL = "INTERNAL", 500, "Something went wrong here; the log has it under `correlation_id`."
    JOB_LIVE = "JOB_LIVE", 409, "The job has not ended yet."
    JOB_SUCCEEDED = "JOB_SUCCEEDED", 409, "The job succeeded: there is nothing to take up again."
    KIND_INVALID = "KIND_INVALID", 400, "`kind` is no kind of incident."
    LABEL_INVALID = "LABEL_INVALID", 400, "`label` is not key:value."
    LEDGER_REFUSED = "LEDGER_REFUSED", 400, "The ledger cannot hold a value of the reply."
    LENGTH_REQUIRED = (
        "LENGTH_REQUIRED",
        411,
        "The body came in chunks, which Azure Functions does not hand on: send it with a `Content-Length`.",
    )
    LIMIT_INVALID = "LIMIT_INVALID", 400, "`limit` is not a whole number within its bounds."
    NOT_JSON = (
        "NOT_JSON",
        400,
        "The body is not declared as JSON (415), or is not strict JSON: duplicate keys, NaN, lone surrogates, "
        "nesting past 64.",
    )
    NOT_READY = (
        "NOT_READY",
        503,
        "Something that the app needs does not respond; `dependencies` names it, and since when.",
    )
    NOT_STORABLE = "NOT_STORABLE", 400, "The ledger cannot hold a value of the request."
    OUTCOME_INVALID = "OUTCOME_INVALID", 400, "`outcome` is not one of `OPEN`, `DONE` and `REFUSED`."
    PARAMETER_UNKNOWN = (
        "PARAMETER_UNKNOWN",
        400,
        "The route has no such query parameter; `errors` names each one. Nothing was done.",
    )
    PRIORITY_INVALID = (
        "PRIORITY_INVALID",
        400,
        "The body is no `priority` (low, normal, high or emergency) with a `reason` of one line.",
    )
    PROTOCOL_NOT_FOUND = "PROTOCOL_NOT_FOUND", 404, "There is no such protocol."
    QUERY_INVALID = "QUERY_INVALID", 400, "The body is no request of GraphQL, or its document or variables do not fit."
    QUERY_TOO_COMPLEX = (
        "QUERY_TOO_COMPLEX",
        400,
        "The GraphQL document is too long or too deep, or asks for too many fields at once; `detail` has the bounds.",
    )
    REASON_INVALID = (
        "REASON_INVALID",
        400,
        "The body is no object whose `reason` is one line of at most 1,024 characters.",
    )
    REPLY_INVALID = "REPLY_INVALID", 400, "The body is no reply of this kind."
    RESULT_EXPIRED = (
        "RESULT_EXPIRED",
        409,
        "A result that the new job would carry is older than the workspace keeps it; submit the request again.",
    )
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND", 404, "There is nothing at this path."
    SCHEMA_NOT_FOUND = "SCHEMA_NOT_FOUND", 404, "There is no such schema."
    SINCE_INVALID = "SINCE_INVALID", 400, "`since` is not an instant with its zone."
    STATE_INVALID = "STATE_INVALID", 400, "`state` names a state that nothing of the list has."
    STATUS_INVALID = "STATUS_INVALID", 400, "`status` names a state that no job has."
    SWEEP_RUNNING = "SWEEP_RUNNING", 429, "A sweep by hand runs already; ask again after `Retry-After`."
    TENANT_REQUIRED = "TENANT_REQUIRED", 400, "The request must name a tenant."
    TERMINAL_INVALID = "TERMINAL_INVALID", 400, "`terminal` is neither `true` nor `false`."
    TICKETS_OFF = "TICKETS_OFF", 404, "The deployment signs no tickets: `LUCIUS_CALLBACK_KEYS` is empty."
    TICKET_INVALID = "TICKET_INVALID", 400, "The body names no path of a stream; `errors` has every path."
    TOO_MANY_LINES = "TOO_MANY_LINES", 413, "The NDJSON body has more lines than are taken."
    TYPES_INVALID = "TYPES_INVALID", 400, "`types` names a type that no event has."
    UNKNOWN_JOB = "UNKNOWN_JOB", 404, "The token's job is gone."
    UNTIL_INVALID = "UNTIL_INVALID", 400, "`until` is not an instant with its zone."
    WAIT_INVALID = (
        "WAIT_INVALID",
        400,
        "`wait` is not a whole number of seconds from 0 to 20, or `until` is not an allowed value.",
    )
    WITHDRAWN = "WITHDRAWN", 409, "The job never came to be: submit its request again."


#: a refusal as a route declares it: each has a code, a status and a meaning
Refusal = ProblemCode | type[Refused]
