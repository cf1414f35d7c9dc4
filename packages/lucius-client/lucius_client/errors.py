"""What can go wrong, one class a kind; the API's stable `code` tells the finest kinds apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from lucius_client.exchange import Response
from lucius_client.models import Job, Problem


class LuciusError(Exception):
    """Everything that this package raises."""


class Unreachable(LuciusError):
    """Nobody answers, or the answer broke off."""


class BadAddress(LuciusError, ValueError):
    """The URL of the API is none."""


class BadId(LuciusError, ValueError):
    """What can be no id or name: it would make another address."""


class NotLucius(LuciusError):
    """What answers there speaks another language than this client."""


class WaitTimeout(LuciusError):
    """The job had not ended when the time was up; it goes on."""

    def __init__(self, job: Job) -> None:
        self.job = job
        super().__init__(f"job {job.jobId} is still {job.status}")


class Refused(LuciusError):
    """The API answered with a problem (RFC 9457)."""

    def __init__(self, status: int, problem: Problem, retry_after_s: float | None = None) -> None:
        self.status = status
        self.problem = problem
        #: seconds, where the API said when to come again
        self.retry_after_s = retry_after_s
        text = f"{status} {problem.code}: {problem.detail}"
        super().__init__("\n".join([text, *(f"  {each.path}: {each.message}" for each in problem.errors)]))

    @property
    def code(self) -> str:
        """Stable, for programs."""
        return self.problem.code

    @property
    def limit(self) -> str | None:
        """Of `LimitReached`: the limit's name."""
        return self.problem.limit


class BadRequest(Refused):
    """400: the request is wrong; `problem.errors` says where."""


class Unauthenticated(Refused):
    """401: no token, or one that is not (or no longer) good."""


class Forbidden(Refused):
    """403: the token's scopes or tenant do not reach so far."""


class NotFound(Refused):
    """404: not there, or not this tenant's."""


class JobNotFound(NotFound):
    """JOB_NOT_FOUND."""


class ProtocolNotFound(NotFound):
    """PROTOCOL_NOT_FOUND: the detail lists the known ones."""


class ProtocolUnknown(BadRequest):
    """PROTOCOL_UNKNOWN, of a submit: `problem.known` lists the known ones."""


class Conflicting(Refused):
    """409: it does not fit what is there."""


class KeyConflict(Conflicting):
    """IDEMPOTENCY_CONFLICT: the key belongs to a request with another body."""


class TooLarge(Refused):
    """413: over 1 MiB, or over 1000 lines."""


class LimitReached(Refused):
    """429: too many jobs are active; `limit` names the limit, `retry_after_s` says when to come again."""


class Unavailable(Refused):
    """503: something that LUCIUS needs does not answer."""


class ServerFault(Refused):
    """Any other 5xx."""


_BY_CODE: Mapping[str, type[Refused]] = {
    "JOB_NOT_FOUND": JobNotFound,
    "PROTOCOL_NOT_FOUND": ProtocolNotFound,
    "PROTOCOL_UNKNOWN": ProtocolUnknown,
    "IDEMPOTENCY_CONFLICT": KeyConflict,
    "LIMIT_REACHED": LimitReached,
}
_BY_STATUS: Mapping[int, type[Refused]] = {
    400: BadRequest,
    401: Unauthenticated,
    403: Forbidden,
    404: NotFound,
    409: Conflicting,
    413: TooLarge,
    429: LimitReached,
    503: Unavailable,
}


def error_of(response: Response) -> Refused:
    """The error that an answer of 400 or more is; a proxy's page becomes a problem too."""
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
            "title": "No problem of LUCIUS",
            "status": response.status,
            "code": f"HTTP_{response.status}",
            "detail": response.body[:200].decode("utf-8", "replace").strip() or "the answer has no body",
            "errors": [],
            "correlation_id": response.header("X-Correlation-Id") or "",
        }
        return Problem.model_validate(problem)
