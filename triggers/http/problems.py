"""RFC 9457 problems: the one table of what a caller gets for each error (R28)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import azure.functions as func
from pydantic import ValidationError

from shared import errors, refusals, telemetry
from shared.apidocs.problem_codes import ProblemCode

_RETRY_SOON = {"Retry-After": "5"}
_UNAVAILABLE = "a service that LUCIUS needs does not respond; send the same request again"


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a caller gets for one error; the detail is the error's own message where none stands here."""

    status: int
    code: ProblemCode
    detail: str | None = None
    #: (path, message) of what is wrong with the request's content; the body has the first of them
    errors: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    #: members of the body beyond those that every problem has
    members: Mapping[str, Any] = field(default_factory=dict)

    def body(self, correlation_id: str, message: str) -> dict[str, Any]:
        """`application/problem+json`; `code` is stable, `detail` is for people."""
        detail = self.detail or message
        if len(self.errors) > refusals.MAX_REQUEST_ERRORS:
            detail += f" (the first {refusals.MAX_REQUEST_ERRORS}; there are more)"
        return {
            "type": f"urn:lucius:problem:{self.code.lower().replace('_', '-')}",
            "title": self.code.replace("_", " ").capitalize(),
            "status": self.status,
            "code": str(self.code),
            "detail": detail,
            "errors": [
                {"path": _short(path), "message": _short(text)}
                for path, text in self.errors[: refusals.MAX_REQUEST_ERRORS]
            ],
            "correlation_id": correlation_id,
            **self.members,
        }


class RequestError(refusals.Refused):
    """The request itself is wrong: a parameter, its body, or a path that leads nowhere."""

    def __init__(
        self,
        code: ProblemCode,
        detail: str,
        *,
        status: int = 400,
        errors: tuple[tuple[str, str], ...] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.problem = Problem(status=status, code=code, errors=errors, headers=headers or {}, members=members or {})

    @property
    def code(self) -> str:
        return self.problem.code


def _challenge(**parameters: str) -> dict[str, str]:
    """`WWW-Authenticate` as RFC 6750 section 3 has it."""
    named = ", ".join(f'{name}="{value}"' for name, value in {"realm": "lucius", **parameters}.items())
    return {"WWW-Authenticate": f"Bearer {named}"}


def _fixed(status: int, code: ProblemCode, **rest: Any) -> Callable[[Any], Problem]:
    found = Problem(status=status, code=code, **rest)
    return lambda error: found


#: the problem of each error; an error that is not here has the problem of its nearest base class
_PROBLEMS: Mapping[type[Exception], Callable[[Any], Problem]] = {
    RequestError: lambda error: error.problem,
    ValidationError: lambda error: Problem(
        status=400,
        code=ProblemCode.ENVELOPE_INVALID,
        detail="the request body is not a valid envelope; see errors",
        errors=errors_of(error),
    ),
    refusals.RequestInvalid: lambda error: Problem(status=400, code=ProblemCode.REQUEST_INVALID, errors=error.errors),
    refusals.ProtocolUnknown: lambda error: Problem(
        status=400,
        code=ProblemCode.PROTOCOL_UNKNOWN,
        errors=(("request_type", "is not known"),),
        members={"known": error.known},
    ),
    refusals.FilterInvalid: lambda error: Problem(
        status=400, code=ProblemCode(error.code), errors=((error.word, str(error)),)
    ),
    errors.LedgerRefused: _fixed(
        400, ProblemCode.NOT_STORABLE, detail="the ledger cannot hold a value of this request"
    ),
    errors.ReplyUnfit: lambda error: Problem(
        status=404 if error.reason == ProblemCode.UNKNOWN_JOB else 400,
        code=ProblemCode.__members__.get(error.reason, ProblemCode.REPLY_INVALID),
        detail=error.detail,
    ),
    errors.DataLost: _fixed(
        410,
        ProblemCode.DATA_LOST,
        detail="a stored part of it is gone; only an operator can restore it, the log names it",
    ),
    refusals.TokenMissing: _fixed(401, ProblemCode.TOKEN_MISSING, headers=_challenge()),
    refusals.TokenInvalid: lambda error: Problem(
        status=401,
        code=ProblemCode.TOKEN_INVALID,
        headers=_challenge(error="invalid_token", error_description=str(error)),
    ),
    refusals.CallbackTokenInvalid: _fixed(401, ProblemCode.TOKEN_INVALID, headers={"WWW-Authenticate": "Bearer"}),
    refusals.ScopeMissing: lambda error: Problem(
        status=403,
        code=ProblemCode.SCOPE_MISSING,
        headers=_challenge(error="insufficient_scope", scope=error.scope),
    ),
    refusals.TenantMissing: _fixed(403, ProblemCode.TENANT_MISSING),
    refusals.TenantForbidden: _fixed(403, ProblemCode.TENANT_FORBIDDEN),
    refusals.NotYourAttempt: _fixed(403, ProblemCode.NOT_YOUR_ATTEMPT),
    refusals.JobNotFound: _fixed(404, ProblemCode.JOB_NOT_FOUND),
    refusals.EventsOff: _fixed(404, ProblemCode.EVENTS_OFF),
    refusals.CursorExpired: lambda error: Problem(
        status=410, code=ProblemCode.CURSOR_EXPIRED, members={"earliest": error.earliest}
    ),
    refusals.HookUrlRefused: lambda error: Problem(
        status=400, code=ProblemCode.HOOK_URL_REFUSED, errors=((error.path, error.why),)
    ),
    refusals.WebhooksOff: _fixed(404, ProblemCode.WEBHOOKS_OFF),
    refusals.HookNotFound: _fixed(404, ProblemCode.HOOK_NOT_FOUND),
    refusals.DeliveryNotFound: _fixed(404, ProblemCode.DELIVERY_NOT_FOUND),
    refusals.HookLimit: _fixed(409, ProblemCode.HOOK_LIMIT),
    refusals.DefaultHook: _fixed(409, ProblemCode.DEFAULT_HOOK),
    refusals.HookKeyGone: _fixed(409, ProblemCode.HOOK_KEY_GONE),
    refusals.RejectedNotFound: _fixed(404, ProblemCode.REJECTED_NOT_FOUND),
    refusals.JobTerminal: _fixed(409, ProblemCode.JOB_TERMINAL),
    refusals.ControlNotPossible: _fixed(409, ProblemCode.CONTROL_NOT_POSSIBLE),
    refusals.NotRedrivable: lambda error: Problem(status=409, code=ProblemCode(error.reason)),
    refusals.DependencyUnknown: _fixed(400, ProblemCode.DEPENDENCY_UNKNOWN),
    refusals.IdempotencyConflict: lambda error: Problem(
        status=409, code=ProblemCode.IDEMPOTENCY_CONFLICT, members={"jobId": error.job_id}
    ),
    refusals.StillNotApplicable: lambda error: Problem(
        status=409, code=ProblemCode.STILL_NOT_APPLICABLE, members={"reason": error.reason}
    ),
    refusals.BulkNotFound: _fixed(404, ProblemCode.BULK_NOT_FOUND),
    refusals.BulkLimit: _fixed(409, ProblemCode.BULK_LIMIT),
    refusals.BulkEnded: _fixed(409, ProblemCode.BULK_ENDED),
    refusals.BulkKeyConflict: _fixed(409, ProblemCode.IDEMPOTENCY_CONFLICT),
    refusals.HookKeyConflict: _fixed(409, ProblemCode.IDEMPOTENCY_CONFLICT),
    refusals.GateNotFound: _fixed(404, ProblemCode.GATE_NOT_FOUND),
    refusals.IncidentNotFound: _fixed(404, ProblemCode.INCIDENT_NOT_FOUND),
    refusals.IncidentSettled: _fixed(409, ProblemCode.INCIDENT_SETTLED),
    refusals.IncidentNoJob: _fixed(409, ProblemCode.INCIDENT_NO_JOB),
    refusals.GateUnclear: _fixed(400, ProblemCode.GATE_UNCLEAR),
    refusals.QuotaInvalid: lambda error: Problem(status=400, code=ProblemCode.QUOTA_INVALID, errors=error.errors),
    refusals.QuotaForbidden: _fixed(403, ProblemCode.QUOTA_FORBIDDEN),
    refusals.NoBreaker: _fixed(409, ProblemCode.NO_BREAKER),
    refusals.RuleChanged: _fixed(412, ProblemCode.RULE_CHANGED),
    refusals.TooManyRules: _fixed(400, ProblemCode.TOO_MANY_RULES),
    refusals.BodyTooLarge: _fixed(413, ProblemCode.BODY_TOO_LARGE),
    refusals.DirectiveTooLarge: _fixed(413, ProblemCode.DIRECTIVE_TOO_LARGE),
    refusals.LimitReached: lambda error: Problem(
        status=429,
        code=ProblemCode.LIMIT_REACHED,
        headers={"Retry-After": str(error.retry_after_s)},
        members={"limit": error.limit},
    ),
    refusals.Overloaded: lambda error: Problem(
        status=503, code=ProblemCode.OVERLOADED, headers={"Retry-After": str(error.retry_after_s)}
    ),
    errors.Undecodable: _fixed(
        503,
        ProblemCode.DEPENDENCY_UNAVAILABLE,
        detail="a stored row is of a later release, or broken; try again, or ask an operator: the log names the row",
        headers=_RETRY_SOON,
    ),
    errors.OtherStoreVersion: _fixed(503, ProblemCode.DEPENDENCY_UNAVAILABLE, headers=_RETRY_SOON),
    errors.UnknownStatus: _fixed(503, ProblemCode.DEPENDENCY_UNAVAILABLE, headers=_RETRY_SOON),
    errors.Contended: _fixed(503, ProblemCode.DEPENDENCY_UNAVAILABLE, headers=_RETRY_SOON),
    errors.CreationWithdrawn: _fixed(503, ProblemCode.DEPENDENCY_UNAVAILABLE, headers=_RETRY_SOON),
    errors.Transient: _fixed(503, ProblemCode.DEPENDENCY_UNAVAILABLE, detail=_UNAVAILABLE, headers=_RETRY_SOON),
    Exception: _fixed(
        500, ProblemCode.INTERNAL, detail="something went wrong here; the log has it under correlation_id"
    ),
}


def problem_response(error: Exception, correlation_id: str) -> func.HttpResponse:
    """The problem that an error becomes, logged where the fault is not the caller's."""
    found = _problem(error, correlation_id)
    return func.HttpResponse(
        json.dumps(found.body(correlation_id, str(error)), ensure_ascii=False),
        status_code=found.status,
        headers={"X-Correlation-Id": correlation_id, **found.headers},
        mimetype="application/problem+json",
    )


def problem_body(error: Exception, correlation_id: str) -> dict[str, Any]:
    """The body of `problem_response`, logged alike: for a line of a batch."""
    return _problem(error, correlation_id).body(correlation_id, str(error))


def status_of(error: Exception) -> int:
    """The status of `problem_response`; nothing is logged."""
    return _PROBLEMS[_nearest(error)](error).status


def _nearest(error: Exception) -> type[Exception]:
    return next(each for each in type(error).__mro__ if each in _PROBLEMS)


def _problem(error: Exception, correlation_id: str) -> Problem:
    nearest = _nearest(error)
    if nearest is Exception:
        logging.getLogger("lucius").error("unexpected error, correlation_id=%s", correlation_id, exc_info=error)
    elif nearest in (errors.LedgerRefused, errors.DataLost, errors.Undecodable):
        telemetry.warn("LEDGER_REFUSED", correlation_id=correlation_id, reason=error)
    elif isinstance(error, errors.Transient):
        telemetry.record_fault(error, "DEPENDENCY_UNAVAILABLE", correlation_id=correlation_id)
    return _PROBLEMS[nearest](error)


def errors_of(wrong: ValidationError) -> tuple[tuple[str, str], ...]:
    """(path, message) of everything that a model found wrong."""
    return tuple(
        (".".join(str(part) for part in each["loc"]), each["msg"].removeprefix("Value error, "))
        for each in wrong.errors(include_url=False, include_context=False, include_input=False)
    )


def _short(text: str) -> str:
    return text if len(text) <= refusals.MAX_REQUEST_ERROR else f"{text[: refusals.MAX_REQUEST_ERROR - 3]}..."
