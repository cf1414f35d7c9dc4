"""Errors of requests. Each error is one class with its code, HTTP status, meaning and text (R28).

`shared.apidocs.problem_codes` has the errors that only the HTTP layer raises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from shared.errors import LuciusError

#: maximum errors in a problem; the check finds one more, so that `detail` can state that there are more
MAX_REQUEST_ERRORS = 50
#: maximum length of the path and of the message of an error
MAX_REQUEST_ERROR = 200


class Refused(LuciusError):
    """The request is refused; nothing was changed."""

    #: stable code. Default: the name of the class in capitals
    code: str
    #: HTTP status. Default: that of the base class
    status = 400
    #: meaning for the API documents: the docstring of the class
    meaning: str
    #: default message
    text: str | None = None
    #: pairs (path, message) of the errors in the request's content
    errors: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = {}
    #: further fields of the problem
    members: Mapping[str, Any] = {}

    def __init_subclass__(cls, *, status: int | None = None, code: str | None = None) -> None:
        cls.status = status or cls.status
        cls.code = code or re.sub(r"(?<=[a-z])(?=[A-Z])", "_", cls.__name__).upper()
        cls.meaning = " ".join((cls.__doc__ or "").split())

    def __init__(self, text: str | None = None) -> None:
        super().__init__(text or self.text)


def _challenge(**parameters: str) -> dict[str, str]:
    """Returns the `WWW-Authenticate` header of RFC 6750 section 3."""
    named = ", ".join(f'{name}="{value}"' for name, value in {"realm": "lucius", **parameters}.items())
    return {"WWW-Authenticate": f"Bearer {named}"}


class DependencyUnknown(Refused):
    """A dependency is not a job of the tenant; `detail` lists the unknown ids and `key:` names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(f"dependencies not found: {', '.join(names)}; check the ids or keys, and the tenant")


class TokenMissing(Refused, status=401):
    """The request has no token; send a token in the header `Authorization: Bearer`."""

    text = "token missing; send a token in the header Authorization: Bearer"
    headers = _challenge()


class TokenInvalid(Refused, status=401):
    """The token was rejected; see `detail`."""

    #: key id and issuer in the token, for logs
    named: Mapping[str, str] = {}

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.headers = _challenge(error="invalid_token", error_description=why)


class CallbackTokenInvalid(Refused, status=401, code="TOKEN_INVALID"):
    """The token of a callback was rejected; send the token of the directive."""

    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class ScopeMissing(Refused, status=403):
    """The token does not have the scope that this route requires; `detail` names the scope."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"scope {scope} missing; request a token with this scope")
        self.headers = _challenge(error="insufficient_scope", scope=scope)


class TenantMissing(Refused, status=403):
    """The token does not name exactly one tenant; see `detail`."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the token does not name exactly one tenant: {why}")


class TenantForbidden(Refused, status=403):
    """The token is for another tenant than the request, or its role over all tenants permits only reading or
    only changes. Use a token of the tenant.
    """

    text = (
        "the token is for another tenant, or its role over all tenants permits only reading or only changes; use a "
        "token of the tenant"
    )


class JobNotFound(Refused, status=404):
    """Job not found, or the job belongs to another tenant. Check the id and the tenant."""

    def __init__(self, job_id: str) -> None:
        super().__init__(f"job not found: {job_id[:128]}; check the id and the tenant")


class EventsOff(Refused, status=404):
    """Events are disabled: `LUCIUS_EVENTS` is `off`. An operator must set `feed` or `topic`."""

    text = (
        "events are disabled in this deployment (LUCIUS_EVENTS=off); an operator must set LUCIUS_EVENTS=feed or topic"
    )


class CursorExpired(Refused, status=410):
    """The cursor has expired, or is from another feed; restart from `earliest`."""

    def __init__(self, earliest: str) -> None:
        super().__init__("cursor expired, or from another feed; restart from `earliest`")
        self.earliest = earliest
        self.members = {"earliest": earliest}


class ControlNotPossible(Refused, status=409):
    """The job's state does not allow the action; `detail` has the cause. `GET /v1/jobs/{jobId}/explain` explains the
    state.
    """

    def __init__(self, job_id: str, status: str, control: str, why: str | None = None) -> None:
        super().__init__(f"cannot {control} job {job_id}: the job {why or f'is {status}'}")


class JobTerminal(ControlNotPossible):
    """The job has ended, and its state is final. A failed or cancelled job can be redriven."""


class FilterInvalid(Refused):
    """A filter parameter is unknown or has an invalid value. See `errors`."""

    def __init__(self, word: str, detail: str) -> None:
        super().__init__(f"invalid filter parameter {word[:128]}; see errors")
        self.word = word
        self.code = f"{word.upper()}_INVALID"
        self.errors = ((word, detail),)


class NotRedrivable(Refused, status=409):
    """The job cannot be redriven; `detail` has the cause."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        #: code: DEPENDENCY_FAILED, JOB_LIVE, JOB_SUCCEEDED, RESULT_EXPIRED or WITHDRAWN
        self.code = reason


class IdempotencyConflict(Refused, status=409):
    """Another request used the key with another body, or a purge of the tenant runs with another `reason`. `jobId` has
    the job of that request, or `detail` names the bulk operation or webhook. Use a new key, or send the first body
    again. After a change, rotation or deletion of the webhook, only a new key works.
    """

    text = "idempotency key already used with another body; use a new key, or send the first body again"

    def __init__(self, job_id: str) -> None:
        super().__init__()
        self.members = {"jobId": job_id}


class ProtocolUnknown(Refused):
    """`request_type` is unknown. Use a job type of the list `known`."""

    def __init__(self, request_type: str, known: Sequence[str]) -> None:
        super().__init__(f"unknown request_type: {request_type!r}; use one of {', '.join(known)}")
        self.errors = (("request_type", "must be a job type of `known`"),)
        self.members = {"known": list(known)}


class RequestInvalid(Refused):
    """A value of the job request is missing, or is not allowed by the protocol or by the settings of the app. See
    `errors`."""

    text = "a value of the job request is missing or not allowed; see errors"

    def __init__(self, errors: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.errors = tuple(errors)


class DirectiveTooLarge(Refused, status=413):
    """The parameters of a step are too large for the bus; `detail` has the maximum. Put large parameters into a
    blob, and pass the URI of the blob.
    """

    def __init__(self, step_id: str, size: int, limit: int) -> None:
        super().__init__(
            f"the message of step {step_id} is too large: {size} bytes, maximum {limit}; put large parameters into a "
            "blob and pass the URI of the blob"
        )


class BodyTooLarge(Refused, status=413):
    """The body is larger than its maximum: 256 KiB for a callback, 16 KiB for a GraphQL request, 1 MiB for others. Send
    a shorter body.
    """


class LimitReached(Refused, status=429):
    """The limit in `limit` is reached, or its quota is held or throttled; retry after `Retry-After`."""

    def __init__(self, limit: str, detail: str, retry_after_s: int) -> None:
        super().__init__(f"limit reached: {detail}; repeat the request after {retry_after_s} s")
        #: name of a setting, or `max_staged`
        self.limit = limit
        self.headers = {"Retry-After": str(retry_after_s)}
        self.members = {"limit": limit}


class BulkNotFound(Refused, status=404):
    """Bulk operation not found, or the bulk operation belongs to another tenant. Check the id and the tenant."""

    def __init__(self, bulk_id: str) -> None:
        super().__init__(f"bulk operation not found: {bulk_id[:128]}; check the id and the tenant")


class BulkLimit(Refused, status=409):
    """The tenant has 20 running bulk operations, the maximum. Wait until a bulk operation ends, or cancel a
    bulk operation.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the tenant has {limit} running bulk operations, the maximum; wait until an operation ends, or cancel an "
            "operation"
        )


class BulkEnded(Refused, status=409):
    """The bulk operation is DONE and cannot be cancelled. Read the outcomes of the bulk operation."""

    def __init__(self, bulk_id: str) -> None:
        super().__init__(f"cannot cancel bulk operation {bulk_id}: the operation is DONE; read its outcomes")


class BulkKeyConflict(Refused, status=409, code="IDEMPOTENCY_CONFLICT"):
    """The idempotency key belongs to a bulk operation with another body. Use a new key."""

    def __init__(self, bulk_id: str, text: str | None = None) -> None:
        super().__init__(
            text or f"Idempotency-Key already used for bulk operation {bulk_id} with another body; use a new key"
        )
        self.bulk_id = bulk_id


class GateNotFound(Refused, status=404):
    """Quota not found, the quota has no limits to delete, or the quota belongs to another tenant. See
    `detail`.
    """

    def __init__(self, named: str) -> None:
        super().__init__(f"quota not found: {named[:300]}")


class IncidentNotFound(Refused, status=404):
    """Incident not found, or the incident belongs to another tenant. Check the id and the tenant."""

    def __init__(self, incident_id: str) -> None:
        super().__init__(f"incident not found: {incident_id[:160]}; check the id and the tenant")


class IncidentSettled(Refused, status=409):
    """The incident is closed with another state, and a closed incident cannot change. Read the incident for its actor
    and reason.
    """

    def __init__(self, incident_id: str, state: str) -> None:
        super().__init__(
            f"incident {incident_id} is already {state}, a final state; read the incident for the actor and the reason"
        )


class IncidentNoJob(Refused, status=409):
    """The incident has no job to redrive. Resolve or dismiss the incident."""

    def __init__(self, incident_id: str) -> None:
        super().__init__(f"incident {incident_id} has no job to redrive; resolve or dismiss the incident")


class GateUnclear(Refused):
    """The request does not name exactly one quota; `detail` has the possible forms."""

    text = (
        "the request does not name exactly one quota; name a tenant, a tenant with a job type or source, or a quota "
        "over all tenants"
    )


class QuotaInvalid(Refused):
    """The change is not valid for the quota or has no reason, or the request names an invalid tenant or source. See
    `errors`.
    """

    text = "invalid request for the quota; see errors"

    def __init__(self, *errors: tuple[str, str]) -> None:
        super().__init__()
        self.errors = errors


class QuotaForbidden(Refused, status=403):
    """Only operators can change limits, reset breakers, admit jobs, and change quotas over all tenants. Tenant callers
    can hold and throttle their tenant's quotas, but not change or end an operator's hold or throttle. Only callers who
    see all tenants can read the log of a quota over all tenants.
    """

    text = (
        "only operators can change limits, breakers, operators' holds and throttles, and quotas over all tenants, and "
        "admit jobs; ask an operator"
    )


class RuleChanged(Refused, status=412):
    """The quota's limits, hold or throttle changed, or its breaker was reset, after the last read; read the quota
    again.
    """

    text = "the quota changed after the last read; read the quota again"


class NoBreaker(Refused, status=409):
    """The quota has no circuit breaker. Set `breaker` first. Only quotas of job types can have a breaker."""

    def __init__(self, named: str) -> None:
        super().__init__(
            f"quota {named} has no circuit breaker; set a breaker first (only quotas of job types can have one)"
        )


class TooManyRules(Refused):
    """The tenant has the maximum of 100 quotas with limits, a hold or a throttle, or the maximum of 400 KiB for these
    settings. Remove the settings of a quota first.
    """

    def __init__(self, limit: int | str) -> None:
        of = "quotas with limits, hold or throttle" if isinstance(limit, int) else "of limits, holds and throttles"
        super().__init__(f"the tenant has {limit} {of}, the maximum; remove the settings of a quota first")


class Overloaded(Refused, status=503):
    """The process has its maximum of submissions, redrives, replays or webhook tests in progress, in total or for the
    tenant; retry after `Retry-After`.
    """

    text = (
        "the process has its maximum of requests of this kind in progress, in total or for the tenant; repeat "
        "the request after 2 seconds"
    )
    headers: Mapping[str, str] = {"Retry-After": "2"}


class NotYourAttempt(Refused, status=403):
    """The body names another job, step, attempt or lease than the token. Send the values of the directive."""

    def __init__(self, field: str) -> None:
        super().__init__(f"{field} differs between the request and the token; send the {field} of the directive")


class RejectedNotFound(Refused, status=404):
    """Rejected message not found, or the message belongs to another tenant. Check the id and the tenant. A message
    expires after 90 days.
    """

    def __init__(self, id_: str) -> None:
        super().__init__(f"rejected message not found: {id_[:128]}; check the id and the tenant")


class StillNotApplicable(Refused, status=409):
    """No job can accept the message, which stays rejected. `reason` has the cause. Remove the cause, then redrive the
    message again.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"no job can accept the message: {detail}; remove the cause, then redrive the message again")
        self.members = {"reason": reason}
