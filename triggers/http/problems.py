"""HTTP answers: JSON bodies, and RFC 9457 problems for everything that goes wrong (CONTRACT "HTTP")."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

import azure.functions as func
from pydantic import BaseModel, ValidationError

from shared import telemetry
from shared.core.canonical import digest
from shared.core.strict_json import parse_json
from shared.errors import LedgerRefused, Refusal, Transient

MAX_BODY_BYTES = 1024 * 1024

Handler = Callable[..., Awaitable[func.HttpResponse]]

_Body = TypeVar("_Body", bound=BaseModel)


def respond(
    req: func.HttpRequest,
    body: Any,
    *,
    status: int = 200,
    headers: dict[str, str] | None = None,
    media_type: str = "application/json",
) -> func.HttpResponse:
    """A JSON answer, or text where `body` is to be read as it is (`text/...`).

    Reads carry an ETag of the body and honour If-None-Match (RFC 9110 13.1.2).
    """
    text = body if media_type.startswith("text/") else json.dumps(body, ensure_ascii=False)
    told = {"X-Correlation-Id": correlation_id(req), **(headers or {})}
    if status == 200 and req.method in ("GET", "HEAD"):
        told["ETag"] = f'"{digest(text)[:32]}"'
        known = [tag.strip().removeprefix("W/") for tag in req.headers.get("If-None-Match", "").split(",")]
        if told["ETag"] in known or known == ["*"]:
            return func.HttpResponse(status_code=304, headers=told)
    return func.HttpResponse(text, status_code=status, headers=told, mimetype=media_type)


def correlation_id(req: func.HttpRequest) -> str:
    """The caller's `X-Correlation-Id`, if it is fit to be repeated; else one of ours."""
    given = req.headers.get("X-Correlation-Id", "")
    if 0 < len(given) <= 128 and given.isascii() and given.isprintable():
        return given
    # once a request: the answer, the job and the log have the same
    return str(req.__dict__.setdefault("lucius_correlation_id", str(uuid.uuid4())))


def problem(
    req_id: str,
    status: int,
    code: str,
    detail: str,
    *,
    errors: tuple[tuple[str, str], ...] = (),
    headers: dict[str, str] | None = None,
    extra: dict[str, Any] | None = None,
) -> func.HttpResponse:
    """`application/problem+json`; `code` is stable, `detail` is for people."""
    body = {
        "type": f"urn:lucius:problem:{code.lower().replace('_', '-')}",
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
        "errors": [{"path": path, "message": message} for path, message in errors],
        "correlation_id": req_id,
        **(extra or {}),
    }
    return func.HttpResponse(
        json.dumps(body, ensure_ascii=False),
        status_code=status,
        headers={"X-Correlation-Id": req_id, **(headers or {})},
        mimetype="application/problem+json",
    )


def responds_with_problems(handler: Handler) -> Handler:
    """Turns every error of a handler into a problem; a caller never sees a stack trace."""

    @wraps(handler)
    async def wrapped(req: func.HttpRequest, *args: Any, **kwargs: Any) -> func.HttpResponse:
        try:
            return await handler(req, *args, **kwargs)
        except Exception as error:
            return problem_of(error, correlation_id(req))

    return wrapped


def problem_of(error: Exception, req_id: str) -> func.HttpResponse:
    """The problem that an error becomes, logged where it is ours."""
    match error:
        case Refusal() as no:
            return problem(req_id, no.status, no.code, no.detail, errors=no.errors, headers=no.headers, extra=no.extra)
        case ValidationError() as wrong:
            return problem(
                req_id,
                400,
                "ENVELOPE_INVALID",
                "the request body is not a valid envelope; see errors",
                errors=_errors(wrong),
            )
        case LedgerRefused():
            telemetry.warn("LEDGER_REFUSED", correlation_id=req_id, reason=str(error))
            return problem(req_id, 400, "NOT_STORABLE", "the ledger cannot hold a value of this request")
        case Transient():
            telemetry.record_fault(error)
            telemetry.warn("DEPENDENCY_UNAVAILABLE", correlation_id=req_id, reason=str(error))
            return problem(
                req_id,
                503,
                "DEPENDENCY_UNAVAILABLE",
                "a service that LUCIUS needs does not answer; send the same request again",
                headers={"Retry-After": "5"},
            )
        case _:
            logging.getLogger("lucius").error("unexpected error, correlation_id=%s", req_id, exc_info=error)
            return problem(req_id, 500, "INTERNAL", "something went wrong here; the log has it under correlation_id")


def json_body(req: func.HttpRequest) -> bytes:
    """The raw body of a JSON request. Raises Refusal (413, 415)."""
    body = req.get_body()
    if len(body) > MAX_BODY_BYTES:
        raise Refusal(413, "BODY_TOO_LARGE", f"the body has {len(body)} bytes; at most {MAX_BODY_BYTES} are taken")
    media_type = req.headers.get("Content-Type", "").split(";")[0].strip().lower()
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise Refusal(415, "NOT_JSON", "send Content-Type: application/json")
    return body


def optional_body(req: func.HttpRequest, model: type[_Body], code: str) -> _Body:
    """The body as `model`; without one, the model's defaults. Raises Refusal (400, 413, 415)."""
    if not req.get_body().strip():
        return model()
    try:
        return model.model_validate(parse_json(json_body(req)), strict=True)
    except ValidationError as wrong:
        detail = "the request body is not what this route takes; see errors"
        raise Refusal(400, code, detail, errors=_errors(wrong)) from None
    except ValueError as wrong:
        raise Refusal(400, "NOT_JSON", str(wrong)) from None


def _errors(wrong: ValidationError) -> tuple[tuple[str, str], ...]:
    return tuple(
        (".".join(str(part) for part in each["loc"]), each["msg"].removeprefix("Value error, "))
        for each in wrong.errors()
    )
