"""The one filter of jobs as query parameters: `tenant_id, status, request_type, since, until, label`."""

from __future__ import annotations

from dataclasses import replace

import azure.functions as func

from shared.access.caller import Caller
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Parameter
from shared.core.filters import WORDS, JobFilter, parse_filter
from shared.core.jobs.states import JobStatus
from shared.refusals import TenantForbidden

FILTERS = (
    Parameter(
        name="tenant_id",
        where="query",
        schema={"type": "string"},
        description="Whose jobs; without it those of the token's tenant, or of all where it may see all.",
    ),
    Parameter(
        name="status",
        where="query",
        schema={"type": "array", "minItems": 1, "items": {"enum": [str(status) for status in JobStatus]}},
        description="One or more states, with commas between.",
    ),
    Parameter(name="request_type", where="query", schema={"type": "string"}),
    Parameter(
        name="since",
        where="query",
        schema={"type": "string", "format": "date-time"},
        description="Created at or after this instant.",
    ),
    Parameter(
        name="until",
        where="query",
        schema={"type": "string", "format": "date-time"},
        description="Created before this instant.",
    ),
    Parameter(
        name="label",
        where="query",
        schema={"type": "string", "pattern": r"^[^:]+:"},
        description="`key:value`: jobs whose label of that name has exactly that value.",
    ),
)
_STATES = "|".join(JobStatus)
#: the same words in a JSON object
FILTER_SCHEMA = {
    "type": "object",
    "description": "Words of the filter of `GET /v1/jobs` with their values. `tenant_id` names the tenant; without it "
    "that of the token.",
    "properties": {each.name: {**each.schema, "description": each.description} for each in FILTERS}
    | {
        "status": {
            "anyOf": [
                {"type": "array", "minItems": 1, "items": {"enum": [str(status) for status in JobStatus]}},
                {"type": "string", "pattern": f"^({_STATES})(,({_STATES}))*$"},
            ],
            "description": "One or more states, as a list or with commas between.",
        }
    },
    "additionalProperties": False,
}
FILTER_PROBLEMS = (
    ProblemCode.STATUS_INVALID,
    ProblemCode.SINCE_INVALID,
    ProblemCode.UNTIL_INVALID,
    ProblemCode.LABEL_INVALID,
    ProblemCode.NOT_STORABLE,
    TenantForbidden,
)


def filter_of(req: func.HttpRequest, caller: Caller) -> JobFilter:
    """Raises FilterInvalid, which names the parameter, and TenantForbidden."""
    asked = parse_filter({word: req.params[word] for word in WORDS if word in req.params})
    return replace(asked, tenant_id=caller.tenant_for(asked.tenant_id))
