"""Codes that LUCIUS gives: reasons of failed jobs and attempts, and of replies and requests without effect (R23).

`JOB.error_code` has a `Reason` or a code of a service. docs/guides/operations.md and the OpenAPI document are generated
from the values of `Reason`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """The reason why a job ended without success: code, cause, and the operator's action."""

    cause: str
    what_to_do: str

    def __new__(cls, code: str, cause: str, what_to_do: str) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.cause = cause
        member.what_to_do = what_to_do
        return member

    ATTEMPTS_EXHAUSTED = (
        "ATTEMPTS_EXHAUSTED",
        "every attempt failed or timed out",
        "read `last_error_code` of the step, which is a code of the service or of LUCIUS. `ACK_TIMEOUT`: no service "
        "acknowledged the directive, so check that the service runs. `LEASE_EXPIRED`: the service sent no heartbeat "
        "and no result in time. `TIME_EXCEEDED`: the attempt reached its maximum time",
    )
    DISPATCH_FAILED = (
        "DISPATCH_FAILED",
        "LUCIUS could not send the directive to Service Bus, after all retries",
        "check the limits and the firewall of the Service Bus namespace, and the role of the app's identity",
    )
    TIME_EXCEEDED = (
        "TIME_EXCEEDED",
        "the job or a step exceeded its time limit, or the job did not start before `expires_at`",
        "run `lucius job show ID`. If a step started, check the service of the step. If no step started, check the "
        "job's quotas and dependencies. Then redrive the job",
    )
    ORCHESTRATION_FAILED = (
        "ORCHESTRATION_FAILED",
        "the job's orchestration ended six times before the job ended",
        "search the host's logs for exceptions of the function `job`",
    )
    FAILED_FINAL = (
        "FAILED_FINAL",
        "a service reported a final failure without an `error`",
        "read `error_message`, then the service's log of the attempt",
    )
    RESULT_REF_REFUSED = (
        "RESULT_REF_REFUSED",
        "a RESULT has a URI that the tenant must not use, or a reference with a credential",
        "read `error_message`. Write the result into the attempt's workspace, allow the URI in the setting or key that "
        "the message names, or omit the credential. Then redrive the job",
    )
    DEPENDENCY_FAILED = (
        "DEPENDENCY_FAILED",
        "a dependency of the job did not succeed",
        "redrive the job that `error_message` names, then redrive the failed job",
    )
    WITHDRAWN = (
        "WITHDRAWN",
        "the creation of the job did not finish in time, for example because the process stopped",
        "submit the request again",
    )


class StepError(StrEnum):
    """Codes that LUCIUS sets as `last_error_code` of a step: a directive was not sent, or an attempt ended without a
    RESULT. Services use codes of their own.
    """

    PUBLISH_FAILED = "PUBLISH_FAILED"
    ACK_TIMEOUT = "ACK_TIMEOUT"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    DISPATCH_FAILED = "DISPATCH_FAILED"
    TIME_EXCEEDED = "TIME_EXCEEDED"


class IgnoreReason(StrEnum):
    """The reason for an occurrence that changes nothing or is not allowed. The reason is in `Outcome.reason_code`, and
    in `reason` of a REPLY_IGNORED event.
    """

    #: the reply names another tenant than the job's
    TENANT_MISMATCH = "TENANT_MISMATCH"
    UNKNOWN_STEP = "UNKNOWN_STEP"
    #: the reply is for another attempt or lease than the step's current one (R5)
    STALE_ATTEMPT = "STALE_ATTEMPT"
    JOB_TERMINAL = "JOB_TERMINAL"
    #: the reply arrived after the attempt had ended
    LATE = "LATE"
    DUPLICATE = "DUPLICATE"
    #: a heartbeat extends no lease after a cancel request
    CANCELLING = "CANCELLING"
    #: the heartbeat would extend the lease by less than the minimum that is written
    HEARTBEAT_NOT_DUE = "HEARTBEAT_NOT_DUE"
    #: the attempt ended, or the next one began
    ATTEMPT_MOVED_ON = "ATTEMPT_MOVED_ON"
    LEASE_STILL_RUNS = "LEASE_STILL_RUNS"
    #: a lane's backlog no longer delays the timeout: the total time is over, or a cancel was requested
    BACKLOG_TOO_LONG = "BACKLOG_TOO_LONG"
    #: the job already has the requested change, or has left the state that the change requires
    ALREADY = "ALREADY"
    NOT_PAUSED = "NOT_PAUSED"
    RESTARTED_ALREADY = "RESTARTED_ALREADY"
    #: the same occurrence was committed before
    REPEATED = "REPEATED"
    EARLIER_STEP_UNSETTLED = "EARLIER_STEP_UNSETTLED"
    IN_BACKOFF = "IN_BACKOFF"
    JOB_LIVE = "JOB_LIVE"
    JOB_SUCCEEDED = "JOB_SUCCEEDED"
    REDRIVEN_ALREADY = "REDRIVEN_ALREADY"
    #: a redrive would reuse a result that the workspace no longer retains
    RESULT_EXPIRED = "RESULT_EXPIRED"
