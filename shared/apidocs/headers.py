"""Headers of requests and responses, as the OpenAPI document describes them."""

from __future__ import annotations

import re
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
            "Correlation id of this request, at most 128 printable ASCII characters. The API replaces any other "
            "value. The id is in the response, in the logs and, if the job request has no correlation id, in the job."
        ),
    },
    "IfNoneMatch": {
        "name": "If-None-Match",
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": "ETags of earlier responses, separated by commas. Returns 304 if one of these ETags is current.",
    },
}


def _header(description: str, *, required: bool = True, **schema: Any) -> JsonObject:
    return {"description": description, "required": required, "schema": {"type": "string", **schema}}


HEADERS: JsonObject = {
    "X-Correlation-Id": _header("Correlation id of the request, or a new id.", minLength=1, maxLength=128),
    "ETag": _header(
        "ETag of the body, for `If-None-Match`. For a quota, the `etag` of the quota, for `If-Match`.",
        pattern='^"[0-9a-f]{32}"$',
    ),
    "PageETag": _header("ETag of a page. Absent for streams.", required=False, pattern='^"[0-9a-f]{32}"$'),
    "Location": _header(
        "Path of the job, bulk operation or webhook.",
        pattern=r"^/v1/(jobs/[A-Za-z0-9_-]+|bulk/bulk_[0-9a-f]+\?tenant=[^&]+|webhooks/hook_[0-9a-f]+\?tenant_id=[^&]+)$",
    ),
    "Idempotency-Replayed": _header(
        "`true` if the job, bulk operation or webhook existed already.", required=False, enum=["true"]
    ),
    "JobLocation": _header(
        "Path of the job, if the body is a job.", required=False, pattern=r"^/v1/jobs/[A-Za-z0-9_-]+$"
    ),
    "Preference-Applied": _header(
        "Maximum number of seconds that the server waits for the job to end (RFC 7240). Absent if no `wait` is in "
        "effect.",
        required=False,
        pattern="^wait=([0-9]|1[0-9]|20)$",
    ),
    "Retry-After": _header("Seconds to wait before repeating the request.", pattern="^[0-9]+$"),
    "HeadsRetry-After": _header(
        "HEADS_INCOMPLETE only. Seconds to wait before repeating the request.", required=False, pattern="^[0-9]+$"
    ),
    "WWW-Authenticate": _header("Missing or wrong credentials (RFC 6750).", pattern="^Bearer"),
    "Vary": _header("The response depends on `Accept`.", enum=["Accept"]),
    "Deprecation": _header("Time when this path was deprecated (RFC 9745).", pattern="^@[0-9]+$"),
    "RunLink": _header(
        "Path of the rest of the log, as `next`. Absent for streams, and at the end of the log of a run that has "
        "ended.",
        required=False,
    ),
    "RunLocation": _header("URL of the artifact, valid for five minutes."),
    "Link": _header('Path that replaces this path, with `rel="successor-version"`.'),
    "Cache-Control": _header(
        "Cache policy. Errors, and responses that can contain a secret, must not be cached.",
        enum=[OWN, PUBLIC, IMMUTABLE, NO_STORE],
    ),
}


def of(route: Route, status: int) -> JsonObject:
    """Returns the headers of one response of a route."""
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
    return {re.sub("^(Page|Job|Run|Heads)", "", name): {"$ref": f"#/components/headers/{name}"} for name in names}
