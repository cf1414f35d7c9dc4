"""Headers of requests and responses, as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Any

from shared.apidocs.json_schema import JsonObject
from shared.apidocs.route import IMMUTABLE, NO_STORE, OWN, PUBLIC, Route

PARAMETERS: JsonObject = {
    "CorrelationId": {
        "name": "X-Correlation-Id",
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": (
            "Your name for this request: at most 128 printable ASCII characters; anything else is replaced. It stands "
            "in the answer, in the logs and, where the envelope names none, in the job."
        ),
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": "ETags of an earlier answer, with commas between; 304 if one of them still holds.",
    },
}


def _header(description: str, *, required: bool = True, **schema: Any) -> JsonObject:
    return {"description": description, "required": required, "schema": {"type": "string", **schema}}


HEADERS: JsonObject = {
    "X-Correlation-Id": _header("The request's, or a new one.", minLength=1, maxLength=128),
    "ETag": _header(
        "Of the body; for `If-None-Match`. Of a gate: of its rule; for `If-Match`.", pattern='^"[0-9a-f]{32}"$'
    ),
    "PageETag": _header("Of a page; a stream has none.", required=False, pattern='^"[0-9a-f]{32}"$'),
    "Location": _header(
        "Path of the job, the bulk or the webhook.",
        pattern=r"^/v1/(jobs/[A-Za-z0-9_-]+|bulk/bulk_[0-9a-f]+\?tenant=[^&]+|webhooks/hook_[0-9a-f]+\?tenant_id=[^&]+)$",
    ),
    "Idempotency-Replayed": _header("The job, bulk or webhook was there already.", required=False, enum=["true"]),
    "JobLocation": _header(
        "Path of the job, if the body is one.", required=False, pattern=r"^/v1/jobs/[A-Za-z0-9_-]+$"
    ),
    "Preference-Applied": _header(
        "Seconds that the server waits at most for the end of the job (RFC 7240); absent: it did not wait.",
        required=False,
        pattern="^wait=([0-9]|1[0-9]|20)$",
    ),
    "Retry-After": _header("Seconds to wait before the same request is sent again.", pattern="^[0-9]+$"),
    "WWW-Authenticate": _header("What is missing or wrong, as RFC 6750 has it.", pattern="^Bearer"),
    "Vary": _header("An answer to one `Accept` is none to another.", enum=["Accept"]),
    "Deprecation": _header("Since when this is an older name (RFC 9745).", pattern="^@[0-9]+$"),
    "Link": _header("The newer name, as `successor-version`."),
    "Cache-Control": _header(
        "Whether it may be kept: never where a secret may stand in it, and no refusal.",
        enum=[OWN, PUBLIC, IMMUTABLE, NO_STORE],
    ),
}


def of(route: Route, status: int) -> JsonObject:
    """The headers of one answer of a route."""
    names = ["X-Correlation-Id", "Cache-Control"]
    if route.method == "GET" and status in (200, 304):
        names.append("PageETag" if route.streams else "ETag")
    names += route.headers.get(status, ())
    if status in (429, 503):
        names.append("Retry-After")
    if status == 401:
        names.append("WWW-Authenticate")
    if route.streams:
        names.append("Vary")
    if route.deprecated:
        names += ["Deprecation", "Link"]
    return {name.removeprefix("Page").removeprefix("Job"): {"$ref": f"#/components/headers/{name}"} for name in names}
