"""The filters of jobs and incidents as query parameters, and the filter of jobs as a JSON object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import azure.functions as func

from shared.access.caller import Caller
from shared.apidocs.problem_codes import ProblemCode, Refusal
from shared.apidocs.route import Parameter, in_query
from shared.core.filters import TEXT, Filter, JobFilter, parameters_of, parse_filter
from shared.refusals import TenantForbidden


def query_parameters(filter_: type[Any]) -> tuple[Parameter, ...]:
    return tuple(in_query(each.name, each.kind.schema, each.description) for each in parameters_of(filter_))


def filter_problems(filter_: type[Any]) -> tuple[Refusal, ...]:
    """Returns `NAME_INVALID` for each parameter that can have invalid values, and the problems about tenants."""
    invalid = (ProblemCode[f"{each.name.upper()}_INVALID"] for each in parameters_of(filter_) if each.kind is not TEXT)
    return (*invalid, ProblemCode.NOT_STORABLE, TenantForbidden)


FILTERS = query_parameters(JobFilter)
FILTER_PROBLEMS = filter_problems(JobFilter)
#: JSON Schema of an object with the same parameters
FILTER_SCHEMA = {
    "type": "object",
    "description": "Parameters of the filter of `GET /v1/jobs` with their values.",
    "properties": {
        each.name: each.kind.in_json or {**each.kind.schema, "description": each.description}
        for each in parameters_of(JobFilter)
    }
    | {"tenant_id": {"type": "string", "description": "Tenant of the jobs. Default: the caller's tenant."}},
    "additionalProperties": False,
}


def filter_of(req: func.HttpRequest, caller: Caller, filter_: type[Filter]) -> Filter:
    """Returns the filter. Raises FilterInvalid, which names the parameter, and TenantForbidden."""
    names = (each.name for each in parameters_of(filter_))
    asked = parse_filter(filter_, {name: req.params[name] for name in names if name in req.params})
    return replace(asked, tenant_id=caller.tenant_for(asked.tenant_id))
