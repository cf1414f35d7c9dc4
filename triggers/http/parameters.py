"""Parameters that several routes take, each declared once."""

from __future__ import annotations

import re

import azure.functions as func

from shared.core.states import JobStatus
from shared.errors import Refusal
from triggers.http.paging import DEFAULT_PAGE, MAX_PAGE
from triggers.http.routes import Parameter

_JOB_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")

JOB_ID = Parameter(
    name="jobId",
    where="path",
    required=True,
    schema={"type": "string", "pattern": "^[A-Za-z0-9_-]{1,128}$"},
    description="As the submission answered it.",
)


def job_id_of(req: func.HttpRequest) -> str:
    """The path's job id; what has another form names no job, and no key of a table. Raises Refusal (404)."""
    job_id = req.route_params["jobId"]
    if _JOB_ID.fullmatch(job_id) is None:
        raise Refusal(404, "JOB_NOT_FOUND", f"there is no job {job_id[:128]}")
    return job_id


TENANT_ID = Parameter(
    name="tenant_id",
    where="query",
    schema={"type": "string"},
    description="Whose jobs; without it those of the token's tenant, or of all where it may see all.",
)
LIMIT = Parameter(
    name="limit",
    where="query",
    schema={"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": DEFAULT_PAGE},
    description="How many lines a page has at most.",
)
CURSOR = Parameter(
    name="cursor",
    where="query",
    schema={"type": "string"},
    description="`next` of the page before; opaque.",
)
PAGE = (LIMIT, CURSOR)
#: what `triggers.http.paging.page` refuses
PAGE_PROBLEMS = ((400, "LIMIT_INVALID"), (400, "CURSOR_INVALID"))

DRY_RUN = Parameter(
    name="dryRun",
    where="query",
    schema={"type": "boolean", "default": False},
    description="Only tell what would be done; nothing is written.",
)


def dry_run_of(req: func.HttpRequest) -> bool:
    """Raises Refusal (400)."""
    given = {"true": True, "false": False}.get(req.params.get("dryRun", "false").lower())
    if given is None:
        raise Refusal(400, "DRY_RUN_INVALID", "dryRun must be true or false")
    return given


#: the one filter grammar of lists, as `triggers.http.filters` reads it
FILTERS = (
    TENANT_ID,
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
FILTER_PROBLEMS = (
    (400, "STATUS_INVALID"),
    (400, "SINCE_INVALID"),
    (400, "UNTIL_INVALID"),
    (400, "LABEL_INVALID"),
    (400, "NOT_STORABLE"),
    (403, "TENANT_FORBIDDEN"),
)
