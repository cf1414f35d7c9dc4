"""Why a job failed, why a reply or a request changed nothing: every code that LUCIUS itself gives (R23).

`JOB.error_code` holds a `Reason` or the code that a service gave. A member of `Reason` is one row, from which
docs/guides/operations.md and the OpenAPI document are generated.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class Reason(StrEnum):
    """Why a job ended without success, as LUCIUS decided it: the code, its cause, and what an operator can do."""

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
        "read `last_error_code` of the step: `ACK_TIMEOUT` means that no service took the directive (is it "
        "running?), `LEASE_EXPIRED` that one took it and went silent, `TIME_EXCEEDED` that it was at work for an "
        "attempt's longest time, anything else is the service's own",
    )
    DISPATCH_FAILED = (
        "DISPATCH_FAILED",
        "the bus refused the directive at every try",
        "look at the bus: its quota, its firewall, the identity's role",
    )
    TIME_EXCEEDED = (
        "TIME_EXCEEDED",
        "the longest time of the job or of a step ran out",
        "`lucius job explain` names the step that it waited in",
    )
    ORCHESTRATION_FAILED = (
        "ORCHESTRATION_FAILED",
        "its orchestration ended six times before the job did",
        "look for exceptions of `job` in the host's logs",
    )
    FAILED_FINAL = (
        "FAILED_FINAL",
        "a service gave up and named no code",
        "read `error_message`; the service's log has the attempt",
    )
    RESULT_REF_REFUSED = (
        "RESULT_REF_REFUSED",
        "a service's result leads where no reference of the tenant may",
        "read `error_message`; let the service write into its workspace, or allow the place "
        "(`LUCIUS_ALLOWED_REF_HOSTS`), then redrive",
    )
    DEPENDENCY_FAILED = (
        "DEPENDENCY_FAILED",
        "a job that it depends on did not succeed",
        "`error_message` names that job; redrive that one, then this one, which waits for it again",
    )
    WITHDRAWN = (
        "WITHDRAWN",
        "its creation was begun and never finished",
        "submit the request again",
    )


class StepError(StrEnum):
    """`last_error_code` of a step whose attempt ended without a RESULT; services give codes of their own."""

    PUBLISH_FAILED = "PUBLISH_FAILED"
    ACK_TIMEOUT = "ACK_TIMEOUT"
    LEASE_EXPIRED = "LEASE_EXPIRED"
    DISPATCH_FAILED = "DISPATCH_FAILED"
    TIME_EXCEEDED = "TIME_EXCEEDED"


class IgnoreReason(StrEnum):
    """Why an occurrence changes nothing, or cannot happen: `Outcome.reason_code`, and `reason` of REPLY_IGNORED."""

    #: the reply is of another tenant than the job
    TENANT_MISMATCH = "TENANT_MISMATCH"
    UNKNOWN_STEP = "UNKNOWN_STEP"
    #: of another attempt or lease than the step's current one (R5)
    STALE_ATTEMPT = "STALE_ATTEMPT"
    JOB_TERMINAL = "JOB_TERMINAL"
    #: after the attempt had ended
    LATE = "LATE"
    DUPLICATE = "DUPLICATE"
    #: a heartbeat of a job that is to be cancelled extends no lease
    CANCELLING = "CANCELLING"
    #: the heartbeat would move the lease by less than the share that is worth a write
    HEARTBEAT_NOT_DUE = "HEARTBEAT_NOT_DUE"
    #: the attempt is over, or another one has begun
    ATTEMPT_MOVED_ON = "ATTEMPT_MOVED_ON"
    LEASE_STILL_RUNS = "LEASE_STILL_RUNS"
    #: the lane's backlog does not excuse the silence any more: the total time is over, or the job is to be cancelled
    BACKLOG_TOO_LONG = "BACKLOG_TOO_LONG"
    #: the control or redrive was asked for before
    ALREADY = "ALREADY"
    NOT_PAUSED = "NOT_PAUSED"
    RESTARTED_ALREADY = "RESTARTED_ALREADY"
    #: this very occurrence was committed before
    REPEATED = "REPEATED"
    EARLIER_STEP_UNSETTLED = "EARLIER_STEP_UNSETTLED"
    IN_BACKOFF = "IN_BACKOFF"
    JOB_LIVE = "JOB_LIVE"
    JOB_SUCCEEDED = "JOB_SUCCEEDED"
    REDRIVEN_ALREADY = "REDRIVEN_ALREADY"
    #: a redrive would carry a result that the workspace keeps no longer
    RESULT_EXPIRED = "RESULT_EXPIRED"
