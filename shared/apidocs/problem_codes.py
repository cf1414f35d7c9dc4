"""Problems that only the HTTP layer raises, failures of the app or its dependencies, and the codes of NotRedrivable,
NotReplayable and FilterInvalid. Each is one row with its code, HTTP status and meaning (R28).

`shared.refusals` and the other modules of refusals have the problems that operations raise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self

from shared.refusals import Refused


class ProblemCode(StrEnum):
    """`code` of a problem (RFC 9457). The code is stable, even if the text of `detail` changes."""

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

    ACCEPT_INVALID = "ACCEPT_INVALID", 406, "`Accept` has no supported media type; `detail` lists the supported types."
    ARCHIVED_INVALID = (
        "ARCHIVED_INVALID",
        400,
        "`archived` is not `true` or `false`, or `archived=true` is combined with `idempotency_key` or "
        "`correlation_id`.",
    )
    ARTIFACT_NOT_FOUND = (
        "ARTIFACT_NOT_FOUND",
        404,
        "The attempt of the run has no artifact of this name. List the artifacts.",
    )
    AS_OF_INVALID = "AS_OF_INVALID", 400, "`asOf` is not a whole number from 1 to 9,999,999,999."
    ATTEMPT_INVALID = "ATTEMPT_INVALID", 400, "`attempt` is not a whole number from 1 to 999,999,999."
    BATCH_EMPTY = "BATCH_EMPTY", 400, "The NDJSON body has no job request. Send one job request per line."
    BULK_INVALID = (
        "BULK_INVALID",
        400,
        "The body is not a valid bulk request (see `errors`), or `Idempotency-Key` has more than 512 characters.",
    )
    BY_INVALID = "BY_INVALID", 400, "`by` is not an allowed value; `detail` lists the values."
    CURSOR_INVALID = (
        "CURSOR_INVALID",
        400,
        "`cursor`, `after` or `Last-Event-ID` is not a cursor from a response. Send the cursor of the last response.",
    )
    DATA_LOST = (
        "DATA_LOST",
        410,
        "A stored part of the job or rejected message is gone. Only an operator can restore the part.",
    )
    DATE_INVALID = "DATE_INVALID", 400, "`date` is not a UTC date as YYYY-MM-DD."
    DEPENDENCY_FAILED = (
        "DEPENDENCY_FAILED",
        409,
        "A dependency of the job, or the last redrive of that dependency, did not succeed or no longer exists. First "
        "redrive the dependencies that `detail` names. If one of these is archived or no longer exists, redrive the "
        "job with `ignoreDependencies`.",
    )
    DEPENDENCY_UNAVAILABLE = (
        "DEPENDENCY_UNAVAILABLE",
        503,
        "LUCIUS cannot process the request now. For example, storage or another service does not respond, concurrent "
        "requests changed the same rows, or LUCIUS cannot process a stored row. `detail` has the cause. Repeat the "
        "request after `Retry-After`.",
    )
    DRY_RUN_INVALID = "DRY_RUN_INVALID", 400, "`dryRun` is not `true` or `false`, or the body is not a JSON object."
    ENVELOPE_INVALID = "ENVELOPE_INVALID", 400, "The body is not a valid job request. See `errors`."
    EVENT_NOT_FOUND = (
        "EVENT_NOT_FOUND",
        404,
        "The job has no event with the number in `asOf`. List the job's events.",
    )
    FILTER_INVALID = "FILTER_INVALID", 400, "A filter parameter is unknown or has an invalid value. See `errors`."
    HOOK_INVALID = (
        "HOOK_INVALID",
        400,
        "The body is not a valid webhook, or the webhook's filter can match no event (see `errors`), or "
        "`Idempotency-Key` has more than 512 characters.",
    )
    IF_MATCH_REQUIRED = "IF_MATCH_REQUIRED", 428, "Changing limits requires `If-Match`: the quota's `etag`, or `*`."
    INTERNAL = "INTERNAL", 500, "Internal error; report the `correlation_id`."
    JOB_LIVE = "JOB_LIVE", 409, "The job has not ended yet. Wait until the job ends, then repeat the request."
    JOB_SUCCEEDED = "JOB_SUCCEEDED", 409, "The job succeeded and cannot be redriven. Replay the job instead."
    KIND_INVALID = "KIND_INVALID", 400, "`kind` is not a kind of incident. The response lists the kinds."
    LABEL_INVALID = "LABEL_INVALID", 400, "`label` does not have the form `key:value`."
    LEDGER_REFUSED = (
        "LEDGER_REFUSED",
        400,
        "The ledger cannot store a value of the reply. Send a reply without that value.",
    )
    LENGTH_REQUIRED = (
        "LENGTH_REQUIRED",
        411,
        "The body is chunked, which Azure Functions does not support. Send the body with a `Content-Length`.",
    )
    LIMIT_INVALID = "LIMIT_INVALID", 400, "`limit` is not a whole number in the range that `detail` names."
    NOT_JSON = (
        "NOT_JSON",
        400,
        "The body is not strict JSON. Strict JSON has at most 64 nested levels, and no duplicate keys, NaN or lone "
        "surrogates.",
    )
    NOT_READY = (
        "NOT_READY",
        503,
        "A dependency of the app does not respond. `dependencies` has the dependency's name and the time of the fault. "
        "Repeat the request after `Retry-After`.",
    )
    NOT_STORABLE = (
        "NOT_STORABLE",
        400,
        "The ledger cannot store a value of the request. Send a request without that value.",
    )
    OUTCOME_INVALID = "OUTCOME_INVALID", 400, "`outcome` is not one of `OPEN`, `DONE` and `REFUSED`."
    PARAMETER_UNKNOWN = (
        "PARAMETER_UNKNOWN",
        400,
        "Unknown query parameter; see `errors`.",
    )
    PRIORITY_INVALID = (
        "PRIORITY_INVALID",
        400,
        "The body is not an object with exactly a `priority` (low, normal, high or emergency) and a `reason` of one "
        "line. See `errors`.",
    )
    PROTOCOL_GONE = (
        "PROTOCOL_GONE",
        409,
        "The registry has no protocol of the job type. An operator must add the protocol again.",
    )
    PROTOCOL_NOT_FOUND = "PROTOCOL_NOT_FOUND", 404, "Protocol not found. `GET /v1/protocols` lists the protocols."
    PURGE_INVALID = "PURGE_INVALID", 400, "The body is not a valid purge request. See `errors`."
    QUERY_INVALID = (
        "QUERY_INVALID",
        400,
        "The body is not a GraphQL request; see `detail`. An invalid document or variable returns 200, with this code "
        "in `errors`.",
    )
    QUERY_TOO_COMPLEX = (
        "QUERY_TOO_COMPLEX",
        400,
        "The GraphQL document is too long or too deep, or selects too many fields; `detail` has the limits.",
    )
    REASON_INVALID = (
        "REASON_INVALID",
        400,
        "The body is not an object, or a field is missing or invalid. See `detail` and `errors`.",
    )
    REPLAY_INVALID = (
        "REPLAY_INVALID",
        400,
        "The body is not a valid replay request (see `errors`), or `Idempotency-Key` has more than 512 characters.",
    )
    REPLY_INVALID = "REPLY_INVALID", 400, "The body is not a valid reply of the kind that the URL names; see `detail`."
    RESULT_EXPIRED = (
        "RESULT_EXPIRED",
        409,
        "The new job needs a result that is older than the retention of the workspace. Submit the original request "
        "again, with a new `idempotency_key`.",
    )
    ROUTE_NOT_FOUND = (
        "ROUTE_NOT_FOUND",
        404,
        "No route has the path of the `OPTIONS` request, or the dashboard or API page has no such file. Compare "
        "the path with the API description, or reload the page.",
    )
    ROUTING_INVALID = "ROUTING_INVALID", 400, "`mode` or `doc_id` is invalid for a job request; see `detail`."
    RUN_NOT_FOUND = "RUN_NOT_FOUND", 404, "The job is not a run: the job has no step of type PACK."
    SCHEMA_NOT_FOUND = "SCHEMA_NOT_FOUND", 404, "Schema not found. `GET /v1/schemas` lists the schemas."
    SERVICE_GONE = (
        "SERVICE_GONE",
        409,
        "In the bus topology, the service of a step of the job is missing or receives another `step_type`. An operator "
        "must add the service again.",
    )
    SINCE_INVALID = (
        "SINCE_INVALID",
        400,
        "`since` is not a timestamp with a time zone or, for usage, is more than 31 days ago.",
    )
    STATE_INVALID = (
        "STATE_INVALID",
        400,
        "`state` is not a state of the items in this list. The response lists the states.",
    )
    STATUS_INVALID = "STATUS_INVALID", 400, "`status` is not a state of jobs. The response lists the states."
    SWEEP_RUNNING = (
        "SWEEP_RUNNING",
        429,
        "A requested sweep is already running in the process; retry after `Retry-After`.",
    )
    TENANT_REQUIRED = "TENANT_REQUIRED", 400, "The request must name a tenant; see `detail`."
    TERMINAL_INVALID = "TERMINAL_INVALID", 400, "`terminal` is not `true` or `false`."
    TICKETS_OFF = (
        "TICKETS_OFF",
        404,
        "Tickets are disabled: `LUCIUS_CALLBACK_KEYS` is empty. An operator must set the keys.",
    )
    TICKET_INVALID = (
        "TICKET_INVALID",
        400,
        "The body is not a valid ticket request. `path` must be the path of a stream. See `errors`.",
    )
    TOO_MANY_LINES = "TOO_MANY_LINES", 413, "The NDJSON body has more than 1,000 lines. Split the body."
    TYPES_INVALID = "TYPES_INVALID", 400, "`types` has an unknown event type; `detail` lists the allowed types."
    UNKNOWN_JOB = "UNKNOWN_JOB", 404, "The job of the token no longer exists. Stop the attempt."
    UNTIL_INVALID = (
        "UNTIL_INVALID",
        400,
        "`until` is not a timestamp with a time zone or, for signed heads, is not after the start of the window.",
    )
    WAIT_INVALID = (
        "WAIT_INVALID",
        400,
        "`wait` is not a whole number of seconds from 0 to 20, or `until` is not an allowed value. See `detail`.",
    )
    WITHDRAWN = "WITHDRAWN", 409, "The job was never created; submit its request again."


#: a problem as a route declares it, with a code, a status and a meaning
Refusal = ProblemCode | type[Refused]
