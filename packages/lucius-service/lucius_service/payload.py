"""Validation of a step's payload by a pydantic model."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from lucius_service.errors import PAYLOAD_INVALID, FailedFinal

_Model = TypeVar("_Model", bound=BaseModel)


def read_payload(model: type[_Model], payload: Any) -> _Model:
    """No payload is an empty one. Raises FailedFinal, naming the first field that is wrong."""
    try:
        return model.model_validate({} if payload is None else payload)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "payload"
        raise FailedFinal(PAYLOAD_INVALID, f"{where}: {first['msg']}") from None
