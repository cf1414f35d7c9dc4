"""HTTP responses: JSON bodies with an ETag, and the correlation id that every response carries."""

from __future__ import annotations

import json
import uuid
from typing import Any

import azure.functions as func
from pydantic import BaseModel

from shared.core.canonical import digest


def respond(
    req: func.HttpRequest,
    body: BaseModel | dict[str, Any] | str,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    media_type: str = "application/json",
) -> func.HttpResponse:
    """A response of a model or of JSON, or of text as it is.

    Reads carry an ETag of the body and honour If-None-Match (RFC 9110 13.1.2).
    """
    text = body if isinstance(body, str) else json.dumps(json_of(body), ensure_ascii=False)
    sent = {"X-Correlation-Id": correlation_id(req), **(headers or {})}
    if status == 200 and req.method in ("GET", "HEAD"):
        sent["ETag"] = f'"{digest(text)[:32]}"'
        known = [tag.strip().removeprefix("W/") for tag in req.headers.get("If-None-Match", "").split(",")]
        if sent["ETag"] in known or known == ["*"]:
            return func.HttpResponse(status_code=304, headers=sent)
    return func.HttpResponse(text, status_code=status, headers=sent, mimetype=media_type)


def json_of(body: BaseModel | dict[str, Any]) -> dict[str, Any]:
    """A body as JSON; of a model, the members that were given to it."""
    return body if isinstance(body, dict) else body.model_dump(mode="json", exclude_unset=True)


def correlation_id(req: func.HttpRequest) -> str:
    """The caller's `X-Correlation-Id`, if it can be repeated in a header; else a new one."""
    given: str = req.headers.get("X-Correlation-Id", "")
    if 0 < len(given) <= 128 and given.isascii() and given.isprintable():
        return given
    # once a request: the response, the job and the log have the same
    return str(req.__dict__.setdefault("lucius_correlation_id", str(uuid.uuid4())))
