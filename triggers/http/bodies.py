"""Reads request bodies of at most 1 MiB. A JSON body must be declared as JSON and be strict JSON
(`shared.core.records.strict_json`).
"""

from __future__ import annotations

from typing import Any, TypeVar

import azure.functions as func
from pydantic import BaseModel, ValidationError

from shared.apidocs.problem_codes import ProblemCode, Refusal
from shared.core.records.strict_json import parse_json
from shared.refusals import BodyTooLarge, Refused
from triggers.http.problems import RequestError, errors_of

MAX_BODY_BYTES = 1024 * 1024


class UndeclaredJson(Refused, status=415, code=ProblemCode.NOT_JSON):
    """The operation does not accept the `Content-Type`. Send `application/json`, or a type that ends in `+json`."""


#: problems of every route that reads a JSON body
BODY_PROBLEMS = (ProblemCode.NOT_JSON, ProblemCode.LENGTH_REQUIRED, BodyTooLarge, UndeclaredJson)

#: headers of a body whose length the host does not know (Azure/azure-functions-host#7930; `request.ContentLength > 0`
#: in its GrpcMessageConversionExtensions.cs)
_CHUNKED = "Azure Functions does not support chunked bodies; send Content-Length instead of Transfer-Encoding: chunked"

_Body = TypeVar("_Body", bound=BaseModel)


def sent_body(req: func.HttpRequest) -> bytes:
    """Returns the raw body, which can be empty. Raises RequestError (411) if the host lost a chunked body."""
    body: bytes = req.get_body()
    if not body and "chunked" in req.headers.get("Transfer-Encoding", "").lower():
        raise RequestError(ProblemCode.LENGTH_REQUIRED, _CHUNKED)
    return body


def refuse_large_body(req: func.HttpRequest) -> None:
    """Refuses a body by its declared length. This check comes before the body or the token is read, so every caller
    gets the same response.

    Raises BodyTooLarge.
    """
    declared: str = req.headers.get("Content-Length", "")
    # no host accepts a length with more digits
    if declared.isdecimal() and len(declared) < 20:
        _check(int(declared))


def bounded_body(req: func.HttpRequest) -> bytes:
    """Returns the raw body. Raises BodyTooLarge and RequestError (411)."""
    body = sent_body(req)
    _check(len(body))
    return body


def _check(size: int) -> None:
    if size > MAX_BODY_BYTES:
        raise BodyTooLarge(f"the body is too large: {size} bytes, maximum {MAX_BODY_BYTES}; send a shorter body")


def json_body(req: func.HttpRequest) -> bytes:
    """Returns the raw body of a request that declares JSON. Raises BodyTooLarge, UndeclaredJson and RequestError
    (411).
    """
    body = bounded_body(req)
    media_type = media_type_of(req)
    if media_type != "application/json" and not media_type.endswith("+json"):
        raise UndeclaredJson("send Content-Type: application/json")
    return body


def media_type_of(req: func.HttpRequest) -> str:
    declared: str = req.headers.get("Content-Type", "")
    return declared.split(";")[0].strip().lower()


def json_of_text(body: bytes) -> Any:
    """Parses JSON text. Raises RequestError (400)."""
    try:
        return parse_json(body)
    except ValueError as wrong:
        raise RequestError(ProblemCode.NOT_JSON, str(wrong)) from None


def optional_body(req: func.HttpRequest, model: type[_Body], code: Refusal) -> _Body:
    """Parses the body as `model`. Without a body, returns the model's defaults. Raises errors as `json_body` does, and
    RequestError (400).
    """
    given = json_of_text(json_body(req)) if sent_body(req).strip() else {}
    try:
        return model.model_validate(given, strict=True)
    except ValidationError as wrong:
        detail = "invalid request body; see errors"
        raise RequestError(code, detail, errors=errors_of(wrong)) from None
