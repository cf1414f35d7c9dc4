"""Parameters of several routes, each declared next to the function that reads it."""

from __future__ import annotations

import base64
import binascii
import difflib
import re

import azure.functions as func

from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Route, in_path, in_query
from shared.errors import excerpt
from shared.refusals import JobNotFound
from triggers.http.problems import RequestError

_JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")

JOB_ID = in_path(
    "jobId", {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"}, "Job id, from the response to the submission."
)


def is_job_id(text: str) -> bool:
    """Returns True if a job can have this id."""
    return _JOB_ID.fullmatch(text) is not None


def job_id_of(req: func.HttpRequest) -> str:
    """Returns the job id in the path. Raises JobNotFound if its form is invalid."""
    job_id: str = req.route_params["jobId"]
    if not is_job_id(job_id):
        raise JobNotFound(job_id)
    return job_id


#: parameters that the Functions host and API Management read, and leave in the query
_OF_GATEWAYS = frozenset({"code", "clientId", "subscription-key"})
#: maximum unknown parameters that a problem names, and maximum length of each
_MAX_NAMES, _MAX_NAME = 5, 64


def refuse_unknown_parameters(req: func.HttpRequest, route: Route) -> None:
    """Refuses a query parameter that the route does not declare, so that a misspelt `dryRun` does not act.

    Raises RequestError (400).
    """
    known = [each.name for each in route.parameters if each.where == "query"]
    unknown = sorted(set(req.params) - set(known) - _OF_GATEWAYS)
    if not unknown:
        return
    errors = []
    for name in (each[:_MAX_NAME] for each in unknown[:_MAX_NAMES]):
        # names differ in case more often than in letters
        like = difflib.get_close_matches(name.lower(), [each.lower() for each in known], n=1)
        near = next((each for each in known if like and each.lower() == like[0]), None)
        takes = f"did you mean {near}?" if near else f"the route accepts {', '.join(known) or 'no parameters'}"
        errors.append((name, f"unknown query parameter; {takes}"))
    detail = "; ".join(f"{name}: {message}" for name, message in errors)
    raise RequestError(ProblemCode.PARAMETER_UNKNOWN, detail, errors=tuple(errors))


DRY_RUN = in_query(
    "dryRun", {"type": "boolean", "default": False}, "Preview: return the result without changing anything."
)


def dry_run_of(req: func.HttpRequest) -> bool:
    """Returns the value of `dryRun`. Raises RequestError (400)."""
    text = req.params.get("dryRun", "false")
    given = {"true": True, "false": False}.get(text.lower())
    if given is None:
        raise RequestError(ProblemCode.DRY_RUN_INVALID, f"dryRun must be true or false, not {excerpt(text)}")
    return given


MAX_PAGE = 1000
DEFAULT_PAGE = 100
_MAX_DIGITS = 10

LIMIT = in_query(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE},
    f"Maximum items per page. Default {DEFAULT_PAGE}, maximum {MAX_PAGE:,}.",
)
CURSOR = in_query("cursor", {"type": "string"}, "`next` of the previous page. Opaque.")
PAGE = (LIMIT, CURSOR)
#: problems that `page` can raise
PAGE_PROBLEMS = (ProblemCode.LIMIT_INVALID, ProblemCode.CURSOR_INVALID)


def page(req: func.HttpRequest) -> tuple[int, str]:
    """Returns the limit, and the position of the cursor ("" at the beginning). Raises RequestError (400)."""
    given = req.params.get("limit", str(DEFAULT_PAGE))
    # a longer number exceeds every limit, and `int` has its own error for thousands of digits
    if not given.isdecimal() or len(given) > _MAX_DIGITS or not 1 <= int(given) <= MAX_PAGE:
        raise RequestError(
            ProblemCode.LIMIT_INVALID, f"limit must be a whole number from 1 to {MAX_PAGE}, not {excerpt(given)}"
        )
    try:
        position = base64.b64decode(req.params.get("cursor", ""), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise bad_cursor() from None
    return int(given), position


def cursor(position: str | None) -> str | None:
    """Returns the `next` cursor of a page: the opaque position of its last row. Returns None without a position."""
    return base64.urlsafe_b64encode(position.encode()).decode() if position else None


def bad_cursor(source: str = "`next` of the previous page") -> RequestError:
    """Makes the problem of an invalid cursor. `source` names the place of valid cursors."""
    return RequestError(ProblemCode.CURSOR_INVALID, f"cursor invalid; use {source}")
