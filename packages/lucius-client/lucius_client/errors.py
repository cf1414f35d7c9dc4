"""The errors of the client, one class for each kind. A stable problem code of the API selects the most specific
class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lucius_client.exchange import Response
from lucius_client.models import Job, Problem


class LuciusError(Exception):
    """The superclass of all errors of this package."""


class Unreachable(LuciusError):
    """The API does not respond, or the connection broke before the response was complete."""


class BadAddress(LuciusError, ValueError):
    """The `url` of the client is not an HTTP URL."""


class BadId(LuciusError, ValueError):
    """An id or name is empty, `.` or `..`. Such a name changes the path of the request."""


class NotLucius(LuciusError):
    """The response is not in a form of the LUCIUS API, for example because another server sent the response."""


class WaitTimeout(LuciusError):
    """The job did not end, or was not admitted, within the time limit of the call. The job is not stopped."""

    def __init__(self, job: Job) -> None:
        #: last known state of the job
        self.job = job
        super().__init__(
            f"job {job.jobId} is still {job.status} after the time limit of the call, which does not stop the job"
        )


class NoResult(LuciusError):
    """The job has not ended, or did not succeed."""

    def __init__(self, job: Job, text: str) -> None:
        super().__init__(text)
        self.job = job


class ResultUnreadable(LuciusError):
    """This package cannot read the result, for example if the result has more than 64 MiB and `out` is None."""

    def __init__(self, uri: str, text: str) -> None:
        super().__init__(text)
        self.uri = uri


class ResultGone(ResultUnreadable):
    """The blob at the job's `final_output` was deleted."""


class ResultForbidden(ResultUnreadable):
    """The caller has no credential, or the credential cannot read the result."""


class StoreUnreachable(Unreachable):
    """The store of a result does not respond, or responds with 429 or 5xx. Also raised if an artifact cannot be read
    from its store.
    """


class Refused(LuciusError):
    """The API responded with a status of 400 or more, usually with a problem (RFC 9457)."""

    def __init__(self, status: int, problem: Problem, retry_after_s: float | None = None) -> None:
        #: HTTP status
        self.status = status
        self.problem = problem
        #: seconds after which the request can be sent again; None if the API named no time
        self.retry_after_s = retry_after_s
        text = f"{status} {problem.code}: {problem.detail}"
        super().__init__("\n".join([text, *(f"  {each.path}: {each.message}" for each in problem.errors)]))

    @property
    def code(self) -> str:
        """Returns the stable error code, for programs."""
        return self.problem.code

    @property
    def limit(self) -> str | None:
        """Returns the name of the reached limit. Returns None if the problem is not about a limit."""
        return self.problem.limit


class BadRequest(Refused):
    """The request is invalid (HTTP 400). `problem.errors` lists the invalid fields, if known."""


class Unauthenticated(Refused):
    """The token is missing, invalid or expired (HTTP 401)."""


class Forbidden(Refused):
    """The scopes or the tenant of the token do not allow the request (HTTP 403)."""


class NotFound(Refused):
    """The resource does not exist, belongs to another tenant, or is disabled in the deployment (HTTP 404)."""


class JobNotFound(NotFound):
    """The job does not exist, or belongs to another tenant (JOB_NOT_FOUND)."""


class ProtocolNotFound(NotFound):
    """The protocol does not exist (PROTOCOL_NOT_FOUND). The detail lists the known protocols."""


class ProtocolUnknown(BadRequest):
    """A submitted job request names an unknown protocol (PROTOCOL_UNKNOWN). `problem.known` lists the known
    protocols.
    """


class CursorExpired(Refused):
    """The events after the cursor are deleted, or the cursor is from another feed (CURSOR_EXPIRED). Continue at
    `problem.earliest`.
    """


class Conflicting(Refused):
    """The request conflicts with the present state of the resource (HTTP 409)."""


class KeyConflict(Conflicting):
    """A request with another body has used this idempotency key, or a purge of the tenant runs with another reason
    (IDEMPOTENCY_CONFLICT).
    """


class RuleChanged(Refused):
    """The quota changed after the caller read the quota (HTTP 412). Read the quota again."""


class TooLarge(Refused):
    """The request has more than 1 MiB or more than 1,000 lines, or the parameters of a step are too large (HTTP
    413).
    """


class LimitReached(Refused):
    """A limit is reached (HTTP 429). `limit` names the limit, or is None if a requested sweep is already running.
    `retry_after_s` is the number of seconds to wait.
    """


class Unavailable(Refused):
    """LUCIUS cannot process the request now (HTTP 503). For example, a dependency does not respond, concurrent requests
    changed the same rows, or a stored row is unreadable.
    """


class Overloaded(Unavailable):
    """The API has its maximum of submissions, redrives, replays or webhook tests in progress (OVERLOADED). Retry after
    `retry_after_s` seconds.
    """


class ServerFault(Refused):
    """The server failed with a status of 500 or more other than 503."""


_BY_CODE: Mapping[str, type[Refused]] = {
    "CURSOR_EXPIRED": CursorExpired,
    "JOB_NOT_FOUND": JobNotFound,
    "PROTOCOL_NOT_FOUND": ProtocolNotFound,
    "PROTOCOL_UNKNOWN": ProtocolUnknown,
    "IDEMPOTENCY_CONFLICT": KeyConflict,
    "LIMIT_REACHED": LimitReached,
    "OVERLOADED": Overloaded,
}
_BY_STATUS: Mapping[int, type[Refused]] = {
    400: BadRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflicting,
    412: RuleChanged,
    413: TooLarge,
    429: LimitReached,
    503: Unavailable,
}


def error_of(response: Response) -> Refused:
    """Returns the error for a response with a status of 400 or more.

    If the body is not a problem, for example a proxy's page, `detail` has the first 200 bytes of the body.
    """
    problem = _problem(response)
    kind = _BY_CODE.get(problem.code) or _BY_STATUS.get(response.status)
    if kind is None:
        kind = ServerFault if response.status >= 500 else Refused
    return kind(response.status, problem, response.retry_after_s)


def _problem(response: Response) -> Problem:
    try:
        return Problem.model_validate_json(response.body)
    except ValidationError:
        problem: dict[str, Any] = {
            "type": "about:blank",
            "title": "Not an error of the LUCIUS API",
            "status": response.status,
            "code": f"HTTP_{response.status}",
            "detail": response.body[:200].decode("utf-8", "replace").strip() or "the response has no body",
            "errors": [],
            "correlation_id": response.header("X-Correlation-Id") or "",
        }
        return Problem.model_validate(problem)
