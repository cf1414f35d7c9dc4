"""Every code of a problem (RFC 9457), and its meaning to a caller."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class ProblemCode(StrEnum):
    """`code` of a problem: stable, even where the words of `detail` change."""

    meaning: str

    def __new__(cls, code: str, meaning: str = "") -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member

    ACCEPT_INVALID = "ACCEPT_INVALID", "`Accept` has no type that the request is answered in; `detail` names it."
    AS_OF_INVALID = "AS_OF_INVALID", "`asOf` is not the number of an event, from 1."
    BATCH_EMPTY = "BATCH_EMPTY", "The NDJSON body has no line."
    BODY_TOO_LARGE = "BODY_TOO_LARGE", "The body has more bytes than are taken."
    BULK_ENDED = "BULK_ENDED", "The bulk is DONE: there is nothing left to stop."
    BULK_INVALID = "BULK_INVALID", "The body is no bulk, or its key is too long; `errors` has every path."
    BULK_LIMIT = "BULK_LIMIT", "The tenant has 20 running bulk operations, the maximum."
    BULK_NOT_FOUND = "BULK_NOT_FOUND", "There is no such bulk, or it is another tenant's."
    BY_INVALID = "BY_INVALID", "`by` is none of the words that the route names."
    CONTROL_NOT_POSSIBLE = "CONTROL_NOT_POSSIBLE", "The job's state does not allow it."
    CURSOR_EXPIRED = "CURSOR_EXPIRED", "What follows on the cursor is not kept; `earliest` is the first that holds."
    CURSOR_INVALID = "CURSOR_INVALID", "`cursor`, `after` or `Last-Event-ID` is no position that an answer gave."
    DATA_LOST = "DATA_LOST", "A stored part of the job or message is gone; only an operator can restore it."
    DATE_INVALID = "DATE_INVALID", "`date` is not a day of the UTC calendar as YYYY-MM-DD."
    DEFAULT_HOOK = "DEFAULT_HOOK", "The webhook `default` has no address to change, remove, test or resume."
    DELIVERY_NOT_FOUND = "DELIVERY_NOT_FOUND", "The webhook has no such delivery, or its event is kept no more."
    DEPENDENCY_UNAVAILABLE = (
        "DEPENDENCY_UNAVAILABLE",
        "A service that LUCIUS needs does not respond; send the same request again.",
    )
    DIRECTIVE_TOO_LARGE = (
        "DIRECTIVE_TOO_LARGE",
        "A step's parameters are too large for the bus: put them into a blob and name it.",
    )
    DRY_RUN_INVALID = "DRY_RUN_INVALID", "`dryRun` is neither true nor false, or the body is no object."
    ENVELOPE_INVALID = "ENVELOPE_INVALID", "The body is no envelope; `errors` has every path."
    FILTER_INVALID = "FILTER_INVALID", "A word of the filter is unknown or has a wrong value; `errors` names it."
    EVENTS_OFF = "EVENTS_OFF", "The deployment keeps no events: `LUCIUS_EVENTS` is `off`."
    EVENT_NOT_FOUND = "EVENT_NOT_FOUND", "The job has no event of that number."
    GATE_NOT_FOUND = "GATE_NOT_FOUND", "There is no such gate, it has no rule to delete, or it is another tenant's."
    GATE_UNCLEAR = "GATE_UNCLEAR", "The request names no gate, or more than one; `detail` has the five forms."
    HOOK_INVALID = "HOOK_INVALID", "The body is no webhook, or its filter names what no event has; see `errors`."
    HOOK_KEY_GONE = "HOOK_KEY_GONE", "The key that the hook's secret was made of is configured no more: rotate it."
    HOOK_LIMIT = "HOOK_LIMIT", "The tenant has as many webhooks as it may have."
    HOOK_NOT_FOUND = "HOOK_NOT_FOUND", "There is no such webhook, or it is another tenant's."
    HOOK_URL_REFUSED = "HOOK_URL_REFUSED", "An address of a webhook must not be called; `errors` has the reason."
    IDEMPOTENCY_CONFLICT = (
        "IDEMPOTENCY_CONFLICT",
        "The idempotency key belongs to another body; `jobId` is the job it made, `detail` names a bulk or a webhook.",
    )
    INCIDENT_NO_JOB = "INCIDENT_NO_JOB", "The incident is about no job: there is nothing to take up again."
    INCIDENT_NOT_FOUND = "INCIDENT_NOT_FOUND", "There is no such incident, or it is another tenant's."
    INCIDENT_SETTLED = "INCIDENT_SETTLED", "The incident was settled otherwise, and never changes again."
    INTERNAL = "INTERNAL", "Something went wrong here; the log has it under `correlation_id`."
    JOB_LIVE = "JOB_LIVE", "The job has not ended yet."
    JOB_NOT_FOUND = "JOB_NOT_FOUND", "There is no such job, or it is another tenant's."
    JOB_SUCCEEDED = "JOB_SUCCEEDED", "The job succeeded: there is nothing to take up again."
    JOB_TERMINAL = "JOB_TERMINAL", "The job has ended and never moves again."
    KIND_INVALID = "KIND_INVALID", "`kind` is no kind of incident."
    LABEL_INVALID = "LABEL_INVALID", "`label` is not key:value."
    LEDGER_REFUSED = "LEDGER_REFUSED", "The ledger cannot hold a value of the reply."
    LENGTH_REQUIRED = (
        "LENGTH_REQUIRED",
        "The body came in chunks, which Azure Functions does not hand on: send it with a `Content-Length`.",
    )
    LIMIT_INVALID = "LIMIT_INVALID", "`limit` is not a whole number within its bounds."
    LIMIT_REACHED = "LIMIT_REACHED", "The setting in `limit` allows no more active jobs; ask again after `Retry-After`."
    NO_BREAKER = "NO_BREAKER", "No rule gives the gate a breaker: there is nothing to reset."
    NOT_JSON = (
        "NOT_JSON",
        "The body is not declared as JSON (415), or is not strict JSON: duplicate keys, NaN, lone "
        "surrogates, nesting past 64.",
    )
    DEPENDENCY_FAILED = (
        "DEPENDENCY_FAILED",
        "A job that it depends on did not succeed, and nobody took that one up again; `detail` names it.",
    )
    DEPENDENCY_UNKNOWN = "DEPENDENCY_UNKNOWN", "A job that the request depends on is none of its tenant's."
    NOT_READY = "NOT_READY", "Something that the app needs does not respond; `dependencies` names it, and since when."
    NOT_STORABLE = "NOT_STORABLE", "The ledger cannot hold a value of the request."
    NOT_YOUR_ATTEMPT = "NOT_YOUR_ATTEMPT", "The body names another job, step, attempt or lease than the token."
    OUTCOME_INVALID = "OUTCOME_INVALID", "`outcome` is not one of `OPEN`, `DONE` and `REFUSED`."
    OVERLOADED = (
        "OVERLOADED",
        "More submissions, redrives or tests of webhooks are in hand than a process takes; send the request again "
        "after `Retry-After`.",
    )
    PARAMETER_UNKNOWN = (
        "PARAMETER_UNKNOWN",
        "The route has no such query parameter; `errors` names each one. Nothing was done.",
    )
    PROTOCOL_NOT_FOUND = "PROTOCOL_NOT_FOUND", "There is no such protocol."
    PROTOCOL_UNKNOWN = "PROTOCOL_UNKNOWN", "No protocol has that `request_type`; `known` lists those there are."
    PRIORITY_INVALID = (
        "PRIORITY_INVALID",
        "The body is no `priority` (low, normal, high or emergency) with a `reason` of one line.",
    )
    REASON_INVALID = "REASON_INVALID", "The body is no object whose `reason` is one line of at most 1,024 characters."
    REJECTED_NOT_FOUND = "REJECTED_NOT_FOUND", "There is no such rejected message."
    QUERY_INVALID = "QUERY_INVALID", "The body is no request of GraphQL, or its document or variables do not fit."
    QUERY_TOO_COMPLEX = (
        "QUERY_TOO_COMPLEX",
        "The GraphQL document is too long or too deep, or asks for too many fields at once; `detail` has the bounds.",
    )
    IF_MATCH_REQUIRED = "IF_MATCH_REQUIRED", "A rule is changed with `If-Match`: the gate's `etag`, or `*`."
    QUOTA_FORBIDDEN = (
        "QUOTA_FORBIDDEN",
        "Only operators change limits; tenant callers can hold and throttle, and resume their own holds. Only callers "
        "who see all tenants read the log of a quota over all tenants.",
    )
    QUOTA_INVALID = "QUOTA_INVALID", "The change does not fit the gate, or has no reason; `errors` has every path."
    RULE_CHANGED = "RULE_CHANGED", "The gate's rule, hold or throttle was changed since it was read."
    REPLY_INVALID = "REPLY_INVALID", "The body is no reply of this kind."
    REQUEST_INVALID = (
        "REQUEST_INVALID",
        "The envelope does not fit its protocol or the policy; `errors` has every path.",
    )
    RESULT_EXPIRED = (
        "RESULT_EXPIRED",
        "A result that the new job would carry is older than the workspace keeps it; submit the request again.",
    )
    SCOPE_MISSING = "SCOPE_MISSING", "The token lacks the scope that this route needs."
    ROUTE_NOT_FOUND = "ROUTE_NOT_FOUND", "There is nothing at this path."
    SCHEMA_NOT_FOUND = "SCHEMA_NOT_FOUND", "There is no such schema."
    SINCE_INVALID = "SINCE_INVALID", "`since` is not an instant with its zone."
    STATE_INVALID = "STATE_INVALID", "`state` names a state that nothing of the list has."
    STATUS_INVALID = "STATUS_INVALID", "`status` names a state that no job has."
    STILL_NOT_APPLICABLE = "STILL_NOT_APPLICABLE", "No job can take the message; `reason` has why."
    SWEEP_RUNNING = "SWEEP_RUNNING", "A sweep by hand runs already; ask again after `Retry-After`."
    TENANT_FORBIDDEN = (
        "TENANT_FORBIDDEN",
        "The token is for another tenant than the one meant, or may only see its jobs.",
    )
    TENANT_MISSING = "TENANT_MISSING", "The token names no tenant, or more than one; `detail` has why."
    TENANT_REQUIRED = "TENANT_REQUIRED", "The request must name a tenant."
    TERMINAL_INVALID = "TERMINAL_INVALID", "`terminal` is neither `true` nor `false`."
    TICKET_INVALID = "TICKET_INVALID", "The body names no path of a stream; `errors` has every path."
    TICKETS_OFF = "TICKETS_OFF", "The deployment signs no tickets: `LUCIUS_CALLBACK_KEYS` is empty."
    TOKEN_INVALID = "TOKEN_INVALID", "The token was rejected; `detail` has why."
    TOKEN_MISSING = "TOKEN_MISSING", "There is no token."
    TOO_MANY_RULES = (
        "TOO_MANY_RULES",
        "The tenant has the maximum of 100 gates with a rule, hold or throttle, or of 400 KiB for them.",
    )
    TOO_MANY_LINES = "TOO_MANY_LINES", "The NDJSON body has more lines than are taken."
    TYPES_INVALID = "TYPES_INVALID", "`types` names a type that no event has."
    UNKNOWN_JOB = "UNKNOWN_JOB", "The token's job is gone."
    UNTIL_INVALID = "UNTIL_INVALID", "`until` is not an instant with its zone."
    WEBHOOKS_OFF = "WEBHOOKS_OFF", "The deployment sends no webhooks: no `LUCIUS_WEBHOOK_KEYS`, or no events."
    WITHDRAWN = "WITHDRAWN", "The job never came to be: submit its request again."
    WAIT_INVALID = (
        "WAIT_INVALID",
        "`wait` is not a whole number of seconds from 0 to 20, or `until` is not an allowed value.",
    )
