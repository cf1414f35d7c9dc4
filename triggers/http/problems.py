"""Problems (RFC 9457): the response to each error (R28)."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any

import azure.functions as func
from pydantic import ValidationError

from shared import errors, telemetry
from shared.apidocs.problem_codes import ProblemCode, Refusal
from shared.refusals import MAX_REQUEST_ERROR, MAX_REQUEST_ERRORS, Refused

_RETRY_SOON = {"Retry-After": "5"}


class RequestError(Refused):
    """A refusal with the code, status and headers of its problem. Most refuse an invalid parameter, body or path."""

    def __init__(
        self,
        code: Refusal,
        detail: str,
        *,
        errors: tuple[tuple[str, str], ...] = (),
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code, self.status = code.code, code.status
        self.errors, self.headers, self.members = errors, headers or {}, members or {}


def _fault(code: Refusal, detail: str | None = None, **rest: Any) -> Callable[[Exception], Refused]:
    """Returns a problem whose `detail` replaces an error's message that callers must not read."""
    return lambda error: RequestError(code, detail or str(error), **rest)


def _unavailable(detail: str | None = None) -> Callable[[Exception], Refused]:
    return _fault(ProblemCode.DEPENDENCY_UNAVAILABLE, detail, headers=_RETRY_SOON)


#: errors of an operation that does not repeat a refused write
_LOST_RACES = (errors.Conflict, errors.AlreadyExists)

#: problem for each error that is not a refusal; another error has the one of its nearest base class
_FAULTS: Mapping[type[Exception], Callable[[Any], Refused]] = {
    ValidationError: lambda error: RequestError(
        ProblemCode.ENVELOPE_INVALID, "the body is not a valid job request; see errors", errors=errors_of(error)
    ),
    errors.ReplyUnfit: lambda error: RequestError(
        ProblemCode.__members__.get(error.reason, ProblemCode.REPLY_INVALID), error.detail
    ),
    errors.LedgerRefused: _fault(
        ProblemCode.NOT_STORABLE, "the ledger cannot store a value of the request; send a request without that value"
    ),
    errors.DataLost: _fault(
        ProblemCode.DATA_LOST,
        "a stored part of the job or rejected message is gone; only an operator can restore the part",
    ),
    errors.Undecodable: _unavailable(
        "a stored row is invalid, or from a later release; repeat the request, and report the correlation_id if the "
        "error persists"
    ),
    errors.JobVanished: _unavailable("the job was archived or deleted during the request; repeat the request"),
    errors.OtherStoreVersion: _unavailable(),
    errors.UnknownStatus: _unavailable(),
    errors.Contended: _unavailable(),
    errors.CreationWithdrawn: _unavailable(),
    # nothing of the transaction was written
    **dict.fromkeys(_LOST_RACES, _unavailable("another request or process changed the same rows; repeat the request")),
    errors.Transient: _unavailable(
        "the storage, Service Bus or another backend is unavailable; repeat the request after 5 seconds"
    ),
    Exception: _fault(ProblemCode.INTERNAL, "internal error; report the correlation_id"),
}


def problem_response(error: Exception, correlation_id: str) -> func.HttpResponse:
    """Makes the problem response for an error. Logs the error, except a `Refused` and an invalid request or reply."""
    refused = _logged(error, correlation_id)
    return func.HttpResponse(
        json.dumps(_body(refused, correlation_id), ensure_ascii=False),
        status_code=refused.status,
        headers={"X-Correlation-Id": correlation_id, **refused.headers},
        mimetype="application/problem+json",
    )


def problem_body(error: Exception, correlation_id: str) -> dict[str, Any]:
    """Returns the body of `problem_response` for one line of a batch or a GraphQL error. Logs the error as
    `problem_response` does.
    """
    return _body(_logged(error, correlation_id), correlation_id)


def status_of(error: Exception) -> int:
    """Returns the status of `problem_response`. Logs nothing."""
    return _refusal(error).status


def _body(refused: Refused, correlation_id: str) -> dict[str, Any]:
    """Makes the `application/problem+json` body. `code` is stable, and `detail` is for people."""
    code, detail = refused.code, str(refused)
    if len(refused.errors) > MAX_REQUEST_ERRORS:
        detail += f" (only the first {MAX_REQUEST_ERRORS} errors are listed)"
    return {
        "type": f"/v1/problems#{code}",
        "title": code.replace("_", " ").capitalize(),
        "status": refused.status,
        "code": code,
        "detail": detail,
        "errors": [
            {"path": _short(path), "message": _short(text)} for path, text in refused.errors[:MAX_REQUEST_ERRORS]
        ],
        "correlation_id": correlation_id,
        **refused.members,
    }


def _refusal(error: Exception) -> Refused:
    return error if isinstance(error, Refused) else _FAULTS[_nearest(error)](error)


def _nearest(error: Exception) -> type[Exception]:
    return next(each for each in type(error).__mro__ if each in _FAULTS)


def _logged(error: Exception, correlation_id: str) -> Refused:
    if isinstance(error, Refused):
        return error
    nearest = _nearest(error)
    if nearest in (Exception, *_LOST_RACES):
        logging.getLogger("lucius").error("unexpected error, correlation_id=%s", correlation_id, exc_info=error)
    elif nearest in (errors.LedgerRefused, errors.DataLost, errors.Undecodable):
        telemetry.warn("LEDGER_REFUSED", correlation_id=correlation_id, reason=error)
    elif isinstance(error, errors.Transient):
        telemetry.record_fault(error, "DEPENDENCY_UNAVAILABLE", correlation_id=correlation_id)
    return _FAULTS[nearest](error)


def errors_of(wrong: ValidationError) -> tuple[tuple[str, str], ...]:
    """Returns pairs (path, message) of all errors that a model found."""
    return tuple(
        (".".join(str(part) for part in each["loc"]), each["msg"].removeprefix("Value error, "))
        for each in wrong.errors(include_url=False, include_context=False, include_input=False)
    )


def _short(text: str) -> str:
    return text if len(text) <= MAX_REQUEST_ERROR else f"{text[: MAX_REQUEST_ERROR - 3]}..."
