"""The one filter of lists: `tenant_id, status, request_type, since, until, label`."""

from __future__ import annotations

from datetime import UTC, datetime

import azure.functions as func

from shared.access.caller import Caller
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Parameter
from shared.core.states import JobStatus
from shared.operations.list_jobs import JobFilter
from triggers.http.problems import RequestError

#: instants that a key of a LIST row can be compared with
_FIRST, _LAST = datetime(1970, 1, 2, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

TENANT_ID = Parameter(
    name="tenant_id",
    where="query",
    schema={"type": "string"},
    description="Whose jobs; without it those of the token's tenant, or of all where it may see all.",
)
SINCE = Parameter(
    name="since",
    where="query",
    schema={"type": "string", "format": "date-time"},
    description="Created at or after this instant.",
)
UNTIL = Parameter(
    name="until",
    where="query",
    schema={"type": "string", "format": "date-time"},
    description="Created before this instant.",
)
FILTERS = (
    TENANT_ID,
    Parameter(
        name="status",
        where="query",
        schema={"type": "array", "minItems": 1, "items": {"enum": [str(status) for status in JobStatus]}},
        description="One or more states, with commas between.",
    ),
    Parameter(name="request_type", where="query", schema={"type": "string"}),
    SINCE,
    UNTIL,
    Parameter(
        name="label",
        where="query",
        schema={"type": "string", "pattern": r"^[^:]+:"},
        description="`key:value`: jobs whose label of that name has exactly that value.",
    ),
)
TENANT_PROBLEMS = ((400, ProblemCode.NOT_STORABLE), (403, ProblemCode.TENANT_FORBIDDEN))
RANGE_PROBLEMS = ((400, ProblemCode.SINCE_INVALID), (400, ProblemCode.UNTIL_INVALID))
FILTER_PROBLEMS = (
    (400, ProblemCode.STATUS_INVALID),
    *RANGE_PROBLEMS,
    (400, ProblemCode.LABEL_INVALID),
    *TENANT_PROBLEMS,
)


def parse_filter(req: func.HttpRequest, caller: Caller) -> JobFilter:
    """Raises RequestError (400) that names the parameter, and TenantForbidden."""
    return JobFilter(
        tenant_id=caller.tenant_for(req.params.get("tenant_id")),
        statuses=_statuses(req.params.get("status")),
        request_type=req.params.get("request_type"),
        since=_instant(req, SINCE, ProblemCode.SINCE_INVALID),
        until=_instant(req, UNTIL, ProblemCode.UNTIL_INVALID),
        label=_label(req.params.get("label")),
    )


def _statuses(given: str | None) -> frozenset[JobStatus] | None:
    if given is None:
        return None
    try:
        return frozenset(JobStatus(each.strip().upper()) for each in given.split(","))
    except ValueError:
        known = ", ".join(JobStatus)
        detail = f"status is one or more of {known}, with commas between"
        raise RequestError(ProblemCode.STATUS_INVALID, detail) from None


def _instant(req: func.HttpRequest, parameter: Parameter, code: ProblemCode) -> datetime | None:
    if (given := req.params.get(parameter.name)) is None:
        return None
    try:
        # an unescaped + of a query is a space
        instant = datetime.fromisoformat(given.strip().replace(" ", "+"))
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        detail = f"{parameter.name} must be an instant with its zone, for example 2026-01-27T10:00:00Z"
        raise RequestError(code, detail)
    return min(max(instant, _FIRST), _LAST)


def _label(given: str | None) -> tuple[str, str] | None:
    if given is None:
        return None
    key, colon, value = given.partition(":")
    if not key or not colon:
        raise RequestError(ProblemCode.LABEL_INVALID, "label must be key:value")
    return key, value
