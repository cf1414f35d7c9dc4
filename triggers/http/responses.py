"""HTTP responses, with JSON bodies, ETags and correlation ids."""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import azure.functions as func
from pydantic import BaseModel

_WEIGHT = re.compile(r"[01](\.[0-9]{0,3})?")


@dataclass(frozen=True)
class Content:
    """An encoded body with its ETag, made once for many requests."""

    body: bytes
    media_type: str = "application/json"

    @cached_property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


def content_of(body: BaseModel | dict[str, Any] | str, media_type: str = "application/json") -> Content:
    """Encodes a model or JSON as text, or plain text, in UTF-8."""
    text = body if isinstance(body, str) else json.dumps(json_of(body), ensure_ascii=False)
    return Content(text.encode(), media_type)


def respond(
    req: func.HttpRequest,
    body: BaseModel | dict[str, Any] | Content,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    etag: str | None = None,
) -> func.HttpResponse:
    """Makes a response from a model, JSON, or existing content.

    A response to a read has an ETag of the body and honours If-None-Match (RFC 9110 13.1.2). `etag` is an ETag
    for If-Match, which stays while the body changes. With `etag`, If-None-Match has no effect.
    """
    content = body if isinstance(body, Content) else content_of(body)
    sent = {"X-Correlation-Id": correlation_id(req), **(headers or {})}
    if etag is not None:
        sent["ETag"] = etag
    elif status == 200 and req.method in ("GET", "HEAD"):
        sent["ETag"] = content.etag
        known = [tag.strip().removeprefix("W/") for tag in req.headers.get("If-None-Match", "").split(",")]
        if sent["ETag"] in known or known == ["*"]:
            return func.HttpResponse(status_code=304, headers=sent)
    return func.HttpResponse(content.body, status_code=status, headers=sent, mimetype=content.media_type)


def respond_packed(req: func.HttpRequest, content: Callable[[bool], Content]) -> func.HttpResponse:
    """Makes a response from `content(True)`, in gzip, for a client that accepts gzip, else from `content(False)`.

    Follows RFC 9110 12.5.3.
    """
    codings = weights_of(req.headers.get("Accept-Encoding", ""))
    packed = codings.get("gzip", codings.get("*", 0.0)) > 0
    headers = {"Vary": "Accept-Encoding", **({"Content-Encoding": "gzip"} if packed else {})}
    return respond(req, content(packed), headers=headers)


def respond_page(req: func.HttpRequest, content: Content, name: str, *, policy: str) -> func.HttpResponse:
    """Makes a page with its Content-Security-Policy. `name` is the last segment of its path, from which its links
    start. Redirects a request whose path ends with `/` to the page (308).
    """
    if req.url.partition("?")[0].endswith("/"):
        # the host also serves this path, from which the page's links would be wrong
        return respond(req, Content(b"", "text/html"), status=308, headers={"Location": f"../{name}"})
    return respond(req, content, headers={"Content-Security-Policy": policy, "Referrer-Policy": "no-referrer"})


def json_of(body: BaseModel | dict[str, Any]) -> dict[str, Any]:
    """Converts a body to JSON. A model has only the fields that were set."""
    return body if isinstance(body, dict) else body.model_dump(mode="json", exclude_unset=True)


def correlation_id(req: func.HttpRequest) -> str:
    """Returns the caller's `X-Correlation-Id` if a header can repeat it, else a new id."""
    given: str = req.headers.get("X-Correlation-Id", "")
    if 0 < len(given) <= 128 and given.isascii() and given.isprintable():
        return given
    # once per request, so that response, job and log have the same id
    return str(req.__dict__.setdefault("lucius_correlation_id", str(uuid.uuid4())))


def weights_of(accepted: str) -> dict[str, float]:
    """Returns each value of `Accept` or `Accept-Encoding` in lower case, with its weight from 0 to 1 (RFC 9110 12.4.2).

    The default is 1, also for a weight that is not a number.
    """
    return dict(map(_weight, accepted.split(",")))


def _weight(accepted: str) -> tuple[str, float]:
    value, *parameters = (each.strip().lower() for each in accepted.split(";"))
    given = next((each[2:] for each in parameters if each.startswith("q=")), "1")
    return value, float(given) if _WEIGHT.fullmatch(given) else 1.0
